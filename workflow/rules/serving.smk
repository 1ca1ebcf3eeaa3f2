"""Throughput, energy and CO2 of the dense and 2of4 checkpoints.

REQUIRED INPUTS: a dense model's record or a pruned checkpoint's check.json; UltraChat.
OUTPUTS: serving/{model}/{method}/{regime}/{calibration}/s{seed}/efficiency.json.
"""


rule benchmark_serving:
    """Measure generation speed and the energy around it; nothing else runs meanwhile."""
    input:
        ready=ready,
        prompts="<results>/sources/data/ultrachat.json",
    output:
        efficiency="<results>/serving/{model}/{method}/{regime}/{calibration}/s{seed}/efficiency.json",
    log:
        "<results>/logs/benchmark_serving/{model}/{method}/{regime}/{calibration}/s{seed}.log",
    # A measurement that other work on the machine has spoilt is refused, so try again.
    retries: 2
    conda:
        "../../environment.yml"
    # All cores, so that no other job of this run disturbs the measurement.
    threads: workflow.cores
    resources:
        gpu=GPUS_PER_JOB,
        mem_mb=memory_mb(32000) if GPUS_PER_JOB else memory_mb(3000),
        runtime=120,
    params:
        model=folder,
        flags=serving_flags,
        device=DEVICE_FLAGS,
        code=code_digest("serving.command"),
    shell:
        "python -m debias_sparsegpt benchmark-serving --model {params.model:q}"
        " --prompts {input.prompts:q} {params.flags} {params.device}"
        " --out {output.efficiency:q} 2>&1 | tee {log:q}"
