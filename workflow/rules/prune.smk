"""Pruning, the check that gates evaluation, and the comparison of masks.

REQUIRED INPUTS: sources/models/{model}.json, calibration/{model}/{calibration}/s{seed}/.
OUTPUTS: pruned/{model}/{method}/{regime}/{calibration}/s{seed}/{model/, check.json, masks.csv}.
"""


rule prune_model:
    """Prune {wildcards.model} with {wildcards.method} to {wildcards.regime}."""
    input:
        model="<results>/sources/models/{model}.json",
        pairs="<results>/calibration/{model}/{calibration}/s{seed}/pairs.jsonl",
        texts="<results>/calibration/{model}/{calibration}/s{seed}/texts.jsonl",
    output:
        model=kept(
            directory(
                "<results>/pruned/{model}/{method}/{regime}/{calibration}/s{seed}/model"
            )
        ),
    log:
        "<results>/logs/prune_model/{model}/{method}/{regime}/{calibration}/s{seed}.log",
    benchmark:
        "<results>/logs/prune_model/{model}/{method}/{regime}/{calibration}/s{seed}.tsv"
    wildcard_constraints:
        calibration=any_of(CONFIG.calibrations),
    conda:
        "../../environment.yml"
    threads: CONFIG.threads
    resources:
        gpu=GPUS,
        mem_mb=memory_mb(16000),
        runtime=minutes(120),
    params:
        depends=depends("prune_model", "{method}/{regime}/{calibration}"),
        # --method NAME and the options that it uses
        flags=of_point(jobs.prune_flags, CONFIG),
        # --texts FILE, or nothing
        texts=of_point(lambda point: flag("texts", jobs.texts_file(PATHS, point))),
        trust=trust_flag,
        device=CONFIG.device,
        work=local(f"{CONFIG.results}/.partial"),
    shell:
        "python -m evenprune.steps prune --model {input.model:q} --pairs {input.pairs:q}"
        " {params.texts} {params.flags} --regime {wildcards.regime}"
        " {params.trust} --seed {wildcards.seed} --device {params.device}"
        " --work {params.work:q} --out {output.model:q} 2>&1 | tee {log:q}"


rule prune_uncalibrated:
    """Prune {wildcards.model} to {wildcards.regime} without calibration data, by magnitude."""
    input:
        model="<results>/sources/models/{model}.json",
    output:
        model=kept(
            directory("<results>/pruned/{model}/{method}/{regime}/none/s{seed}/model")
        ),
    log:
        "<results>/logs/prune_uncalibrated/{model}/{method}/{regime}/s{seed}.log",
    conda:
        "../../environment.yml"
    threads: CONFIG.threads
    resources:
        gpu=GPUS,
        mem_mb=memory_mb(16000),
        runtime=minutes(60),
    params:
        depends=depends("prune_model", "{method}/{regime}/none"),
        flags=of_point(jobs.prune_flags, CONFIG),
        trust=trust_flag,
        device=CONFIG.device,
        work=local(f"{CONFIG.results}/.partial"),
    shell:
        "python -m evenprune.steps prune --model {input.model:q} {params.flags}"
        " --regime {wildcards.regime} {params.trust} --seed {wildcards.seed}"
        " --device {params.device} --work {params.work:q} --out {output.model:q} 2>&1 | tee {log:q}"


rule check_pruned:
    """Verify pattern, finite values, absence of -0.0 and the untouched tensors."""
    input:
        model="<results>/pruned/{model}/{method}/{regime}/{calibration}/s{seed}/model",
        base="<results>/sources/models/{model}.json",
    output:
        check="<results>/pruned/{model}/{method}/{regime}/{calibration}/s{seed}/check.json",
    log:
        "<results>/logs/check_pruned/{model}/{method}/{regime}/{calibration}/s{seed}.log",
    # Finish a checkpoint before the next one is begun.
    priority: 1
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(8000),
        runtime=minutes(60),
    params:
        depends=depends("check_pruned", "{method}/{regime}"),
        trust=trust_flag,
    shell:
        "python -m evenprune.steps check --model {input.model:q} --base {input.base:q}"
        " {params.trust} --out {output.check:q} 2>&1 | tee {log:q}"


rule compare_masks:
    """Compare the masks of {wildcards.method} with those of SparseGPT."""
    input:
        check="<results>/pruned/{model}/{method}/{regime}/{calibration}/s{seed}/check.json",
        reference_check=of_point(PATHS.mask_reference),
        model=ancient(
            "<results>/pruned/{model}/{method}/{regime}/{calibration}/s{seed}/model"
        ),
        reference=ancient(of_point(PATHS.mask_reference_folder)),
    output:
        masks="<results>/pruned/{model}/{method}/{regime}/{calibration}/s{seed}/masks.csv",
    log:
        "<results>/logs/compare_masks/{model}/{method}/{regime}/{calibration}/s{seed}.log",
    # Finish a checkpoint before the next one is begun.
    priority: 1
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(8000),
        runtime=minutes(60),
    params:
        depends=depends("compare_masks"),
        trust=trust_flag,
    shell:
        "python -m evenprune.steps compare-masks --model {input.model:q} --reference {input.reference:q}"
        " {params.trust} --out {output.masks:q} 2>&1 | tee {log:q}"
