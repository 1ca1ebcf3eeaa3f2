"""What each job's result depends on, and its digest, which Snakemake compares as a parameter.

Options, code and the versions of the packages that decide the bytes: nothing of where the run
lies or what its machine has.
"""

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

from ..io.codedigest import PACKAGE, code_digest, package_versions
from ..io.files import canonical_json, digest
from . import grids, job_options
from .config import Config
from .facts import METHODS, regime_facts
from .grids import Checkpoint
from .paths import Paths
from .run_sheet import computed, contents
from .tasks import decisive

# Facts that are hashed per job as values, not as code
GIVEN = (f"{PACKAGE}.config.facts", f"{PACKAGE}.config.tasks")
ALL = "all"  # the job of a rule whose jobs all depend on the same
# (kind, name, entry) -> what fetching would bring
Fingerprint = Callable[[str, str, dict[str, Any]], str]
Dependencies = dict[tuple[str, str], Any]


def code(*modules: str, given: tuple[str, ...] = ()) -> list[str]:
    """Return the digests of the code of steps, by module within this package."""
    return [code_digest(f"{PACKAGE}.{module}", given) for module in modules]


def prune_job(point: Checkpoint) -> str:
    """Return the name of what pruning a checkpoint depends on, whatever its seed."""
    return f"{point.model}/{point.method}/{point.regime}/{point.calibration}"


def dependencies(paths: Paths, fingerprint: Fingerprint) -> Dependencies:
    """Return (rule, job) -> what the job's result depends on."""
    sheet = contents(paths)
    return {
        **_sources(paths, fingerprint),
        **_pruning(paths),
        **_evaluation(paths),
        **_serving(paths),
        ("write_run_sheet", ALL): sheet,
        # The sheet's words change no number: what computes one has a sheet of its own.
        ("list_checkpoints", ALL): computed(sheet),
        ("collect_results", ALL): [
            code("analysis.collect_results"),
            package_versions("numpy", "scipy", "statsmodels", "pandas"),
        ],
        ("make_items", ALL): code("analysis.make_items"),
        ("make_tables", ALL): [
            code("reporting.make_tables"),
            package_versions("matplotlib", "itables"),
        ],
        ("make_paper", ALL): code("reporting.make_paper"),
    }


def _sources(paths: Paths, fingerprint: Fingerprint) -> Dependencies:
    config = paths.config
    found: Dependencies = {}
    for rule, kind, names in (
        ("fetch_dataset", "data", grids.needed_datasets(config)),
        ("fetch_model", "models", grids.needed_models(config)),
    ):
        for name in names:
            entry = job_options.source_entry(config, kind, name)
            found[rule, name] = [entry, fingerprint(kind, name, entry), code(f"data.{rule}")]
    for model, name in {key[:2] for key in grids.calibrated(paths.checkpoints)}:
        found["build_calibration", f"{model}/{name}"] = [
            job_options.calibration_options(paths, name),
            job_options.of_model(config, model)["bos"],
            code("data.build_calibration"),
            package_versions("transformers", "tokenizers"),
        ]
    return found


def _pruning(paths: Paths) -> Dependencies:
    found: Dependencies = {("compare_masks", ALL): code("pruning.compare_masks")}
    for point in paths.checkpoints:
        if not point.is_base:
            found["prune_model", prune_job(point)] = [
                job_options.prune_options(paths.config, point),
                paths.config.device,
                method_code(paths.config, point),
                package_versions("torch", "transformers"),
            ]
    return found


def method_code(config: Config, point: Checkpoint) -> list[Any]:
    """Return the digests of `prune` and of the checkpoint's method, and the facts of both.

    The facts stand in one module with those of all others, so that they count as values: a new
    method or regime makes nothing again. Nor does another check: it changes no weight.
    """
    method = grids.base_method(config, point.method)
    module = f"{PACKAGE}.pruning.methods.{method.replace('-', '_')}"
    modules = (f"{PACKAGE}.pruning.prune", module)
    facts = [*astuple(METHODS[method]), *astuple(regime_facts(point.regime))]
    given = (*GIVEN, f"{PACKAGE}.pruning.check")
    return [*(code_digest(name, given) for name in modules), facts]


def _evaluation(paths: Paths) -> Dependencies:
    found = {}
    for point in paths.checkpoints:
        options = job_options.benchmark_options(paths, point)
        tasks = sorted({one["task"] for one in options.values()})
        modules = ("evaluate_checkpoint", *tasks)
        found["evaluate_checkpoint", point.key] = [
            options,
            paths.config.device,
            code(*(f"evaluation.{name}" for name in modules), given=GIVEN),
            [decisive(task) for task in tasks],
            package_versions("torch", "transformers", "lm_eval"),
        ]
    return found


def _serving(paths: Paths) -> Dependencies:
    found: Dependencies = {
        ("export_sparse24", ALL): [
            code("serving.export_sparse24"),
            package_versions("torch", "transformers"),
        ]
    }
    for model in dict.fromkeys(p.model for p in grids.serving_checkpoints(paths.config)):
        found["benchmark_serving", model] = [
            job_options.serving_options(paths.config, model),
            [[point.key, paths.is_compressed(point)] for point in paths.served(model)],
            paths.config.device,
            code("serving.benchmark_serving"),
        ]
    return found


def digests(paths: Paths, found: Dependencies) -> dict[tuple[str, str], str]:
    """Return (rule, job) -> the digest of what the job's result depends on, as it was found."""
    return {
        # Where the results lie changes none of them.
        job: digest(canonical_json(depends_on).replace(f"{paths.results}/", ""))
        for job, depends_on in found.items()
    }
