"""Throughput, energy and CO2 of the dense and 2of4 checkpoints.

REQUIRED INPUTS: the dense model's record, pruned checkpoints' check.json; UltraChat.
OUTPUTS: exported/{model}/{method}/2of4/{calibration}/s{seed}/, where 2:4 is served compressed;
serving/{model}/efficiency.json, all of a model's checkpoints together.
"""


use rule step as export_sparse24 with:
    """Compress the 2:4 weights of a checkpoint, so that 2:4 kernels can serve it."""
    input:
        check="<results>/pruned/{model}/{method}/2of4/{calibration}/s{seed}/check.json",
        model=ancient("<results>/pruned/{model}/{method}/2of4/{calibration}/s{seed}/model"),
    output:
        kept(directory("<results>/exported/{model}/{method}/2of4/{calibration}/s{seed}")),
    log:
        "<results>/logs/export_sparse24/{model}/{method}/2of4/{calibration}/s{seed}.log",
    resources:
        mem_mb=grows(16000),
        runtime=grows(60),
    params:
        depends=depends("export_sparse24"),
        command=told("export-sparse24 --model {input.model:q} {trust} --out {output:q}"),


use rule step as benchmark_serving with:
    """Measure the speed and energy of a model's checkpoints in turn; nothing else runs meanwhile."""
    input:
        ready=served(PATHS.served_ready),
        models=ancient(served(PATHS.served_folder)),
        prompts=PATHS.dataset(CONFIG.serving.dataset),
    output:
        "<results>/serving/{model}/efficiency.json",
    log:
        "<results>/logs/benchmark_serving/{model}.log",
    benchmark:
        "<results>/logs/benchmark_serving/{model}.tsv"
    conda:
        "../envs/vllm.yml"
    threads: UNDISTURBED
    resources:
        gpu=asked(gpus, "gpu"),
        gres=asked(gpus, "gres"),
        mem_mb=lambda wildcards, attempt: attempt
        * job_options.serving_memory_mb(PATHS, wildcards.model),
        runtime=lambda wildcards, attempt: attempt
        * job_options.serving_minutes(PATHS, wildcards.model),
    params:
        depends=depends("benchmark_serving", "{model}"),
        # vLLM has an environment of its own, see config/README.md.
        python=lambda wildcards, input: RUN.serving_python,
        command=told(
            "benchmark-serving --model {input.models:q} --names {names:q} --prompts {input.prompts:q}"
            " {flags} {trust} --device {device} {gpus} --out {output:q}",
            names=served(lambda point: point.key),
            flags=lambda wildcards: job_options.serving_flags(CONFIG, wildcards.model),
        ),
