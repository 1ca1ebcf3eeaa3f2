"""Throughput, energy and CO2 of the dense and 2of4 checkpoints, all of a model's together."""


rule export_sparse24:
    """Compress the 2:4 weights of a checkpoint, so that 2:4 kernels can serve it."""
    input:
        check="<results>/pruned/{model}/{method}/2of4/{calibration}/s{seed}/check.json",
        model=ancient("<results>/pruned/{model}/{method}/2of4/{calibration}/s{seed}/model"),
    output:
        kept(directory("<results>/exported/{model}/{method}/2of4/{calibration}/s{seed}")),
    log:
        "<results>/logs/export_sparse24/{model}/{method}/2of4/{calibration}/s{seed}.log",
    conda:
        "../../environment.yml"
    resources:
        **needs(16000, 60),
    params:
        **depends("export_sparse24"),
        trust=trust,
    shell:
        "python -m evenprune.steps export-sparse24 --model {input.model} {params.trust}"
        " --out {output} >{log} 2>&1"


rule benchmark_serving:
    """Measure the speed and energy of a model's checkpoints in turn; nothing else runs meanwhile."""
    input:
        ready=served(PATHS.served_ready),
        models=ancient(served(PATHS.served_folder)),
        prompts=PATHS.dataset(CONFIG.serving.dataset),
    output:
        "<results>/serving/{model}/efficiency.json",
    log:
        "<results>/logs/benchmark_serving/{model}.log",
    conda:
        "../envs/vllm.yml"
    threads: UNDISTURBED
    resources:
        **needs(
            serving_memory,
            lambda wildcards: 60 + 60 * len(PATHS.served(wildcards.model)),
            all_gpus,
        ),
    params:
        # code; batch_sizes, rounds and the other keys of `serving` that decide a measurement
        **depends("benchmark_serving", "{model}"),
        names=here(served(lambda point: point.key)),
        gpus=on_gpus,
        trust=trust,
        # vLLM has an environment of its own, see config/README.md.
        python=here(RUN.serving_python),
        cache=here(str(Path(CONFIG.results).absolute() / ".cache/vllm")),
    shell:
        "VLLM_CACHE_ROOT={params.cache:q} {params.python:q} -m evenprune.steps benchmark-serving"
        " --model {input.models} --names {params.names} --prompts {input.prompts} {params.flags}"
        " {params.trust} {params.gpus} --out {output} >{log} 2>&1"
