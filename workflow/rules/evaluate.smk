"""Evaluation: all benchmarks of one checkpoint in one model load.

REQUIRED INPUTS: a dense model's record or a pruned checkpoint's check.json; data records;
records of guard models, where benchmarks have one.
OUTPUTS: evals/{model}/{method}/{regime}/{calibration}/s{seed}/summary.json and, beside it,
one folder a benchmark with metrics.json and items.jsonl. Those folders are not declared, so
Snakemake keeps them when the list of benchmarks changes and only new ones are computed.
"""


rule evaluate_checkpoint:
    """Run the configured benchmarks on one checkpoint."""
    input:
        ready=ready,
        data=benchmark_inputs,
        judges=judge_inputs,
        parameters=parameters(
            "evaluate_checkpoint", "model", "method", "regime", "calibration", "seed"
        ),
    output:
        summary="<results>/evals/{model}/{method}/{regime}/{calibration}/s{seed}/summary.json",
    log:
        "<results>/logs/evaluate_checkpoint/{model}/{method}/{regime}/{calibration}/s{seed}.log",
    conda:
        "../../environment.yml"
    threads: CONFIG.threads
    resources:
        gpu=GPUS_PER_JOB,
        mem_mb=(
            memory_mb(32000)
            if GPUS_PER_JOB
            else memory_mb(6000 if VLLM_BENCHMARKS else 3000)
        ),
        runtime=720,
    params:
        model=folder,
        benchmarks=benchmarks_json,
        trust=trust_flag,
        device=DEVICE_FLAGS,
        # The interpreter of the benchmarks whose backend is vLLM.
        vllm=VLLM_FLAGS,
        cache=f"{RESULTS}/.cache/vllm",
        out=subpath(output.summary, parent=True),
        code=EVALUATION_CODE,
    shell:
        "VLLM_CACHE_ROOT=$(realpath -m {params.cache:q})"
        " python -m evenprune evaluate-checkpoint --model {params.model:q}"
        " --benchmarks {params.benchmarks:q} {params.trust} {params.device} {params.vllm}"
        " --out {params.out:q} 2>&1 | tee {log:q}"
