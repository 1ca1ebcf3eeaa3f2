"""Pruning, with the check of what it wrote, and the comparison of masks.

REQUIRED INPUTS: sources/models/{model}.json, calibration/{model}/{calibration}/s{seed}/.
OUTPUTS: pruned/<point>/{model/, check.json, masks.csv}.
"""


use rule step as prune_model with:
    """Prune {wildcards.model} with {wildcards.method} to {wildcards.regime}, and check the result."""
    input:
        model="<results>/sources/models/{model}.json",
        calibration=of_point(job_options.pruned_with, PATHS),
    output:
        model=kept(directory("<results>/pruned/<point>/model")),
        check="<results>/pruned/<point>/check.json",
    log:
        "<results>/logs/prune_model/<point>.log",
    benchmark:
        "<results>/logs/prune_model/<point>.tsv"
    threads: CONFIG.threads
    resources:
        gpu=asked(one_gpu, "gpu"),
        gres=asked(one_gpu, "gres"),
        mem_mb=grows(16000),
        runtime=grows(120),
    params:
        depends=depends("prune_model", "{model}/{method}/{regime}/{calibration}"),
        command=told(
            "prune --model {input.model:q} {flags} --regime {wildcards.regime} {trust}"
            " --seed {wildcards.seed} --device {device} --work {work:q} --out {output.model:q}"
            " --check {output.check:q}",
            flags=of_point(job_options.prune_flags, PATHS),
            work=f"{CONFIG.results}/.partial",
        ),


use rule step as compare_masks with:
    """Compare the masks of {wildcards.method} with those of SparseGPT."""
    input:
        check="<results>/pruned/<point>/check.json",
        reference_check=of_point(PATHS.mask_reference),
        model=ancient("<results>/pruned/<point>/model"),
        reference=ancient(of_point(PATHS.mask_reference_folder)),
    output:
        "<results>/pruned/<point>/masks.csv",
    log:
        "<results>/logs/compare_masks/<point>.log",
    # Finish a checkpoint before the next one is begun.
    priority: 1
    params:
        depends=depends("compare_masks"),
        command=told(
            "compare-masks --model {input.model:q} --reference {input.reference:q} {trust}"
            " --out {output:q}"
        ),
