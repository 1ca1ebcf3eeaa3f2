"""What all steps inherit; the paths in it are from this folder, as theirs are."""


rule step:
    """What all steps have in common: a command, its log, an environment, memory and time."""
    log:
        f"{CONFIG.results}/logs/step.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=grows(8000),
        runtime=grows(60),
    params:
        python="python",
        package="evenprune.steps",
        command=lambda wildcards, input: "--help",
        cache=lambda wildcards, input: str(Path(CONFIG.results).absolute() / ".cache/vllm"),
    shell:
        "VLLM_CACHE_ROOT={params.cache:q} {params.python:q} -m {params.package} {params.command}"
        " >{log:q} 2>&1"
