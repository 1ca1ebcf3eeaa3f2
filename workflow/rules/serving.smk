"""Throughput, energy and CO2 of the dense and 2of4 checkpoints.

REQUIRED INPUTS: the dense model's record, pruned checkpoints' check.json; UltraChat.
OUTPUTS: exported/{model}/{method}/2of4/{calibration}/s{seed}/, where 2:4 is served compressed;
serving/{model}/efficiency.json, all of a model's checkpoints together.
"""


rule export_sparse24:
    """Compress the 2:4 weights of a checkpoint, so that 2:4 kernels can serve it."""
    input:
        check="<results>/pruned/{model}/{method}/2of4/{calibration}/s{seed}/check.json",
        model=ancient(
            "<results>/pruned/{model}/{method}/2of4/{calibration}/s{seed}/model"
        ),
    output:
        export=kept(
            directory("<results>/exported/{model}/{method}/2of4/{calibration}/s{seed}")
        ),
    log:
        "<results>/logs/export_sparse24/{model}/{method}/2of4/{calibration}/s{seed}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(16000),
        runtime=minutes(60),
    params:
        depends=depends("export_sparse24"),
        trust=trust_flag,
    shell:
        "python -m evenprune.steps export-sparse24 --model {input.model:q}"
        " {params.trust} --out {output.export:q} 2>&1 | tee {log:q}"


rule benchmark_serving:
    """Measure the speed and energy of a model's checkpoints in turn; nothing else runs meanwhile."""
    input:
        ready=of_model(lambda points: list(map(PATHS.served_ready, points))),
        models=ancient(of_model(lambda points: list(map(PATHS.served_folder, points)))),
        prompts=PATHS.dataset(CONFIG.serving.dataset),
    output:
        efficiency="<results>/serving/{model}/efficiency.json",
    log:
        "<results>/logs/benchmark_serving/{model}.log",
    benchmark:
        "<results>/logs/benchmark_serving/{model}.tsv"
    conda:
        "../envs/vllm.yml"
    threads: UNDISTURBED
    resources:
        gpu=model_gpus,
        mem_mb=lambda wildcards, attempt: attempt
        * jobs.serving_memory_mb(PATHS, wildcards.model),
        runtime=lambda wildcards, attempt: attempt
        * jobs.serving_minutes(PATHS, wildcards.model),
    params:
        depends=depends("benchmark_serving", "{model}"),
        # vLLM has an environment of its own, see config/README.md.
        python=local(SERVING_PYTHON),
        cache=local(f"{CONFIG.results}/.cache/vllm"),
        names=of_model(lambda points: [point.key for point in points]),
        flags=lambda wildcards: jobs.serving_flags(CONFIG, wildcards.model),
        trust=trust_flag,
        device=CONFIG.device,
        gpus=gpus_flag,
    shell:
        "VLLM_CACHE_ROOT=$(realpath -m {params.cache:q}) {params.python:q}"
        " -m evenprune.steps benchmark-serving --model {input.models:q} --names {params.names:q}"
        " --prompts {input.prompts:q} {params.flags} {params.trust}"
        " --device {params.device} {params.gpus}"
        " --out {output.efficiency:q} 2>&1 | tee {log:q}"
