"""Throughput, energy and CO2 of the dense and 2of4 checkpoints.

REQUIRED INPUTS: the dense model's record, pruned checkpoints' check.json; UltraChat.
OUTPUTS: exported/{model}/{method}/2of4/{calibration}/s{seed}/, where 2:4 is served compressed;
serving/{model}/efficiency.json, all of a model's checkpoints together.
"""

serving_options = lambda wildcards: jobs.serving_options(CONFIG, wildcards.model)


rule export_sparse24:
    """Compress the 2:4 weights of a checkpoint, so that 2:4 kernels can serve it."""
    input:
        check="<results>/pruned/{model}/{method}/2of4/{calibration}/s{seed}/check.json",
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
        runtime=minutes(60),
    params:
        depends=depends("export_sparse24"),
        trust=trust_flag,
        restore=restored(lambda point: [point]),
        model=subpath(input.check, parent=True),
    shell:
        "( {params.restore} python -m evenprune.steps export-sparse24 --model {params.model:q}/model"
        " {params.trust} --out {output.export:q} ) 2>&1 | tee {log:q}"


rule benchmark_serving:
    """Measure the speed and energy of a model's checkpoints in turn; nothing else runs meanwhile."""
    input:
        ready=of_model(lambda points: list(map(PATHS.served_ready, points))),
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
        models=of_model(lambda points: list(map(PATHS.served_folder, points))),
        names=of_model(lambda points: [point.key for point in points]),
        backend=option("backend", serving_options),
        engines=option("engines", serving_options),
        dtype=option("dtype", serving_options),
        batch_sizes=option("batch_sizes", serving_options),
        new_tokens=option("new_tokens", serving_options),
        prompt_tokens=option("prompt_tokens", serving_options),
        rounds=option("rounds", serving_options),
        carbon_intensity=option("carbon_intensity", serving_options),
        trust=trust_flag,
        restore=restored_served,
        device=CONFIG.device,
        gpus=gpus_flag,
    shell:
        "( {params.restore} VLLM_CACHE_ROOT=$(realpath -m {params.cache:q}) {params.python:q}"
        " -m evenprune.steps benchmark-serving --model {params.models:q} --names {params.names:q}"
        " --prompts {input.prompts:q} --backend {params.backend} --engines {params.engines}"
        " --dtype {params.dtype} --batch-sizes {params.batch_sizes}"
        " --new-tokens {params.new_tokens} --prompt-tokens {params.prompt_tokens}"
        " --rounds {params.rounds} --carbon-intensity {params.carbon_intensity} {params.trust}"
        " --device {params.device} {params.gpus}"
        " --out {output.efficiency:q} ) 2>&1 | tee {log:q}"
