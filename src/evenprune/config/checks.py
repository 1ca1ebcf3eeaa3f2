"""What a configuration must fulfil beyond the kind of each value: names, references, values.

Each check yields lines ``key.path: got …, expected …``; all are made, so that all errors come at
once.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..io.errors import nearest
from . import grids
from .benchmark_keys import Asked
from .facts import METHODS, PRUNING_METHODS
from .pair_sources import BIAS_TYPES, PAIR_SOURCES, TEXT_SOURCES
from .pruning_keys import pruning_faults
from .table_registry import TABLES, experiments_of
from .tasks import DATA_OF, FACTS, JUDGED, LM_EVAL, TASK_OPTIONS, metrics_of, splits_of

if TYPE_CHECKING:
    from .config import Config

# Names that something else has already, in results.csv or in a folder.
RESERVED = {
    "methods": tuple(METHODS),
    "calibrations": ("none", "diff"),
    "benchmarks": ("calibration", "check", "dto", "masks", "serving", "summary.json"),
}
WORLD_MODEL = "world"  # name of the model that the workflow makes
SHIPPED_SEED = 0  # of the world whose model is shipped

Lines = Iterator[str]
Faults = Iterator[tuple[str, str]]


def all_errors(config: "Config") -> list[str]:
    """Return every error of a configuration whose values are of the right kinds."""
    checks = (
        *(reserved_names, name_errors, source_errors, benchmark_errors, table_errors),
        *(model_protocol_errors, calibration_errors, method_errors),
    )
    return [line for check in checks for line in check(config)]


def unknown(where: str, given: str | list[str] | None, allowed: Iterable[str], what: str) -> Lines:
    """Yield an error for a name, or each of a list, that is not among those defined."""
    allowed = list(allowed)
    if isinstance(given, list):
        for number, one in enumerate(given):
            yield from unknown(f"{where}.{number}", one, allowed, what)
    elif given is not None and given not in allowed:
        shown = ", ".join(allowed) or "none defined"
        near = nearest(given, allowed)
        yield f"{where}: got {given!r}, which is no {what}{near} (allowed: {shown})"


def reserved_names(config: "Config") -> Lines:
    """Yield an error for each name that belongs to something else."""
    for kind, reserved in RESERVED.items():
        for name in reserved:
            if name in getattr(config, kind):
                yield f"{kind}.{name}: the name {name!r} is reserved; choose another name"


def name_errors(config: "Config") -> Lines:
    """Yield an error for each name in experiments, benchmarks and ``serving`` that nothing has."""
    models, data, experiments = config.models, config.datasets, config.experiments
    used: dict[str, Iterable[str]] = {"model": models, "calibration": config.calibrations}
    used["method"] = [*METHODS, *config.methods]
    for name, grid in experiments.items():
        for kind, known in used.items():
            given = getattr(grid, f"{kind}s")
            yield from unknown(f"experiments.{name}.{kind}s", given, known, kind)
    for name, entry in config.benchmarks.items():
        where = f"benchmarks.{name}"
        yield from unknown(f"{where}.dataset", entry.dataset, data, "data set")
        yield from unknown(f"{where}.experiments", entry.experiments, experiments, "experiment")
        yield from unknown(f"{where}.judge", entry.judge, models, "model")
    serving = config.serving
    yield from unknown("serving.experiment", serving.experiment, experiments, "experiment")
    if serving.experiment:
        yield from unknown("serving.dataset", serving.dataset, data, "data set")


def source_errors(config: "Config") -> Lines:
    """Yield errors of what a ``source`` does not have: the invented world, or all else."""
    used = {model for grid in config.experiments.values() for model in grid.models}
    used |= {entry.judge for entry in config.benchmarks.values() if entry.judge}
    for model in sorted(used & {*config.models}):
        needed = "world" if model == WORLD_MODEL else "external"
        if config.source != needed:
            yield f"source: got {config.source!r}, but the model {model!r} needs {needed!r}"
    entry = config.models.get(WORLD_MODEL)
    for key in ("mirror", "path"):
        if entry and getattr(entry, key) not in (None, WORLD_MODEL):
            yield f"models.{WORLD_MODEL}.{key}: the workflow makes this model; leave it out"
    seed, shipped = config.world.seed, config.source == "world" and not config.world.retrain
    if seed != SHIPPED_SEED and shipped:
        yield (
            f"world.seed: got {seed}, but the shipped model belongs to the world with seed "
            f"{SHIPPED_SEED}; set world.retrain to true, and results to a new folder"
        )


def benchmark_errors(config: "Config") -> Lines:
    """Yield errors of the benchmarks: what is missing, and what each task does not know."""
    for name, entry in config.benchmarks.items():
        where = f"benchmarks.{name}"
        if entry.dataset is None and entry.task != LM_EVAL:
            yield f"{where}.dataset: is missing; name a data set, or a file of your own"
        for key, what in benchmark_faults(entry.model_dump(exclude_none=True)):
            yield f"{where}.{key}: {what}"
    if all(entry.experiments for entry in config.benchmarks.values()):
        yield "benchmarks: every one is restricted; leave experiments out of one at least"


def table_errors(config: "Config") -> Lines:
    """Yield errors of tables about an experiment or a metric that is not there."""
    entries = [entry.model_dump() for entry in config.benchmarks.values()]
    for name in config.tables:
        shown = experiments_of(name)
        if shown and not {"*", *config.experiments} & set(shown):
            yield (
                f"tables: {name} shows the experiment {shown[0]}, which is not there; add it to "
                "experiments, or leave the table out"
            )
        task, metric = TABLES[name].get("task", ""), TABLES[name].get("metric")
        mine = (metrics_of(task, entry) for entry in entries if entry["task"] == task)
        if metric and not any(metric in metrics for metrics in mine):
            option = next(key for key, found in FACTS[task].options.items() if metric in found)
            yield (
                f"tables: {name} shows {metric}, which no benchmark has; add {option} to one of "
                f"{task}, or leave the table out"
            )


def model_protocol_errors(config: "Config") -> Lines:
    """Yield an error for each style and split of a model that its task does not have."""
    for name, model in config.models.items():
        for task, entry in model.protocol.items():
            given = entry.model_dump()
            for key, what in benchmark_faults(given | {"task": task}):
                if key in given:
                    yield f"models.{name}.protocol.{task}.{key}: {what}"


def calibration_errors(config: "Config") -> Lines:
    """Yield errors of the calibrations: data sets, bias types, texts and their number."""
    for name, entry in config.calibrations.items():
        where = f"calibrations.{name}"
        for kind, shipped in (("pairs", PAIR_SOURCES), ("texts", TEXT_SOURCES)):
            # Of the catalogue only some have the form; one under a name of your own may have it.
            fitting = [one for one in config.datasets if one in shipped or one not in DATA_OF]
            given = getattr(entry, kind)
            yield from unknown(f"{where}.{kind}", given, fitting, f"data set of {kind}")
        for source in (one for one in entry.pairs if one in BIAS_TYPES):
            what = f"bias type of {source}"
            yield from unknown(f"{where}.categories", entry.categories, BIAS_TYPES[source], what)
        if bool(entry.n_texts) != bool(entry.texts) and entry.texts in (None, *TEXT_SOURCES):
            yield f"{where}.n_texts: got {entry.n_texts} texts of {entry.texts}; set both or none"


def method_errors(config: "Config") -> Lines:
    """Yield errors of how experiments combine methods with regimes and calibrations."""
    said: dict[str, str] = {}
    for name, grid in config.experiments.items():
        methods = [one for one in grid.methods if one in (*PRUNING_METHODS, *config.methods)]
        calibrations = [one for one in grid.calibrations if one in config.calibrations]
        for method, regime, used in itertools.product(methods, grid.regimes, calibrations):
            base, own = grids.base_method(config, method), config.methods.get(method)
            options = grids.method_options(config, method)
            options["alignment"] = grids.alignment(config, used)
            for key, what in pruning_faults(base, regime, options):
                place = f"methods.{method}" if getattr(own, key, None) else "pruning"
                where = f"calibrations.{used}" if key == "alignment" else place
                said.setdefault(f"{where}.{key}", f"{what} (experiments.{name}, {method})")
    yield from (f"{where}: {what}" for where, what in said.items())


def benchmark_faults(entry: Mapping[str, Any]) -> Faults:
    """Yield (key, what is wrong) of a benchmark's options; null ones are left open.

    For the configuration and for commands alike: they fit its task, and each other.
    """
    task = entry["task"]
    yield from _task_faults(task, entry)
    if task == LM_EVAL and not entry.get("name"):
        yield "name", "is missing; name one of lm-eval's tasks, as in arc_easy"
    if task == LM_EVAL and entry.get("dataset") and not entry.get("trust_tasks"):
        yield "trust_tasks", "is missing: files of tasks can run code; read them, then set it true"
    for key, fitting in TASK_OPTIONS.items():
        left_open = (None, False, Asked.model_fields[key].default)
        if entry.get(key) not in left_open and task not in fitting:
            names = " and ".join(fitting)
            have = f"tasks {names} have" if fitting[1:] else f"task {names} has"
            yield key, f"only the {have} it, this is the task {task!r}; leave it out"
    if task in JUDGED and entry.get("judge_forms") and not entry.get("judge"):
        yield "judge_forms", "says what a guard model is shown, but there is no judge; set judge"


def _task_faults(task: str, entry: Mapping[str, Any]) -> Faults:
    """Yield what is wrong with options against the facts of their task."""
    dataset = entry.get("dataset")
    splits = splits_of(task, dataset)
    fitting = [name for name, (owner, _) in DATA_OF.items() if owner == task]
    if dataset in DATA_OF and dataset not in fitting:
        fits = f"in the catalogue fits {', '.join(fitting)}; your own needs another name"
        yield "dataset", f"got {dataset!r}, not of the form that the task {task} reads; {fits}"
    yield from _choice(task, entry, "style", FACTS[task].styles)
    yield from _choice(task, entry, "split", splits)
    if task == "unqover" and entry.get("by_text") and entry.get("split") != "balanced":
        yield "by_text", "names are compared in whole blocks of questions; set split: balanced too"
    # What the metrics of a task of lm-eval are, only its own files say.
    if task != LM_EVAL and (entry.get("split") is None or entry["split"] in splits):
        yield from _choice(task, entry, "headline", metrics_of(task, entry))


def _choice(task: str, entry: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> Faults:
    value = entry.get(key)
    if value is not None and not allowed:
        yield key, f"the task {task} has none; leave it out"
    elif value is not None and value not in allowed:
        yield key, f"got {value!r}, allowed are {', '.join(allowed)}{nearest(value, allowed)}"
