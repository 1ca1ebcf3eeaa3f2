"""The invented world, its models and page; the same run in several worlds, and their page.

REQUIRED INPUTS: none; each world is made, with a model of its own.
OUTPUTS: world/, w<seed>/ (a whole run each), report/ (the pages, their figures and numbers).
"""

from pathlib import Path

from snakemake.exceptions import WorkflowError

from evenprune.base.errors import UserError
from evenprune_world.controls.world_configs import unasked, world_configs

try:
    WORLDS = world_configs(config, CONFIG)
except UserError as error:
    raise WorkflowError(str(error)) from None


rule generate_world:
    """Write the invented world's data sets in the schemas of the real ones."""
    output:
        manifest="<results>/world/world.json",
        planted="<results>/world/planted.json",
        data=directory("<results>/world/data"),
        train=directory("<results>/world/train"),
    log:
        "<results>/logs/generate_world.log",
    priority: 3
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(2000),
        runtime=minutes(10),
    params:
        depends=depends("generate_world"),
        seed=CONFIG.world.seed,
        leans=CONFIG.world.leans,
        out=subpath(output.manifest, parent=True),
    shell:
        "python -m evenprune_world generate-world --seed {params.seed} --leans {params.leans}"
        " --out {params.out:q}"
        " 2>&1 | tee {log:q}"


rule world_model:
    """Take a shipped small Llama of the invented world, or train it again."""
    input:
        world="<results>/world/world.json",
        train="<results>/world/train",
    output:
        model=directory("<results>/world/models/{model}"),
    log:
        "<results>/logs/world_model/{model}.log",
    benchmark:
        "<results>/logs/world_model/{model}.tsv"
    # A training takes longer than anything else: begun last, it would run alone.
    priority: 3
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_mb(4000),
        runtime=minutes(30),
    params:
        depends=depends("world_model", "{model}"),
        # train-world --seed N --name MODEL, or shipped-world-model --name MODEL
        command=lambda wildcards: jobs.world_command(CONFIG, wildcards.model),
        world=subpath(input.world, parent=True),
    shell:
        "python -m evenprune_world {params.command} --world {params.world:q}"
        " --out {output.model:q} 2>&1 | tee {log:q}"


# A world is this workflow once more, with a configuration of its own: its rules are w0_prune_model
# and so on, its results lie below results/controls/w0.
for world_name, world_config in WORLDS.items():
    one_world = f"{world_name}_"

    module:
        name: one_world
        snakefile:
            "../Snakefile"
        config:
            world_config

    use rule * from one_world as one_world*


if CONFIG.source == "world":
    DENSE_POINTS = PATHS.dense_points()

    rule report_world:
        """Compare what is planted in the invented world with what its dense models learned."""
        input:
            planted="<results>/world/planted.json",
            summaries=[
                f"{PATHS.evaluation(point)}/summary.json"
                for point in DENSE_POINTS.values()
            ],
        output:
            page=report(
                "<results>/report/world.html",
                caption="../report/world.rst",
                category="World",
                labels={"file": "page"},
            ),
            csv="<results>/report/world.csv",
            md="<results>/report/world.md",
            figures=expand("<results>/report/world_gaps.{ext}", ext=["png", "svg"]),
        log:
            "<results>/logs/report_world.log",
        localrule: True
        conda:
            "../../environment.yml"
        resources:
            mem_mb=memory_mb(2000),
            runtime=minutes(30),
        params:
            depends=depends("report_world"),
            world=subpath(input.planted, parent=True),
            models=" ".join(
                f"--model {name}={PATHS.evaluation(point)}"
                for name, point in DENSE_POINTS.items()
            ),
            out=subpath(output.page, parent=True),
        shell:
            "python -m evenprune_world report-world --world {params.world:q} {params.models}"
            " --out {params.out:q} 2>&1 | tee {log:q}"


# What the target evals of every world asks for.
EVALUATED = [
    path for world in WORLDS for path in getattr(rules, f"{world}_evals").input
]

if WORLDS:

    rule report_controls:
        """Compare methods against bias with dense, SparseGPT and negative controls."""
        input:
            run_sheets=[f"{CONFIG.results}/{world}/run_sheet.json" for world in WORLDS],
            planted=[f"{CONFIG.results}/{world}/world/planted.json" for world in WORLDS],
            evals=EVALUATED,
        output:
            page=report(
                "<results>/report/controls.html",
                caption="../report/controls.rst",
                category="Controls",
                labels={"file": "page"},
            ),
            csv=report(
                "<results>/report/controls.csv",
                caption="../report/controls.rst",
                category="Controls",
                labels={"file": "values"},
            ),
            md="<results>/report/controls.md",
        log:
            "<results>/logs/report_controls.log",
        conda:
            "../../environment.yml"
        resources:
            mem_mb=memory_mb(2000),
            runtime=minutes(30),
        params:
            depends=depends("report_controls"),
            runs=" ".join(f"--run {CONFIG.results}/{world}" for world in WORLDS),
            out=subpath(output.page, parent=True),
        shell:
            "python -m evenprune_world report-controls {params.runs} --out {params.out:q}"
            " 2>&1 | tee {log:q}"


rule controls:
    """Methods against bias and their negative controls, in every world of controls.worlds."""
    input:
        ([rules.report_controls.output.page, *EVALUATED] if WORLDS else unasked),
