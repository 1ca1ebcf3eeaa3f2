"""Data sets, models and calibration files.

REQUIRED INPUTS: a mirror folder, the hub, or the invented world of world.smk.
OUTPUTS: sources/{data,models}/*.json, calibration/.
"""

# Rules of world.smk make the world; a mirror or the hub is just there.
IS_WORLD = CONFIG.source == "world"


use rule step as fetch_dataset with:
    """Resolve the data set {wildcards.dataset} from the mirror or the hub and record it."""
    input:
        f"{CONFIG.results}/world/world.json" if IS_WORLD else [],
    output:
        "<results>/sources/data/{dataset}.json",
    log:
        "<results>/logs/fetch_dataset/{dataset}.log",
    localrule: True
    params:
        depends=depends("fetch_dataset", "{dataset}"),
        command=told(
            "fetch-dataset --name {wildcards.dataset} --spec {spec:q} --cache {cache:q}"
            " {asked} --out {output:q}",
            asked=job_options.fetch_flags(PATHS),
            spec=lambda wildcards: job_options.source_json(CONFIG, "data", wildcards.dataset),
            cache=f"{CONFIG.results}/sources/hub",
        ),


use rule step as fetch_model with:
    """Resolve the model {wildcards.model} from the mirror or the hub and record it."""
    input:
        f"{CONFIG.results}/world/models/{{model}}" if IS_WORLD else [],
    output:
        "<results>/sources/models/{model}.json",
    log:
        "<results>/logs/fetch_model/{model}.log",
    localrule: True
    params:
        depends=depends("fetch_model", "{model}"),
        command=told(
            "fetch-model --name {wildcards.model} --spec {spec:q} {asked} --out {output:q}",
            asked=job_options.fetch_flags(PATHS),
            spec=lambda wildcards: job_options.source_json(CONFIG, "models", wildcards.model),
        ),


use rule step as build_calibration with:
    """Select, align and count the calibration pairs and texts for one tokenizer."""
    input:
        data=lambda wildcards: job_options.calibration_sources(PATHS, wildcards.calibration),
        model="<results>/sources/models/{model}.json",
    output:
        pairs="<results>/calibration/{model}/{calibration}/s{seed}/pairs.jsonl",
        texts="<results>/calibration/{model}/{calibration}/s{seed}/texts.jsonl",
        manifest="<results>/calibration/{model}/{calibration}/s{seed}/manifest.json",
    log:
        "<results>/logs/build_calibration/{model}/{calibration}/s{seed}.log",
    params:
        depends=depends("build_calibration", "{model}/{calibration}"),
        command=told(
            "build-calibration --model {input.model:q} {options} {bos} {trust}"
            " --seed {wildcards.seed} --out {folder:q}",
            options=lambda wildcards: job_options.calibration_flags(PATHS, wildcards.calibration),
        ),


RESOLVED = canonical_json(CONFIG.model_dump(mode="json"))


rule write_config:
    """Write the resolved configuration, for the step that fetches its sources."""
    output:
        f"<results>/.config/{digest(RESOLVED)}.json",
    log:
        "<results>/logs/write_config.log",
    localrule: True
    run:
        write_text(output[0], RESOLVED)


use rule step as prefetch with:
    """Fetch everything this configuration needs, so that the rest can run offline."""
    input:
        rules.write_config.output,
    log:
        "<results>/logs/prefetch.log",
    localrule: True
    params:
        command=told("prefetch --config-json - < {input:q}"),
