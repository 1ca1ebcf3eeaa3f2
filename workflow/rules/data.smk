"""Data sets, models and calibration files.

REQUIRED INPUTS: none for the embedded default; else a mirror folder or the hub.
OUTPUTS: sources/{data,models}/*.json, world/, calibration/.
"""


rule generate_world:
    """Write the invented world's data sets in the schemas of the real ones."""
    input:
        parameters=parameters("generate_world"),
    output:
        manifest="<results>/world/world.json",
        data=directory("<results>/world/data"),
        train=directory("<results>/world/train"),
    log:
        "<results>/logs/generate_world.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(2000),
        runtime=10,
    params:
        seed=CONFIG.world.seed,
        out=subpath(output.manifest, parent=True),
        code=code_digest("world.generate_world"),
    shell:
        "python -m evenprune generate-world --seed {params.seed} --out {params.out:q}"
        " 2>&1 | tee {log:q}"


rule world_model:
    """Take the shipped small Llama of the invented world, or train it again."""
    input:
        world="<results>/world/world.json",
        train="<results>/world/train",
        parameters=parameters("world_model"),
    output:
        model=directory("<results>/world/models/world"),
    log:
        "<results>/logs/world_model.log",
    conda:
        "../../environment.yml"
    threads: 2 if CONFIG.world.retrain else 1
    resources:
        mem_mb=memory_mb(4000),
        runtime=30,
    params:
        command=world_command(),
        world=subpath(input.world, parent=True),
        code=WORLD_MODEL_CODE,
    shell:
        "python -m evenprune {params.command} --world {params.world:q}"
        " --out {output.model:q} 2>&1 | tee {log:q}"


rule fetch_dataset:
    """Resolve the data set {wildcards.dataset} from the mirror or the hub and record it."""
    input:
        world_input,
        parameters=parameters("fetch_dataset", "dataset"),
    output:
        record="<results>/sources/data/{dataset}.json",
    log:
        "<results>/logs/fetch_dataset/{dataset}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(4000),
        runtime=60,
    params:
        spec=source_params("data"),
        mirror=flags(mirror=MIRROR),
        lock=CONFIG.lock,
        cache=f"{RESULTS}/sources/hub",
        code=code_digest("data.fetch_dataset"),
    shell:
        "python -m evenprune fetch-dataset --name {wildcards.dataset:q}"
        " --spec {params.spec:q} {params.mirror} --lock {params.lock:q}"
        " --cache {params.cache:q} --out {output.record:q} 2>&1 | tee {log:q}"


rule fetch_model:
    """Resolve the model {wildcards.model} from the mirror or the hub and record it."""
    input:
        world_model_input,
        parameters=parameters("fetch_model", "model"),
    output:
        record="<results>/sources/models/{model}.json",
    log:
        "<results>/logs/fetch_model/{model}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(4000),
        runtime=240,
    params:
        spec=source_params("models"),
        mirror=flags(mirror=MIRROR),
        lock=CONFIG.lock,
        code=code_digest("data.fetch_model"),
    shell:
        "python -m evenprune fetch-model --name {wildcards.model:q} --spec {params.spec:q}"
        " {params.mirror} --lock {params.lock:q} --out {output.record:q} 2>&1 | tee {log:q}"


rule build_calibration:
    """Select, align and count the calibration pairs and texts for one tokenizer."""
    input:
        data=calibration_inputs,
        model="<results>/sources/models/{model}.json",
        parameters=parameters("build_calibration", "calibration"),
    output:
        pairs="<results>/calibration/{model}/{calibration}/s{seed}/pairs.jsonl",
        texts="<results>/calibration/{model}/{calibration}/s{seed}/texts.jsonl",
        manifest="<results>/calibration/{model}/{calibration}/s{seed}/manifest.json",
    log:
        "<results>/logs/build_calibration/{model}/{calibration}/s{seed}.log",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(4000),
        runtime=30,
    params:
        flags=calibration_flags,
        trust=trust_flag,
        out=subpath(output.manifest, parent=True),
        code=code_digest("data.build_calibration"),
    shell:
        "python -m evenprune build-calibration --model {input.model:q} {params.flags}"
        " {params.trust} --seed {wildcards.seed} --out {params.out:q} 2>&1 | tee {log:q}"


rule prefetch:
    """Fetch everything this configuration needs, so that the rest can run offline."""
    log:
        "<results>/logs/prefetch.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(4000),
        runtime=600,
    params:
        config=canonical_json(CONFIG.model_dump(mode="json")),
    shell:
        "python -m evenprune prefetch --config-json {params.config:q} 2>&1 | tee {log:q}"
