"""The configuration, and what leads from the wildcards of a job to its files and options.

All that is decided is decided in src/evenprune/plan: paths.py (files), jobs.py (options), steps.py
(what a result depends on).
"""

import re
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

REPO = Path(str(workflow.current_basedir)).resolve().parents[1]
# Taken from a git source (`module: snakefile: github(…)`), the workflow has no folder: then the
# package is an installed one, and Snakemake fetches the few other files.
IS_FOLDER = (REPO / "src").is_dir()
if IS_FOLDER:
    sys.path.insert(0, str(REPO / "src"))

try:
    from evenprune.base.codedigest import package_versions
    from evenprune.base.errors import UserError
    from evenprune.base.files import canonical_json, digest, write_text
    from evenprune.data import sources
    from evenprune.base.pdf_programs import latex_available
    from evenprune.base.provenance import FOLDER
    from evenprune.plan import jobs, steps
    from evenprune.plan.config import TABLES, FIGURES, load_config, read_yaml
    from evenprune.plan import shown
    from evenprune.plan.facts import (
        COMPRESSIBLE,
        DENSE,
        METHODS,
        NO_CALIBRATION,
        REGIMES,
    )
    from evenprune.plan.grids import Checkpoint
    from evenprune.plan.paths import Paths
    from evenprune.plan.plan import check_disk
    from evenprune.plan.run_sheet import write_run_sheet
    from evenprune.reporting.plausibility import printed_anomaly
    from evenprune.serving.environment import OWN, serving_python
except ModuleNotFoundError as error:
    raise WorkflowError(
        f"this Snakemake runs on {sys.executable}, which lacks the Python package {error.name}; "
        + (
            "build the workflow's environment with `make env` and use its snakemake "
            "(`source .venv/bin/activate`)"
            if IS_FOLDER
            else "a workflow from a git source brings no package: install that of the same version "
            "beside Snakemake (docs/run-on-a-cluster.md, Elsewhere)"
        )
    ) from None


def shipped(path):
    """A file that is part of the workflow; Snakemake's copy of it where that has no folder."""
    return REPO / path if IS_FOLDER else Path(workflow.source_path(f"../../{path}"))


# Jobs hand on folders that are no declared files of theirs (a checkpoint's, a mirror's), which such a plugin would
# not bring along. Said here: else Snakemake plans, or misses a local file, and jobs fail one by one.
if workflow.storage_settings.default_storage_provider:
    raise WorkflowError(
        "expected one file system for all jobs, got --default-storage-provider "
        f"{workflow.storage_settings.default_storage_provider}; put results on a volume that all "
        "jobs see and leave the option out (docs/cluster.md, Kubernetes and clouds)"
    )

DEFAULT = Path("config/config.yaml")
BY_CONDA = DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method


def python_for(backend, key):
    """The interpreter that has what a backend needs; one that is missing stops the run."""
    asked = CONFIG.serving.python
    return serving_python(asked, backend, [Path(), REPO], BY_CONDA, key=key)


try:
    # Snakemake has merged these into `config` and let the last of equal keys win.
    for given in workflow.overwrite_configfiles:
        read_yaml(given)
    CONFIG = load_config(
        config,
        default=DEFAULT if DEFAULT.is_file() else shipped(DEFAULT),
        catalogue=shipped("config/catalogue.yaml"),
    )
    MEASURES, SERVING_PYTHON = CONFIG.serving.experiment is not None, OWN
    if MEASURES:
        SERVING_PYTHON = python_for(CONFIG.serving.backend, "serving.backend")
    ON_VLLM = [name for name, b in CONFIG.benchmarks.items() if b.backend == "vllm"]
    VLLM_PYTHON = (
        python_for("vllm", f"benchmarks.{ON_VLLM[0]}.backend") if ON_VLLM else OWN
    )
except UserError as error:
    raise WorkflowError(str(error)) from None

# The package is used from the checkout, without installing it.
SEARCHED = f"export PYTHONPATH={shlex.quote(str(REPO / 'src'))}; " if IS_FOLDER else ""
shell.prefix(f"set -euo pipefail; {SEARCHED}")

PATHS = Paths(CONFIG)
GPUS = jobs.gpus_per_job(CONFIG)
MIRROR = jobs.mirror(CONFIG)
# Threads of a measurement that nothing is to disturb: all that --cores gives. On a cluster there is
# no such number where jobs are submitted, and where they run it is not theirs; the job asks for a
# node alone (profiles/site).
UNDISTURBED = (
    CONFIG.threads
    if workflow.remote_exec
    else workflow.resource_settings.cores or CONFIG.threads
)


def any_of(names):
    """A regular expression of exactly these names."""
    return "|".join(map(re.escape, names))


def of_point(function, *arguments):
    """A function of a checkpoint, as one of the wildcards that name it."""

    def found(wildcards):
        calibration = wildcards.get("calibration", NO_CALIBRATION)
        regime = wildcards.get("regime", COMPRESSIBLE)
        named = (wildcards.model, wildcards.method, regime, calibration)
        try:
            return function(*arguments, Checkpoint(*named, int(wildcards.seed)))
        except UserError as error:
            raise WorkflowError(str(error)) from None

    return found


def of_model(function):
    """A function of a model's checkpoints that are measured together, as one of the wildcards."""

    def found(wildcards):
        try:
            return function(PATHS.served(wildcards.model))
        except UserError as error:
            raise WorkflowError(str(error)) from None

    return found


def flag(name, value):
    """A flag of the command line with its value; nothing where there is none."""
    return f"--{name} {shlex.quote(str(value))}" if value else ""


def flags(options):
    """The flags of all options that are told."""
    return " ".join(
        f"--{name.replace('_', '-')} {shlex.join(map(str, value if isinstance(value, list) else [value]))}"
        for name, value in options.items()
        if value != ""
    )


def local(value):
    """A parameter that changes no result: as a function of the input it is not compared."""
    return lambda wildcards, input: value


def kept(output):
    """A checkpoint's folder, which Snakemake deletes after its last use with ``keep: evals``."""
    return output if CONFIG.keep == "checkpoints" else temp(output)


def existing(files):
    """Those of the files that are there."""
    return [file for file in files if Path(file).exists()]


def trust_flag(wildcards):
    """--trust-remote-code for the models whose own code the configuration allows."""
    trusted = CONFIG.models[wildcards.model].trust_remote_code
    return "--trust-remote-code" if trusted else ""


def model_gpus(wildcards):
    """GPUs of a job that loads the whole model."""
    return jobs.gpus_for(CONFIG, wildcards.model)


def gpus_flag(wildcards, input):
    """--gpus for a model on several; as a function of the input it is not compared."""
    return f"--gpus {count}" if (count := model_gpus(wildcards)) > 1 else ""


def memory_mb(base):
    """Memory in MB of a job, raised on a retry."""
    return lambda wildcards, attempt: base * attempt


def minutes(base):
    """Time in minutes that a cluster gives a job, raised on a retry."""
    return lambda wildcards, attempt: base * attempt


def shown_as(kind, entry):
    """How Snakemake's report lists a table or figure."""
    return {"what": entry["shows"], "form": kind}


def fingerprint(kind, name, entry):
    """What fetching would bring: the mirror's bytes, or what the lock pins; steps make a world."""
    if CONFIG.source == "world" and not entry.get("path"):
        return ""
    return sources.fingerprint(kind, name, entry, MIRROR, CONFIG.lock)


for package, version in package_versions("torch", "transformers", "lm_eval").items():
    if version == "absent" and not BY_CONDA:
        raise WorkflowError(
            f"this Snakemake runs on {sys.executable}, which lacks the Python package {package}; "
            "build the workflow's environment with `make env` and use its snakemake "
            "(`source .venv/bin/activate`), or give --sdm conda"
        )

try:
    OWN_ERRORS, ABSENT = sources.unresolved(
        jobs.needed_sources(CONFIG), MIRROR, CONFIG.lock
    )
    if OWN_ERRORS:
        raise UserError("\n".join(OWN_ERRORS))
    DIGESTS = steps.digests(PATHS, fingerprint)
except UserError as error:
    raise WorkflowError(str(error)) from None
if ABSENT and workflow.is_main_process:
    print(
        f"{len(ABSENT)} sources are not here yet:", *ABSENT, sep="\n  ", file=sys.stderr
    )


def depends(rule_name, job=steps.ALL):
    """The digest of what a job's result depends on, as Snakemake compares parameters; ``job`` is
    the pattern of its name. A job that is not of this run has none."""

    def found(wildcards):
        return DIGESTS.get((rule_name, job.format(**dict(wildcards.items()))), "")

    return found
