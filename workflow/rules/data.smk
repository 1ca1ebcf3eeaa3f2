"""Data sets, models and calibration files.

REQUIRED INPUTS: a mirror folder, the hub, or the invented world of world.smk.
OUTPUTS: sources/{data,models}/*.json, calibration/.
"""

# Rules of world.smk make the world; a mirror or the hub is just there.
MADE_DATA, MADE_MODEL = [], []
if CONFIG.source == "world":
    MADE_DATA = f"{CONFIG.results}/world/world.json"
    MADE_MODEL = f"{CONFIG.results}/world/models/{{model}}"
mirror_flag = local(flag("mirror-file", PATHS.mirror_file) or flag("mirror", MIRROR))


rule fetch_dataset:
    """Resolve the data set {wildcards.dataset} from the mirror or the hub and record it."""
    input:
        MADE_DATA,
    output:
        record="<results>/sources/data/{dataset}.json",
    log:
        "<results>/logs/fetch_dataset/{dataset}.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(4000),
        runtime=minutes(60),
    params:
        depends=depends("fetch_dataset", "{dataset}"),
        spec=lambda wildcards: canonical_json(
            {"entry": jobs.source_entry(CONFIG, "data", wildcards.dataset)}
        ),
        # --mirror-file FILE, or --mirror and the world of the run
        mirror=mirror_flag,
        lock=local(CONFIG.lock),
        cache=local(f"{CONFIG.results}/sources/hub"),
    shell:
        "python -m evenprune.steps fetch-dataset --name {wildcards.dataset:q}"
        " --spec {params.spec:q} {params.mirror} --lock {params.lock:q}"
        " --cache {params.cache:q} --out {output.record:q} 2>&1 | tee {log:q}"


rule fetch_model:
    """Resolve the model {wildcards.model} from the mirror or the hub and record it."""
    input:
        MADE_MODEL,
    output:
        record="<results>/sources/models/{model}.json",
    log:
        "<results>/logs/fetch_model/{model}.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(4000),
        runtime=minutes(240),
    params:
        depends=depends("fetch_model", "{model}"),
        spec=lambda wildcards: canonical_json(
            {"entry": jobs.source_entry(CONFIG, "models", wildcards.model)}
        ),
        # --mirror-file FILE, or --mirror and the world of the run
        mirror=mirror_flag,
        lock=local(CONFIG.lock),
    shell:
        "python -m evenprune.steps fetch-model --name {wildcards.model:q} --spec {params.spec:q}"
        " {params.mirror} --lock {params.lock:q} --out {output.record:q} 2>&1 | tee {log:q}"


rule build_calibration:
    """Select, align and count the calibration pairs and texts for one tokenizer."""
    input:
        data=lambda wildcards: jobs.calibration_sources(PATHS, wildcards.calibration),
        model="<results>/sources/models/{model}.json",
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
        runtime=minutes(30),
    params:
        depends=depends("build_calibration", "{calibration}"),
        options=lambda wildcards: flags(
            jobs.calibration_options(PATHS, wildcards.calibration)
        ),
        trust=trust_flag,
        out=subpath(output.manifest, parent=True),
    shell:
        "python -m evenprune.steps build-calibration --model {input.model:q}"
        " {params.options} {params.trust} --seed {wildcards.seed}"
        " --out {params.out:q} 2>&1 | tee {log:q}"


RESOLVED = canonical_json(CONFIG.model_dump(mode="json"))


rule write_config:
    """Write the resolved configuration, for the step that fetches its sources."""
    output:
        config=f"<results>/.config/{digest(RESOLVED)}.json",
    log:
        "<results>/logs/write_config.log",
    localrule: True
    run:
        write_text(output.config, RESOLVED)


rule prefetch:
    """Fetch everything this configuration needs, so that the rest can run offline."""
    input:
        config=rules.write_config.output.config,
    log:
        "<results>/logs/prefetch.log",
    localrule: True
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(4000),
        runtime=minutes(600),
    shell:
        "python -m evenprune.steps prefetch --config-json - < {input.config:q} 2>&1 | tee {log:q}"
