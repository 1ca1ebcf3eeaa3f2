"""Data sets, models and calibration files: from a mirror folder, the hub, or world.smk."""


rule fetch_source:
    """Resolve {wildcards.kind}/{wildcards.name} from the mirror or the hub and record it."""
    input:
        made_world,
    output:
        "<results>/sources/{kind}/{name}.json",
    log:
        "<results>/logs/fetch_source/{kind}/{name}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        **depends("fetch_source", "{kind}/{name}"),
        told=here(lambda wildcards: job_options.fetch_flags(PATHS, **dict(wildcards.items()))),
    shell:
        "python -m evenprune.steps fetch-source --kind {wildcards.kind} --name {wildcards.name}"
        " {params.told} --out {output} >{log} 2>&1"


rule build_calibration:
    """Select, align and count the calibration pairs and texts for one tokenizer."""
    input:
        pairs=lambda wildcards: PATHS.calibration_sources(wildcards.calibration, "pairs"),
        texts=lambda wildcards: PATHS.calibration_sources(wildcards.calibration, "texts"),
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
        **needs(8000, 60),
    params:
        # code, packages; pairs, n_texts and the other keys of a calibration
        **depends("build_calibration", "{model}/{calibration}"),
        texts_data=given("--texts-data", "texts"),
        folder=subpath(output[0], parent=True),
        trust=trust,
    shell:
        "python -m evenprune.steps build-calibration --model {input.model}"
        " --pairs-data {input.pairs} {params.texts_data} {params.flags} {params.trust}"
        " --seed {wildcards.seed} --out {params.folder} >{log} 2>&1"


rule prefetch:
    """Fetch everything this configuration needs, so that the rest can run offline."""
    log:
        "<results>/logs/prefetch.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=here(canonical_json(CONFIG.model_dump(mode="json"))),
    shell:
        "python -m evenprune.steps prefetch --config-json {params.config:q} >{log} 2>&1"
