"""What each job is told, and what its result depends on: options, code, packages, data, by name.

A job gets exactly the options that decide its bytes: changing one that its method or benchmark
does not use reruns nothing, nor does where the run lies or what its machine has. Snakemake compares
all of it as parameters; it compares values and not their names, so that every value begins with
its name, an option as the flag of the job's command.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple
from typing import Any

from ..io.checksums import Kind
from ..io.codedigest import PACKAGE, code_digest, package_versions
from ..io.errors import UserError, shown
from ..io.files import canonical_json, digest
from . import grids
from .config import Config
from .facts import METHODS, NO_CALIBRATION, regime_facts, used_options
from .flags import flag
from .grids import Checkpoint
from .paths import Paths
from .run_sheet import contents
from .serving_keys import Measured
from .tasks import decisive

# Facts that are hashed per job as values, not as code
GIVEN = (f"{PACKAGE}.config.facts", f"{PACKAGE}.config.tasks")
ALL = "all"  # the job of a rule whose jobs all depend on the same
# (kind, name, entry) -> what fetching would bring
Fingerprint = Callable[[str, str, dict[str, Any]], str]
Dependencies = dict[tuple[str, str], dict[str, str]]


def any_of(names: Iterable[str]) -> str:
    """Return a regular expression of exactly these names."""
    return "|".join(map(re.escape, names))


def flags(options: Mapping[str, Any]) -> dict[str, str]:
    """Return name -> flag, as in ``--damping 0.01``, a list with commas.

    An option that is None, "" or empty has none.
    """
    found = {}
    for name, value in options.items():
        if value not in (None, "", []):
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            found[name] = f"{flag(name)} {shlex.quote(text)}"
    return found


def gpus_for(config: Config, model: str | None = None) -> int:
    """Return how many GPUs a job asks for that loads a model; None: one block at a time."""
    return 0 if config.device == "cpu" else config.models[model].gpus if model else 1


def gpus_asked_by(selector: object, count: int) -> dict[str, int | str | None]:
    """Return the resources ``gpu`` and ``gres`` of a job on ``count`` GPUs.

    ``selector``, `gpu_selector` of profiles/site: `gpus` or None for --gpus=N, `gres` for
    --gres=gpu:N, `gres:KIND` for --gres=gpu:KIND:N. Raises UserError for anything else.
    """
    found = re.fullmatch(r"gpus|gres(:\w[\w.]*)?", str(selector or "gpus"))
    if not found:
        raise UserError(
            "expected gpus, gres or gres:KIND at gpu_selector of profiles/site/config.yaml, got "
            f"{shown(selector)}"
        )
    if found[0] == "gpus":
        return {"gpu": count, "gres": None}
    return {"gpu": 0, "gres": f"gpu{found[1] or ''}:{count}" if count else None}


def mirror(config: Config) -> str | list[str] | None:
    """Return the folders that are asked first: the invented world of the run, or the user's.

    One of them stands alone, as in the file that names it for the records.
    """
    if config.source == "world":
        return f"{config.results}/world"
    return config.mirror[0] if config.mirror and len(config.mirror) == 1 else config.mirror


def source_entry(config: Config, kind: str, name: str) -> dict[str, Any]:
    """Return where a data set (``data``) or model (``models``) comes from."""
    named = config.datasets[name] if kind == "data" else config.models[name]
    places = {"path"} if named.path else {"mirror", "hub", "package"}
    return named.model_dump(include={*places, "trust_remote_code"}, exclude_defaults=True)


def all_sources(config: Config) -> list[tuple[Kind, str, dict[str, Any]]]:
    """Return (kind, name, entry) of each source that the run reads."""
    names: list[tuple[Kind, str]] = [("data", name) for name in grids.needed_datasets(config)]
    names += [("models", name) for name in grids.needed_models(config)]
    return [(kind, name, source_entry(config, kind, name)) for kind, name in names]


def fetch_flags(paths: Paths, kind: Kind, name: str) -> str:
    """Return what fetching a source is told: its entry, the run's lock, and where to ask first.

    That is the file that names the mirror, or the world of the run.
    """
    told = {
        "entry": canonical_json(source_entry(paths.config, kind, name)),
        "lock": paths.config.lock,
        "cache": f"{paths.results}/sources/hub",
        "mirror_file": paths.mirror_file,
        "mirror": None if paths.mirror_file else mirror(paths.config),
    }
    return " ".join(flags(told).values())


def calibration_options(config: Config, calibration: str) -> dict[str, Any]:
    """Return the options of ``build-calibration`` by name; texts' own where it has texts."""
    entry = config.calibrations[calibration]
    return {
        **entry.model_dump(exclude=set() if entry.texts else {"n_texts", "max_tokens"}),
        "alignment": grids.alignment(config, calibration),
        "counterfactuals": entry.counterfactuals or None,
    }


def prune_options(config: Config, point: Checkpoint) -> dict[str, Any]:
    """Return the options of ``prune`` by name: those that the checkpoint's method uses."""
    method = grids.base_method(config, point.method)
    wanted = grids.method_options(config, point.method)
    read = point.calibration != NO_CALIBRATION
    if read:
        wanted["alignment"] = grids.alignment(config, point.calibration)
    used = used_options(method, wanted)
    return {
        "method": method,
        "bos": config.models[point.model].bos if read else None,
        **{name: value for name, value in wanted.items() if name in used},
    }


def benchmark_sources(paths: Paths, key: str, point: Checkpoint) -> list[str]:
    """Return the records of what a checkpoint's benchmarks name under ``dataset`` or ``judge``."""
    names = {getattr(one, key) for one in grids.benchmarks_of(paths.config, point).values()}
    record = paths.dataset if key == "dataset" else paths.model
    return [record(name) for name in sorted(filter(None, names))]


def benchmark_options(config: Config, point: Checkpoint) -> dict[str, dict[str, Any]]:
    """Return what decides each of a checkpoint's benchmarks; ``data`` and ``judge`` by name."""
    model = config.models[point.model]
    found = {}
    for slug, benchmark in grids.benchmarks_of(config, point).items():
        unused = {"dataset", "experiments"}
        drawn = benchmark.limit is not None or benchmark.counterfactuals
        unused |= set() if drawn else {"seed"}  # of no sample
        unused |= {"lexicon"} if benchmark.judge else set()
        options = benchmark.model_dump(exclude=unused, exclude_none=True)
        options |= {"dtype": model.dtype}
        if benchmark.dataset:
            options["data"] = benchmark.dataset
        found[slug] = options | grids.asked_of(config, benchmark, point.model)
    return found


def benchmarks_json(paths: Paths, point: Checkpoint) -> str:
    """Return a checkpoint's benchmarks as ``evaluate-checkpoint`` takes them, files for names."""
    found = benchmark_options(paths.config, point)
    for options in found.values():
        for key, file in (("data", paths.dataset), ("judge", paths.model)):
            if key in options:
                options[key] = file(options[key])
    return canonical_json(found)


def evaluation_memory_mb(config: Config) -> int:
    """Return the MB of memory of a job that evaluates a checkpoint."""
    return 32_000 if config.device == "cuda" else 3_000


# What a result depends on


def code(
    *modules: str, given: tuple[str, ...] = (), facts: Any = (), package: str = PACKAGE
) -> dict[str, str]:
    """Return the digest of the code of steps, by module within a package.

    ``facts`` are values that count as code, such as those of a method.
    """
    digests = (code_digest(f"{package}.{module}", given) for module in modules)
    return {"code": f"code {digest([facts, *digests])}"}


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


def dependencies(paths: Paths, fingerprint: Fingerprint) -> Dependencies:
    """Return (rule, job) -> name -> what the job's result depends on."""
    # The sheet's words change no number.
    numbers = _sheet(contents(paths.config, words=False))
    return {
        **_sources(paths, fingerprint),
        **_pruning(paths),
        **_evaluation(paths),
        **_serving(paths),
        ("write_run_sheet", ALL): _sheet(contents(paths.config)),
        ("collect_results", ALL): numbers
        | code("analysis.collect_results")
        | packages("numpy", "scipy", "statsmodels", "pandas"),
        ("make_items", ALL): numbers | code("analysis.make_items"),
        ("make_tables", ALL): code("reporting.make_tables") | packages("matplotlib", "itables"),
        ("make_paper", ALL): code("reporting.make_paper"),
    }


def _sheet(sheet: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run sheet holds: the configuration by its keys, the grids as a digest."""
    return {**keys(sheet["config"]), "grid": f"grid {digest(sheet['experiments'])}"}


def _sources(paths: Paths, fingerprint: Fingerprint) -> Dependencies:
    config = paths.config
    found: Dependencies = {}
    for kind, name, entry in all_sources(config):
        files = {"files": f"files {fingerprint(kind, name, entry)}"}
        params = keys(entry, kind, name) | files | code("data.fetch_source")
        found["fetch_source", f"{kind}/{name}"] = params
    for model, name in {key[:2] for key in grids.calibrated(paths.checkpoints)}:
        options = calibration_options(config, name)
        found["build_calibration", f"{model}/{name}"] = {
            **flags(options | {"bos": config.models[model].bos}),
            **code("data.build_calibration"),
            **packages("transformers", "tokenizers"),
        }
    return found


def _pruning(paths: Paths) -> Dependencies:
    config = paths.config
    found: Dependencies = {("compare_masks", ALL): code("pruning.compare_masks")}
    for point in paths.checkpoints:
        if not point.is_base:
            found["prune_model", point.key.rpartition("/")[0]] = {  # whatever its seed
                **flags(prune_options(config, point) | {"device": config.device}),
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
    module = f"methods.{method.replace('-', '_')}"
    facts = [*astuple(METHODS[method]), *astuple(regime_facts(point.regime))]
    given = (*GIVEN, f"{PACKAGE}.pruning.check")
    return code("pruning.prune", module, given=given, facts=facts)


def _evaluation(paths: Paths) -> Dependencies:
    found = {}
    for point in paths.checkpoints:
        options = benchmark_options(paths.config, point)
        tasks = sorted({one["task"] for one in options.values()})
        modules = ["evaluation.evaluate_checkpoint", *(f"tasks.{name}" for name in tasks)]
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
        options = {"dtype": config.models[model].dtype, "device": config.device}
        options |= config.serving.model_dump(include=set(Measured.model_fields))
        compressed = {point.key: paths.is_compressed(point) for point in paths.served(model)}
        found["benchmark_serving", model] = {
            **flags(options),
            **keys({f"{key} compressed": value for key, value in compressed.items()}),
            **code("serving.benchmark_serving"),
        }
    return found
