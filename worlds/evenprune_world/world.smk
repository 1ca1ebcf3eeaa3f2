"""The invented world, its models and page; the same run in several worlds (w<seed>/), and their page.

Part of the workflow (workflow/Snakefile) where the source is the world, or worlds are compared.
"""

from evenprune_world import rerun
from evenprune_world.controls.world_configs import world_configs

WORLDS = plainly(world_configs)(config, CONFIG)
RUN.jobs.update(rerun.dependencies(PATHS))


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
        ENVIRONMENT
    resources:
        **needs(8000, 60),
    params:
        **depends("generate_world"),
        folder=subpath(output[0], parent=True),
    shell:
        "python -m evenprune_world generate-world {params.flags} --out {params.folder} >{log} 2>&1"


rule world_model:
    """Take a shipped small Llama of the invented world, or train it again."""
    input:
        world="<results>/world/world.json",
        train="<results>/world/train",
    output:
        directory("<results>/world/models/{model}"),
    log:
        "<results>/logs/world_model/{model}.log",
    # A training takes longer than anything else: begun last, it would run alone.
    priority: 3
    conda:
        ENVIRONMENT
    resources:
        **needs(8000, 60),
    params:
        # code, packages; command: train-world --seed N, or shipped-world-model
        **depends("world_model"),
        world=subpath(input[0], parent=True),
    shell:
        "python -m evenprune_world {params.command} --world {params.world} --out {output}"
        " >{log} 2>&1"


# A world is this workflow once more, with a configuration of its own: its rules are w0_prune_model
# and so on, its results lie below results/controls/w0.
for world_name, world_config in WORLDS.items():
    one_world = f"{world_name}_"

    module:
        name: one_world
        snakefile:
            SNAKEFILE
        config:
            world_config

    use rule * from one_world as one_world*


if IS_WORLD:
    DENSE_POINTS = {name: PATHS.evaluation(point) for name, point in PATHS.dense_points().items()}

    rule report_world:
        """Compare what is planted in the invented world with what its dense models learned."""
        input:
            planted="<results>/world/planted.json",
            summaries=[f"{evals}/summary.json" for evals in DENSE_POINTS.values()],
        output:
            in_report("<results>/report/world.html", "world", file="page"),
            multiext("<results>/report/world", ".csv", ".md"),
        log:
            "<results>/logs/report_world.log",
        localrule: True
        conda:
            ENVIRONMENT
        params:
            **depends("report_world"),
            world=subpath(input.planted, parent=True),
            models=here([f"--model {name} {evals}" for name, evals in DENSE_POINTS.items()]),
            folder=subpath(output[0], parent=True),
        shell:
            "python -m evenprune_world report-world --world {params.world} {params.models}"
            " --out {params.folder} >{log} 2>&1"


# What the target evals of every world asks for.
EVALUATED = [path for world in WORLDS for path in getattr(rules, f"{world}_evals").input]

if WORLDS:

    rule report_controls:
        """Compare methods against bias with dense, SparseGPT and negative controls."""
        input:
            run_sheets=[f"{CONFIG.results}/{world}/run_sheet.json" for world in WORLDS],
            planted=[f"{CONFIG.results}/{world}/world/planted.json" for world in WORLDS],
            evals=EVALUATED,
        output:
            in_report("<results>/report/controls.html", "controls", file="page"),
            in_report("<results>/report/controls.csv", "controls", file="values"),
            "<results>/report/controls.md",
        log:
            "<results>/logs/report_controls.log",
        conda:
            ENVIRONMENT
        resources:
            **needs(8000, 60),
        params:
            **depends("report_controls"),
            runs=here([f"--run {CONFIG.results}/{world}" for world in WORLDS]),
            folder=subpath(output[0], parent=True),
        shell:
            "python -m evenprune_world report-controls {params.runs} --out {params.folder}"
            " >{log} 2>&1"
