"""The configuration, and what leads from the wildcards of a job to its files and its params.

All that is decided is decided in src/evenprune/config: paths.py (files), job_options.py (options, and
what a result depends on).
"""

import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

# For the rules of the world too, which lie elsewhere.
ENVIRONMENT = workflow.current_basedir.join("../../environment.yml")
REPO = Path(str(workflow.current_basedir)).resolve().parents[1]
# Taken from a git source (`module: snakefile: github(…)`), the workflow has no folder: then the
# package is an installed one, and Snakemake fetches the few other files.
IS_FOLDER = (REPO / "src").is_dir()
BY_CONDA = DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method
# The packages are used from the checkout, without installing them: evenprune, the invented world.
FOLDERS = [str(REPO / "src"), str(REPO / "worlds")] if IS_FOLDER else []
sys.path[:0] = FOLDERS

try:
    from evenprune.io.errors import UserError
    from evenprune.io.files import canonical_json, write_text
    from evenprune.io.pdf_programs import latex_available
    from evenprune.io.provenance import FOLDER
    from evenprune.config import job_options
    from evenprune.config.facts import DENSE, METHODS, NO_CALIBRATION, REGIMES
    from evenprune.config.grids import Checkpoint
    from evenprune.config.plan import check_before
    from evenprune.config.run_sheet import write_run_sheet
    from evenprune.config.table_registry import FIGURES, TABLES
    from evenprune.workflow import load_run
except ModuleNotFoundError as error:
    raise WorkflowError(
        f"this Snakemake runs on {sys.executable}, which lacks the Python package {error.name}; "
        + (
            "build the workflow's environment with `make env` and use its snakemake "
            "(`source .venv/bin/activate`)"
            if IS_FOLDER
            else "a workflow from a git source brings no package: install that of the same version "
            "beside Snakemake (docs/cluster.md, As a module)"
        )
    ) from None


def plainly(function):
    """A function whose UserError is one sentence, as Snakemake says its own."""

    def said(*arguments, **named):
        try:
            return function(*arguments, **named)
        except UserError as error:
            raise WorkflowError(str(error)) from None

    return said


def shipped(path):
    """A file that is part of the workflow; Snakemake's copy of it where that has no folder."""
    return REPO / path if IS_FOLDER else Path(workflow.source_path(f"../../{path}"))


# No `configfile:`, which would merge a file of one's own with the default's experiments. Snakemake makes
# text of the numbers in `--config`, and lets the last of equal keys in a file win: so both are asked for.
default = Path("config/config.yaml")
RUN = plainly(load_run)(
    config,
    workflow.config_settings.config,
    workflow.configfiles,
    default if default.is_file() else shipped(default),
    shipped("config/catalogue.yaml"),
    [Path(), REPO],
    BY_CONDA,
    workflow.storage_settings.default_storage_provider,
)
PATHS, CONFIG = RUN.paths, RUN.paths.config
if RUN.absent and workflow.is_main_process:
    missing = f"{len(RUN.absent)} sources are missing:"
    print(missing, *RUN.absent, sep="\n  ", file=sys.stderr)
recorded = any(Path().glob(".snakemake/metadata/*"))
if workflow.is_main_process and not recorded and Path(CONFIG.results, "run_sheet.json").is_file():
    print(
        f"note: Snakemake has no records of how {CONFIG.results} was made (.snakemake belongs to it)",
        "  and sees no change of options, code or data; -F makes all again",
        sep="\n",
        file=sys.stderr,
    )
# Threads of a measurement that nothing is to disturb: all that --cores gives. On a cluster there is
# no such number where jobs are submitted, and where they run it is not theirs; the job asks for a
# node alone (profiles/site).
CORES = None if workflow.remote_exec else workflow.resource_settings.cores
UNDISTURBED = CORES or CONFIG.threads

SEARCHED = f"export PYTHONPATH={shlex.quote(':'.join(FOLDERS))}; " if IS_FOLDER else ""
shell.prefix(f"set -euo pipefail; {SEARCHED}")


def depends(rule_name, job=job_options.ALL):
    """Params: what a rule's jobs depend on, by name, such as damping="--damping 0.01", and `flags`,
    those of them that are flags, for the command.

    Snakemake compares values and not their names, so each begins with its name. `flags` it does not
    compare, nor any param that is a function of the input. ``job`` is the pattern of a job's name.
    A param that only other jobs have is "" and all have one, so that the first is no change.
    """
    jobs = {name: params for (rule, name), params in RUN.jobs.items() if rule == rule_name}

    def of(wildcards):
        return jobs.get(job.format(**dict(wildcards.items())), {})

    def flags(wildcards, input):
        return " ".join(value for value in of(wildcards).values() if value.startswith("--"))

    names = {name for params in jobs.values() for name in params}
    found = {n: lambda wildcards, n=n: of(wildcards).get(n, "") for n in names}
    return found | {"flags": flags, "of_others": ""}


def here(value):
    """A param that no result depends on."""
    return lambda wildcards, input: value(wildcards) if callable(value) else value


def given(flag, name):
    """A param: a flag with the input of a name; nothing where the job has none."""
    return lambda wildcards, input: f"{flag} {input[name]}" if input.get(name) else ""


def of_point(function, *arguments):
    """A function of a checkpoint, as one of the wildcards that name it."""

    def found(wildcards):
        named = (wildcards.model, wildcards.method, wildcards.get("regime", "2of4"))
        point = Checkpoint(*named, wildcards.calibration, int(wildcards.seed))
        return plainly(function)(*arguments, point)

    return found


def served(part):
    """What a measurement is told of each of its model's checkpoints."""
    return lambda wildcards: list(map(part, plainly(PATHS.served)(wildcards.model)))


# A checkpoint's folder, which Snakemake deletes after its last use with ``keep: evals``.
kept = temp if CONFIG.keep == "evals" else lambda output: output
# Models that are deleted are evaluated before the next is pruned; else what others wait for goes
# first, so that the last evaluations share all cores.
EVALUATE_FIRST = int(CONFIG.keep == "evals")
# How profiles/site asks for GPUs, see job_options.gpus_asked_by.
SELECTOR = (workflow.resource_settings.default_resources or {}).get("gpu_selector")
SELECTOR = getattr(SELECTOR, "raw", SELECTOR)  # the text of profiles/site


def needs(mem_mb, minutes, gpus=None):
    """Resources of a job: memory and time, a number or a function, more on a retry; its GPUs."""

    def grows(base):
        return lambda wildcards, attempt: attempt * (base(wildcards) if callable(base) else base)

    def asked(option):
        asked_by = plainly(job_options.gpus_asked_by)
        return lambda wildcards: asked_by(SELECTOR, gpus(wildcards))[option]

    found = {"mem_mb": grows(mem_mb), "runtime": grows(minutes)}
    return found | ({option: asked(option) for option in ("gpu", "gres")} if gpus else {})


def trust(wildcards, input):
    """The flag of a model whose own code may run; nothing for others."""
    return "--trust-remote-code" if CONFIG.models[wildcards.model].trust_remote_code else ""


def on_gpus(wildcards, input):
    """The flag of a model on several GPUs; nothing for others."""
    return f"--gpus {count}" if (count := all_gpus(wildcards)) > 1 else ""


def serving_memory(wildcards):
    """MB of all checkpoints that are loaded at once; on a GPU it has their weights."""
    at_once = 1 if CONFIG.serving.engines == "in-turn" else len(PATHS.served(wildcards.model))
    return 24_000 + 8_000 * at_once if CONFIG.device == "cuda" else 6_000 * at_once


# GPUs of a job that loads one block at a time, and of one that loads the whole model.
one_gpu = lambda wildcards: job_options.gpus_for(CONFIG)
all_gpus = lambda wildcards: job_options.gpus_for(CONFIG, wildcards.model)


def in_report(path, category, **labels):
    """A file of Snakemake's own report; a table or figure with its words of tables.yaml."""
    if entry := {"table": TABLES, "figure": FIGURES}.get(category, {}).get(Path(path).stem):
        return report(path, category=entry["section"], labels={"what": entry["shows"]})
    return report(path, category=category.capitalize(), labels=labels)


# Rules of world.smk make the world; a mirror or the hub is just there.
IS_WORLD = CONFIG.source == "world"


def made_world(wildcards):
    """The part of the invented world that a source is; nothing where there is no world."""
    part = "world.json" if wildcards.kind == "data" else f"models/{wildcards.name}"
    return f"{CONFIG.results}/world/{part}" if IS_WORLD else []
