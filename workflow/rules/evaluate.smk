"""Evaluation: all benchmarks of one checkpoint in one model load, each in a folder beside summary.json.

Those folders are not declared, so Snakemake keeps them when the list of benchmarks changes and only
new ones are computed; what reads them compares their checksums (config/finished.py).
"""


rule evaluate_checkpoint:
    """Run the configured benchmarks on one checkpoint."""
    input:
        ready=of_point(PATHS.ready),
        model=ancient(of_point(PATHS.folder)),
        data=of_point(job_options.benchmark_sources, PATHS, "dataset"),
        judges=of_point(job_options.benchmark_sources, PATHS, "judge"),
    output:
        "<results>/evals/<point>/summary.json",
    log:
        "<results>/logs/evaluate_checkpoint/<point>.log",
    priority: EVALUATE_FIRST
    conda:
        "../../environment.yml"
    threads: CONFIG.threads
    resources:
        **needs(job_options.evaluation_memory_mb(CONFIG), 720, all_gpus),
    params:
        # code, packages; each option of each benchmark, such as bbq.style
        **depends("evaluate_checkpoint", POINT),
        benchmarks=here(of_point(job_options.benchmarks_json, PATHS)),
        folder=subpath(output[0], parent=True),
        gpus=on_gpus,
        trust=trust,
    shell:
        "python -m evenprune.steps evaluate-checkpoint"
        " --model {input.model} --benchmarks {params.benchmarks:q} {params.flags} {params.trust}"
        " {params.gpus} --out {params.folder} >{log} 2>&1"
