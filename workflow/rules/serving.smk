"""Throughput, energy and CO2 of the dense and 2of4 checkpoints.

REQUIRED INPUTS: a dense model's record or a pruned checkpoint's check.json; UltraChat.
OUTPUTS: exported/{model}/{method}/2of4/{calibration}/s{seed}/, where 2:4 is served compressed;
serving/{model}/{method}/{regime}/{calibration}/s{seed}/efficiency.json.
"""


rule export_sparse24:
    """Compress the 2:4 weights of a checkpoint, so that 2:4 kernels can serve it."""
    input:
        "<results>/pruned/{model}/{method}/2of4/{calibration}/s{seed}/check.json",
        parameters=parameters("export_sparse24"),
    output:
        export=directory(
            "<results>/exported/{model}/{method}/2of4/{calibration}/s{seed}"
        ),
    log:
        "<results>/logs/export_sparse24/{model}/{method}/2of4/{calibration}/s{seed}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(16000),
        runtime=60,
    params:
        trust=trust_flag,
        model=subpath(input[0], parent=True),
        code=code_digest("serving.export_sparse24"),
    shell:
        "python -m evenprune export-sparse24 --model {params.model:q}/model"
        " {params.trust} --out {output.export:q} 2>&1 | tee {log:q}"


rule benchmark_serving:
    """Measure generation speed and the energy around it; nothing else runs meanwhile."""
    input:
        ready=served_input,
        prompts="<results>/sources/data/ultrachat.json",
        parameters=parameters(
            "benchmark_serving", "model", "method", "regime", "calibration", "seed"
        ),
    output:
        efficiency="<results>/serving/{model}/{method}/{regime}/{calibration}/s{seed}/efficiency.json",
    log:
        "<results>/logs/benchmark_serving/{model}/{method}/{regime}/{calibration}/s{seed}.log",
    conda:
        "../envs/vllm.yml"
    # All cores, so that no other job of this run disturbs the measurement.
    threads: workflow.cores
    resources:
        gpu=GPUS_PER_JOB,
        mem_mb=memory_mb(32000) if GPUS_PER_JOB else memory_mb(6000),
        runtime=120,
    params:
        # vLLM has an environment of its own, see config/README.md.
        python=SERVING_PYTHON,
        cache=f"{RESULTS}/.cache/vllm",
        model=served_folder,
        flags=serving_flags,
        trust=trust_flag,
        device=DEVICE_FLAGS,
        code=code_digest("serving.benchmark_serving"),
    shell:
        "VLLM_CACHE_ROOT=$(realpath -m {params.cache:q}) {params.python:q}"
        " -m evenprune benchmark-serving --model {params.model:q}"
        " --prompts {input.prompts:q} {params.flags} {params.trust} {params.device}"
        " --out {output.efficiency:q} 2>&1 | tee {log:q}"
