"""Evaluation: all benchmarks of one checkpoint in one model load.

REQUIRED INPUTS: a dense model's record or a pruned checkpoint's check.json; data records;
records of guard models, where benchmarks have one.
OUTPUTS: evals/<point>/summary.json and, beside it, one folder a benchmark with metrics.json and
items.jsonl. Those folders are not declared, so Snakemake keeps them when the list of benchmarks
changes and only new ones are computed; summary.json has the checksums of each metrics.json, that
one of its items.jsonl, and whatever reads them checks both (plan/finished.py).
"""


use rule step as evaluate_checkpoint with:
    """Run the configured benchmarks on one checkpoint."""
    input:
        ready=of_point(PATHS.ready),
        model=ancient(of_point(PATHS.folder)),
        data=of_point(job_options.benchmark_sources, PATHS),
        judges=of_point(job_options.judge_sources, PATHS),
    output:
        "<results>/evals/<point>/summary.json",
    log:
        "<results>/logs/evaluate_checkpoint/<point>.log",
    benchmark:
        "<results>/logs/evaluate_checkpoint/<point>.tsv"
    # Finish a checkpoint before the next one is begun.
    priority: 1
    threads: CONFIG.threads
    resources:
        gpu=asked(gpus, "gpu"),
        gres=asked(gpus, "gres"),
        mem_mb=grows(job_options.evaluation_memory_mb(CONFIG)),
        runtime=grows(720),
    params:
        depends=depends("evaluate_checkpoint", POINT),
        command=told(
            "evaluate-checkpoint --model {input.model:q} --benchmarks {benchmarks:q} {trust}"
            " --device {device} {gpus} {vllm} --out {folder:q}",
            benchmarks=of_point(job_options.benchmarks_json, PATHS),
            vllm=RUN.vllm_flags,
        ),
