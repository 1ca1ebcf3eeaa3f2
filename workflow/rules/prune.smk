"""Pruning, with the check of what it wrote, and the comparison of masks."""


rule prune_model:
    """Prune {wildcards.model} with {wildcards.method} to {wildcards.regime}, and check the result."""
    input:
        model="<results>/sources/models/{model}.json",
        pairs=of_point(PATHS.calibrated_with, "pairs"),
        texts=of_point(PATHS.calibrated_with, "texts"),
    output:
        model=kept(directory("<results>/pruned/<point>/model")),
        check="<results>/pruned/<point>/check.json",
    log:
        "<results>/logs/prune_model/<point>.log",
    priority: 1 - EVALUATE_FIRST
    conda:
        "../../environment.yml"
    threads: CONFIG.threads
    resources:
        **needs(16000, 120, one_gpu),
    params:
        # code, torch, transformers; method, damping, bias_weight and the other keys of `pruning`
        **depends("prune_model", "{model}/{method}/{regime}/{calibration}"),
        pairs=given("--pairs", "pairs"),
        texts=given("--texts", "texts"),
        work=here(f"{CONFIG.results}/.partial"),
        trust=trust,
    shell:
        "python -m evenprune.steps prune --model {input.model} {params.pairs} {params.texts}"
        " --regime {wildcards.regime} --seed {wildcards.seed} {params.flags} {params.trust}"
        " --work {params.work} --out {output.model} --check {output.check} >{log} 2>&1"


rule compare_masks:
    """Compare the masks of {wildcards.method} with those of SparseGPT."""
    input:
        check="<results>/pruned/<point>/check.json",
        reference_check=of_point(lambda point: PATHS.ready(PATHS.mask_reference(point))),
        model=ancient("<results>/pruned/<point>/model"),
        reference=ancient(of_point(lambda point: PATHS.folder(PATHS.mask_reference(point)))),
    output:
        masks="<results>/pruned/<point>/masks.csv",
        sum="<results>/pruned/<point>/masks.csv.sha256",
    log:
        "<results>/logs/compare_masks/<point>.log",
    priority: EVALUATE_FIRST
    conda:
        "../../environment.yml"
    resources:
        **needs(8000, 60),
    params:
        **depends("compare_masks"),
        trust=trust,
    shell:
        "python -m evenprune.steps compare-masks --model {input.model} --reference {input.reference}"
        " {params.trust} --out {output.masks} >{log} 2>&1"
