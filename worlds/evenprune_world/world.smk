"""The invented world, its models and page.

Part of the workflow (workflow/Snakefile) where the source is the world.
"""

from evenprune_world import rerun

RUN.jobs.update(rerun.dependencies(PATHS))
WORLD_FILES = rerun.pages(PATHS)


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


DENSE_POINTS = rerun.dense_evaluations(PATHS)


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
