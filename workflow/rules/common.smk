"""The configuration, and what leads from the wildcards of a job to its files and its command.

All that is decided is decided in src/evenprune/config: paths.py (files), job_options.py (options), rerun.py
(what a result depends on).
"""

import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod
from snakemake.utils import format as filled_in

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
    from evenprune.io.files import canonical_json, digest, write_text
    from evenprune.io.pdf_programs import latex_available
    from evenprune.io.provenance import FOLDER
    from evenprune.config import job_options, rerun
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


default = Path("config/config.yaml")
RUN = plainly(load_run)(
    config,
    workflow.config_settings.config,
    workflow.overwrite_configfiles,
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
# Threads of a measurement that nothing is to disturb: all that --cores gives. On a cluster there is
# no such number where jobs are submitted, and where they run it is not theirs; the job asks for a
# node alone (profiles/site).
UNDISTURBED = CONFIG.threads
if not workflow.remote_exec:
    UNDISTURBED = workflow.resource_settings.cores or CONFIG.threads

SEARCHED = f"export PYTHONPATH={shlex.quote(':'.join(FOLDERS))}; " if IS_FOLDER else ""
shell.prefix(f"set -euo pipefail; {SEARCHED}")


def depends(rule_name, job=rerun.ALL):
    """The digest of what a job's result depends on, as Snakemake compares parameters; ``job`` is
    the pattern of its name. A job that is not of this run has none."""

    def found(wildcards):
        return RUN.digests.get((rule_name, job.format(**dict(wildcards.items()))), "")

    return found


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


def told(command, **parts):
    """A step's command line, with the parts that are functions of the wildcards; as one of the
    input Snakemake does not compare it: what a result depends on says `depends`."""

    def line(wildcards, input, output):
        found = {"folder": Path(output[0]).parent} if output else {}
        for name, part in parts.items():
            found[name] = part(wildcards) if callable(part) else part
        if "model" in wildcards.keys():
            found |= job_options.of_model(CONFIG, wildcards.model)
        return filled_in(command, wildcards=wildcards, input=input, output=output, **found)

    return line


def kept(output):
    """A checkpoint's folder, which Snakemake deletes after its last use with ``keep: evals``."""
    return output if CONFIG.keep == "checkpoints" else temp(output)


def grows(base):
    """MB of memory, or minutes that a cluster gives a job, raised on a retry."""
    return lambda wildcards, attempt: base * attempt


def gpus(wildcards):
    """GPUs of a job that loads the whole model."""
    return job_options.gpus_for(CONFIG, wildcards.model)


def one_gpu(wildcards):
    """GPUs of a job that loads one block at a time."""
    return job_options.gpus_per_job(CONFIG)


# How profiles/site asks for GPUs, see job_options.gpus_asked_by.
SELECTOR = (workflow.resource_settings.default_resources or {}).get("gpu_selector")
SELECTOR = getattr(SELECTOR, "raw", SELECTOR)  # the text of profiles/site


def asked(count, option):
    """The resource `gpu` or `gres` of a job on ``count(wildcards)`` GPUs."""
    return lambda wildcards: plainly(job_options.gpus_asked_by)(SELECTOR, count(wildcards))[option]


def in_report(path, about, **labels):
    """A file of Snakemake's own report, with the words of workflow/report."""
    category, shown = about.capitalize(), {"table": TABLES, "figure": FIGURES}.get(about)
    if shown:
        entry = shown[Path(path).stem]
        category, labels = entry["section"], {"what": entry["shows"]}
    return report(path, caption=f"../report/{about}.rst", category=category, labels=labels)
