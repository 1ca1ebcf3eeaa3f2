"""What each job's result depends on, by name: its options, its code, packages and data.

Options are said as flags of the job's command. There is nothing of where the run lies or what its
machine has. Snakemake compares all of it as parameters; it compares values and not their names, so
that every value begins with its name.
"""

from collections.abc import Callable, Mapping
from dataclasses import astuple
from typing import Any

from ..io.codedigest import PACKAGE, PACKAGES, code_digest, package_versions
from ..io.files import canonical_json, digest
from . import grids, job_options
from .config import Config
from .facts import METHODS, regime_facts
from .grids import Checkpoint
from .job_options import flags
from .paths import Paths
from .run_sheet import computed, contents
from .tasks import decisive

# Facts that are hashed per job as values, not as code
GIVEN = (f"{PACKAGE}.config.facts", f"{PACKAGE}.config.tasks")
ALL = "all"  # the job of a rule whose jobs all depend on the same
# (kind, name, entry) -> what fetching would bring
Fingerprint = Callable[[str, str, dict[str, Any]], str]
Dependencies = dict[tuple[str, str], dict[str, str]]


def code(*modules: str, given: tuple[str, ...] = (), facts: Any = ()) -> dict[str, str]:
    """Return the digest of the code of steps, by module within this package or full name.

    ``facts`` are values that count as code, such as those of a method.
    """
    names = [m if m.startswith(PACKAGES[1]) else f"{PACKAGE}.{m}" for m in modules]
    found = digest([facts, *(code_digest(name, given) for name in names)])
    return {"code": f"code {found}"}


def packages(*names: str) -> dict[str, str]:
    """Return the installed versions of packages."""
    return {name: f"{name} {version}" for name, version in package_versions(*names).items()}


def keys(values: Mapping[str, Any], *above: str) -> dict[str, str]:
    """Return the values of a nested mapping by their keys, as in ``unqover.style: helm``."""
    found: dict[str, str] = {}
    for name, value in values.items():
        path = (*above, name)
        if isinstance(value, Mapping) and value:
            found |= keys(value, *path)
        else:
            text = value if isinstance(value, str) else canonical_json(value)
            found[".".join(path)] = f"{'.'.join(path)}: {text}"
    return found


def prune_job(point: Checkpoint) -> str:
    """Return the name of what pruning a checkpoint depends on, whatever its seed."""
    return f"{point.model}/{point.method}/{point.regime}/{point.calibration}"


def dependencies(paths: Paths, fingerprint: Fingerprint) -> Dependencies:
    """Return (rule, job) -> name -> what the job's result depends on."""
    sheet, page = contents(paths), "evenprune_world.controls"
    found: Dependencies = {
        **_sources(paths, fingerprint),
        **_pruning(paths),
        **_evaluation(paths),
        **_serving(paths),
        ("write_run_sheet", ALL): _sheet(paths, sheet),
        # The sheet's words change no number: what computes one has a sheet of its own.
        ("list_checkpoints", ALL): _sheet(paths, computed(sheet)),
        ("collect_results", ALL): code("analysis.collect_results")
        | packages("numpy", "scipy", "statsmodels", "pandas"),
        ("make_items", ALL): code("analysis.make_items"),
        ("make_tables", ALL): code("reporting.make_tables") | packages("matplotlib", "itables"),
        ("make_paper", ALL): code("reporting.make_paper"),
    }
    if paths.world_files():
        found["report_world", ALL] = code(f"{page}.report_world") | packages("numpy", "matplotlib")
    if paths.config.controls.worlds:
        found["report_controls", ALL] = code(f"{page}.report_controls") | packages(
            "numpy", "scipy", "matplotlib"
        )
    return found


def _sheet(paths: Paths, sheet: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run sheet holds: the configuration by its keys, the grids as a digest.

    Where the results lie changes neither.
    """
    grid = {name: sheet[name] for name in ("experiments", "checkpoints")}
    found = digest(canonical_json(grid).replace(f"{paths.results}/", ""))
    return {**keys(sheet["config"]), "grid": f"grid {found}"}


def _sources(paths: Paths, fingerprint: Fingerprint) -> Dependencies:
    config = paths.config
    found: Dependencies = {}
    if config.source == "world":
        found["generate_world", ALL] = flags({"seed": config.world.seed}) | code(
            "evenprune_world.generate_world"
        )
        trained = code("evenprune_world.train_world") | packages(
            "torch", "transformers", "tokenizers"
        )
        shipped = code("evenprune_world.shipped_world_model")
        made = {"command": job_options.world_command(config)}
        found["world_model", ALL] = made | (trained if config.world.retrain else shipped)
    for rule, kind, names in (
        ("fetch_dataset", "data", grids.needed_datasets(config)),
        ("fetch_model", "models", grids.needed_models(config)),
    ):
        for name in names:
            entry = job_options.source_entry(config, kind, name)
            files = f"files {fingerprint(kind, name, entry)}"
            found[rule, name] = keys(entry, kind, name) | {"files": files} | code(f"data.{rule}")
    for model, name in {key[:2] for key in grids.calibrated(paths.checkpoints)}:
        options = job_options.calibration_options(config, name)
        pairs = " ".join(config.calibrations[name].pairs)
        found["build_calibration", f"{model}/{name}"] = {
            "pairs_source": f"--pairs-source {pairs}",
            **flags(options | job_options.own_bos(config, model)),
            **code("data.build_calibration"),
            **packages("transformers", "tokenizers"),
        }
    return found


def _pruning(paths: Paths) -> Dependencies:
    config = paths.config
    found: Dependencies = {("compare_masks", ALL): code("pruning.compare_masks")}
    for point in paths.checkpoints:
        if not point.is_base:
            found["prune_model", prune_job(point)] = {
                **flags(job_options.prune_options(config, point) | {"device": config.device}),
                **_method_code(config, point),
                **packages("torch", "transformers"),
            }
    return found


def _method_code(config: Config, point: Checkpoint) -> dict[str, str]:
    """Return the digest of `prune`, of the checkpoint's method, and of the facts of both.

    The facts stand in one module with those of all others, so that they count as values: a new
    method or regime makes nothing again. Nor does another check: it changes no weight.
    """
    method = grids.base_method(config, point.method)
    module = f"pruning.methods.{method.replace('-', '_')}"
    facts = [*astuple(METHODS[method]), *astuple(regime_facts(point.regime))]
    given = (*GIVEN, f"{PACKAGE}.pruning.check")
    return code("pruning.prune", module, given=given, facts=facts)


def _evaluation(paths: Paths) -> Dependencies:
    found = {}
    for point in paths.checkpoints:
        options = job_options.benchmark_options(paths.config, point)
        tasks = sorted({one["task"] for one in options.values()})
        modules = [f"evaluation.{name}" for name in ("evaluate_checkpoint", *tasks)]
        found["evaluate_checkpoint", point.key] = {
            **flags({"device": paths.config.device}),
            **keys(options),
            **code(*modules, given=GIVEN, facts=[decisive(task) for task in tasks]),
            **packages("torch", "transformers", "lm_eval"),
        }
    return found


def _serving(paths: Paths) -> Dependencies:
    config = paths.config
    found: Dependencies = {
        ("export_sparse24", ALL): code("serving.export_sparse24")
        | packages("torch", "transformers")
    }
    for model in dict.fromkeys(p.model for p in grids.serving_checkpoints(config)):
        options = job_options.serving_options(config, model)
        compressed = {point.key: paths.is_compressed(point) for point in paths.served(model)}
        found["benchmark_serving", model] = {
            **flags(options | {"device": config.device}),
            **keys({f"{key} compressed": value for key, value in compressed.items()}),
            **code("serving.benchmark_serving"),
        }
    return found
