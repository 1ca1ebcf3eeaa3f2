"""What a configuration must fulfil beyond the kind of each value: names, references, values.

Each check yields lines ``key.path: got …, expected …``; all are made, so that all errors come at
once.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..io.errors import nearest
from .benchmark_keys import JUDGE_KEYS
from .facts import GROUPED, METHODS, REGIMES
from .pair_sources import BIAS_TYPES, PAIR_SOURCES, TEXT_SOURCES
from .table_registry import TABLES
from .tasks import DATA_OF, FACTS, JUDGED, LM_EVAL, TASK_OPTIONS, metrics_of

if TYPE_CHECKING:
    from .config import Config

# Names that something else has already, by section, and what that is.
RESERVED = {
    "methods": dict.fromkeys(METHODS, "the built-in method"),
    "calibrations": {
        "none": "the checkpoints without calibration",
        "diff": "the difference rows of the printed tables",
    },
    "benchmarks": {
        "calibration": "the counts of calibration pairs in results.csv",
        "check": "the achieved sparsity in results.csv",
        "dto": "the distances to the optimum in results.csv",
        "masks": "the differences of the masks in results.csv",
        "serving": "throughput and energy in results.csv",
        "summary.json": "the file beside the benchmarks' folders",
    },
}
WORLD_MODEL = "world"  # name of the model that the workflow makes
SHIPPED_SEED = 0  # of the world whose model is shipped

# What the name of a file ends with; anything with a slash is a path too.
ENDINGS = (".jsonl", ".csv", ".tsv", ".json", ".jsonl.gz", ".csv.gz", ".tsv.gz", ".yaml", ".yml")
# Keys where a file of one's own may stand for a data set, and what its data set is called.
OWN_KEYS = {"calibrations": {"pairs": "pairs", "texts": "texts"}, "benchmarks": {"dataset": "data"}}

Lines = Iterator[str]
Faults = Iterator[tuple[str, str]]


def is_path(value: Any, datasets: Mapping[str, Any]) -> bool:
    """Return whether a value is the path of a file or folder, and no data set of that name."""
    return (
        isinstance(value, str)
        and value not in datasets
        and ("/" in value or value in ("~", ".", "..") or value.lower().endswith(ENDINGS))
    )


def with_own_files(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return an unvalidated configuration in which all data sets have names.

    Where ``calibrations`` and ``benchmarks`` name a data set, the path of a file or folder may
    stand. It becomes an entry of ``datasets`` with a ``path``, under a name made from where it
    stands, so that everything behind knows data sets only.

    A file of the calibration ``mine`` is then the data set ``mine.pairs`` (``mine.pairs2`` … for
    further ones) or ``mine.texts``, one of the benchmark ``mine`` is ``mine.data``; where there is
    one of that name, a ``-file`` is added.
    """
    changed = copy.deepcopy(dict(raw))
    datasets = changed.get("datasets")
    known = datasets if isinstance(datasets, dict) else {}

    def named(value: Any, name: str) -> Any:
        if isinstance(value, list):
            names = [f"{name}{number or ''}" for number in (0, *range(2, len(value) + 1))]
            return [named(*one) for one in zip(value, names, strict=False)]
        if not is_path(value, known):
            return value
        while name in known:
            name += "-file"
        known[name] = {"path": value}
        return name

    for kind, keys in OWN_KEYS.items():
        entries = changed.get(kind)
        for slug, entry in entries.items() if isinstance(entries, dict) else ():
            for key in keys if isinstance(entry, dict) else ():
                if key in entry:
                    entry[key] = named(entry[key], f"{slug}.{keys[key]}")
    return changed | ({"datasets": known} if known else {})


def all_errors(config: "Config") -> list[str]:
    """Return every error of a configuration whose values are of the right kinds."""
    checks = (
        *(reserved_names, world_errors, experiment_errors, benchmark_errors, table_errors),
        *(path_errors, model_protocol_errors, calibration_errors, method_errors),
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
        for name in getattr(config, kind):
            if name in reserved:
                yield (
                    f"{kind}.{name}: the name {name!r} is reserved for {reserved[name]}; choose "
                    "another name"
                )


def world_errors(config: "Config") -> Lines:
    """Yield errors of the invented world: where its model is, and what is shipped."""
    entry = config.models.get(WORLD_MODEL)
    for key in ("mirror", "path"):
        if entry and (value := getattr(entry, key)) not in (None, WORLD_MODEL):
            yield (
                f"models.{WORLD_MODEL}.{key}: got {value!r}, but the workflow makes the world's "
                f"model itself; leave {key} out"
            )
    seed, shipped = config.world.seed, config.source == "world" and not config.world.retrain
    if seed != SHIPPED_SEED and shipped:
        yield (
            f"world.seed: got {seed}, but the shipped model belongs to the world with seed "
            f"{SHIPPED_SEED}; set world.retrain to true to train one for this world, and results "
            "to a new folder to keep the world that is there"
        )


def experiment_errors(config: "Config") -> Lines:
    """Yield errors of the names in experiments and in ``serving``."""
    methods = [*METHODS, *config.methods]
    for name, experiment in config.experiments.items():
        where = f"experiments.{name}"
        yield from unknown(f"{where}.models", experiment.models, config.models, "model")
        yield from unknown(f"{where}.methods", experiment.methods, methods, "method")
        used = experiment.calibrations
        yield from unknown(f"{where}.calibrations", used, config.calibrations, "calibration")
        for index, model in enumerate(experiment.models):
            if model in config.models and (model == WORLD_MODEL) != (config.source == "world"):
                yield (
                    f"{where}.models.{index}: model {model!r} does not go with source "
                    f"{config.source!r}; the world's model needs source 'world', all others "
                    "'external'"
                )
    serving = config.serving
    yield from unknown("serving.experiment", serving.experiment, config.experiments, "experiment")
    if serving.experiment:
        yield from unknown("serving.dataset", serving.dataset, config.datasets, "data set")


def benchmark_errors(config: "Config") -> Lines:
    """Yield errors of the benchmarks: names, judges, and what each task does not know."""
    for name, entry in config.benchmarks.items():
        where = f"benchmarks.{name}"
        yield from unknown(f"{where}.dataset", entry.dataset, config.datasets, "data set")
        if entry.dataset is None and entry.task != LM_EVAL:
            yield f"{where}.dataset: is missing; name a data set, or a file of your own"
        own = entry.experiments
        yield from unknown(f"{where}.experiments", own, config.experiments, "experiment")
        yield from unknown(f"{where}.judge", entry.judge, config.models, "model")
        if entry.judge and config.source == "world":
            yield (
                f"{where}.judge: the invented world has no guard model; leave judge out there "
                "(a word list stands in), or set source to 'external'"
            )
        for key, what in benchmark_faults(entry.model_dump(exclude_none=True)):
            yield f"{where}.{key}: {what}"
    if all(entry.experiments for entry in config.benchmarks.values()):
        yield (
            "benchmarks: every one is restricted to some experiments; leave experiments out of "
            "one at least, which all checkpoints get"
        )


def table_errors(config: "Config") -> Lines:
    """Yield errors of tables about a metric that no benchmark has, as its options leave it out."""
    entries = [entry.model_dump() for entry in config.benchmarks.values()]
    for name in config.tables:
        task, metric = TABLES[name].get("task", ""), TABLES[name].get("metric")
        mine = (metrics_of(task, entry) for entry in entries if entry["task"] == task)
        if metric and not any(metric in metrics for metrics in mine):
            option = next(key for key, found in FACTS[task].options.items() if metric in found)
            yield (
                f"tables: {name} shows {metric} of the task {task}, which no benchmark has; add "
                f"{option} to one of that task, or leave the table out"
            )


def path_errors(config: "Config") -> Lines:
    """Yield an error for each source with a path of its own and another place beside it."""
    for kind in ("models", "datasets"):
        for name, entry in getattr(config, kind).items():
            for key in ("mirror", "hub"):
                if entry.path is not None and getattr(entry, key):
                    yield (
                        f"{kind}.{name}.{key}: there is a path of your own beside it, which is "
                        "used; remove one of the two"
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
    # Of the catalogue only some have the form; one under a name of your own may have it.
    own = [name for name in config.datasets if name not in DATA_OF]
    for name, entry in config.calibrations.items():
        where = f"calibrations.{name}"
        used: list[tuple[str, str, tuple[str, ...]]]
        used = [(f"{where}.pairs", one, PAIR_SOURCES) for one in entry.pairs]
        used += [(f"{where}.texts", entry.texts, TEXT_SOURCES)] if entry.texts else []
        for key, value, shipped in used:
            fitting = [one for one in config.datasets if one in shipped] + own
            what, hint = "data set of the form that is read here", ""
            if value not in config.datasets:
                what = "data set"
                hint = "; a file of your own is given by its path, as in ./pairs.jsonl"
            yield from (f"{line}{hint}" for line in unknown(key, value, fitting, what))
        for source in (one for one in entry.pairs if one in BIAS_TYPES):
            what = f"bias type of {source}"
            yield from unknown(f"{where}.categories", entry.categories, BIAS_TYPES[source], what)
        if entry.texts in TEXT_SOURCES and not entry.n_texts:
            yield (
                f"{where}.n_texts: texts are of {entry.texts!r}, but their number is missing; set "
                "n_texts from 1, or remove texts"
            )
        elif entry.texts is None and entry.n_texts:
            yield (
                f"{where}.texts: {entry.n_texts} texts are asked for in n_texts, but their data "
                "set is missing; set texts, or remove n_texts"
            )


def method_errors(config: "Config") -> Lines:
    """Yield errors of how experiments combine methods with regimes and calibrations.

    A block must not cut a regime's groups, and what the code of 2026 pads must be padded.
    """
    lines: dict[str, str] = {}
    for name, experiment in config.experiments.items():
        for method in experiment.methods:
            own: Any = config.methods.get(method)
            facts = METHODS.get(own.method if own else method, METHODS["dense"])
            size, where = config.pruning.block_size, "pruning.block_size"
            if own and own.block_size is not None:
                size, where = own.block_size, f"methods.{method}.block_size"
            for regime in set(GROUPED) & set(experiment.regimes) if facts.prunes else ():
                if size % REGIMES[regime].of:
                    lines.setdefault(
                        where,
                        f"got {size}, expected a multiple of {REGIMES[regime].of}, as "
                        f"experiments.{name} prunes with it to {regime}",
                    )
            scaling = (own and own.bias_scaling) or config.pruning.bias_scaling
            theirs = "bias_scaling" in facts.options and scaling == "released-2026"
            for calibration in experiment.calibrations if theirs else ():
                entry = config.calibrations.get(calibration)
                alignment = (entry and entry.alignment) or config.pruning.alignment
                if alignment != "pad":
                    lines[f"calibrations.{calibration}.alignment"] = (
                        f"got {alignment!r}, expected 'pad', as experiments.{name} prunes by "
                        f"{method} with bias_scaling 'released-2026', the authors' code, which pads"
                    )
    yield from (f"{where}: {what}" for where, what in lines.items())


# Options of some tasks only, and these.
_FITTING = dict.fromkeys(JUDGE_KEYS, JUDGED) | TASK_OPTIONS
_FITTING |= dict.fromkeys(("name", "trust_tasks"), (LM_EVAL,))


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
    for key, fitting in _FITTING.items():
        if entry.get(key) not in (None, False) and task not in fitting:
            names = " and ".join(fitting)
            have = f"tasks {names} have" if fitting[1:] else f"task {names} has"
            yield key, f"only the {have} it, this is the task {task!r}; leave it out"
    forms = entry.get("judge_forms") or ()
    if len(set(forms)) < len(forms):
        yield "judge_forms", f"got {forms!r}, expected each form once"
    if task in JUDGED and forms and not entry.get("judge"):
        yield "judge_forms", "says what a guard model is shown, but there is no judge; set judge"


def _task_faults(task: str, entry: Mapping[str, Any]) -> Faults:
    """Yield what is wrong with options against the facts of their task."""
    facts, dataset = FACTS[task], entry.get("dataset")
    owner, splits = DATA_OF.get(str(dataset), (task, ()))
    if owner != task:
        fitting = ", ".join(name for name, (other, _) in DATA_OF.items() if other == task)
        yield (
            "dataset",
            f"got {dataset!r}, whose data are not of the form that the task {task} reads (of the "
            f"catalogue fits: {fitting}; your own needs a name of its own)",
        )
        splits = ()
    splits = splits or facts.splits
    yield from _choice(task, entry, "style", facts.styles)
    yield from _choice(task, entry, "split", splits)
    if entry.get("orders") == 6 and not facts.orders:
        fitting = " and ".join(name for name, other in FACTS.items() if other.orders)
        yield "orders", f"only the tasks {fitting} have options to reorder; leave it out"
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
