"""Evaluation: all benchmarks of one checkpoint in one model load.

REQUIRED INPUTS: a dense model's record or a pruned checkpoint's check.json; data records;
records of guard models, where benchmarks have one.
OUTPUTS: evals/{model}/{method}/{regime}/{calibration}/s{seed}/summary.json and, beside it,
one folder a benchmark with metrics.json and items.jsonl. Those folders are not declared, so
Snakemake keeps them when the list of benchmarks changes and only new ones are computed;
summary.json has the checksums of each metrics.json, that one of its items.jsonl, and whatever
reads them checks both (plan/finished.py).
"""


rule evaluate_checkpoint:
    """Run the configured benchmarks on one checkpoint."""
    input:
        ready=of_point(PATHS.ready),
        model=ancient(of_point(PATHS.folder)),
        data=of_point(jobs.benchmark_sources, PATHS),
        judges=of_point(jobs.judge_sources, PATHS),
    output:
        summary="<results>/evals/{model}/{method}/{regime}/{calibration}/s{seed}/summary.json",
    log:
        "<results>/logs/evaluate_checkpoint/{model}/{method}/{regime}/{calibration}/s{seed}.log",
    benchmark:
        "<results>/logs/evaluate_checkpoint/{model}/{method}/{regime}/{calibration}/s{seed}.tsv"
    # Finish a checkpoint before the next one is begun.
    priority: 1
    conda:
        "../../environment.yml"
    threads: CONFIG.threads
    resources:
        gpu=model_gpus,
        mem_mb=memory_mb(
            32000 if CONFIG.device == "cuda" else 6000 if ON_VLLM else 3000
        ),
        runtime=minutes(720),
    params:
        depends=depends(
            "evaluate_checkpoint", "{model}/{method}/{regime}/{calibration}/s{seed}"
        ),
        benchmarks=of_point(jobs.benchmarks_json, PATHS),
        trust=trust_flag,
        device=CONFIG.device,
        gpus=gpus_flag,
        # --serving-python: the interpreter of the benchmarks whose backend is vLLM, or nothing
        vllm=local("" if VLLM_PYTHON == OWN else flag("serving-python", VLLM_PYTHON)),
        cache=local(f"{CONFIG.results}/.cache/vllm"),
        out=subpath(output.summary, parent=True),
    shell:
        "VLLM_CACHE_ROOT=$(realpath -m {params.cache:q})"
        " python -m evenprune.steps evaluate-checkpoint --model {input.model:q}"
        " --benchmarks {params.benchmarks:q} {params.trust} --device {params.device}"
        " {params.gpus} {params.vllm} --out {params.out:q} 2>&1 | tee {log:q}"
