"""What a configuration must fulfil beyond the kind of each value: names, references, values.

All checks work on unvalidated input, so that their errors are shown with all others at once.
Each returns lines ``key.path: got …, expected …``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..io.errors import nearest
from .benchmark_keys import JUDGE_KEYS
from .facts import GROUPED, METHODS, REGIMES
from .pair_sources import BIAS_TYPES, PAIR_SOURCES, TEXT_SOURCES
from .table_registry import TABLES
from .tasks import DATA_OF, FACTS, JUDGED, LM_EVAL, TASK_OPTIONS, metrics_of

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

Faults = Iterator[tuple[str, str]]


def mapping(value: Any) -> dict[str, Any]:
    """Return a mapping as a dictionary, anything else as an empty one."""
    return dict(value) if isinstance(value, Mapping) else {}


def names(value: Any) -> list[Any]:
    """Return a list as it is, anything else as an empty one."""
    return list(value) if isinstance(value, list) else []


def section(raw: Mapping[str, Any], key: str) -> dict[str, dict[str, Any]]:
    """Return the entries of a catalogue such as ``models``, each as a dictionary."""
    return {str(name): mapping(entry) for name, entry in mapping(raw.get(key)).items()}


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
    datasets = section(raw, "datasets")
    found: dict[str, dict[str, str]] = {}

    def named(value: Any, name: str) -> Any:
        if not is_path(value, datasets):
            return value
        while name in datasets or name in found:
            name += "-file"
        found[name] = {"path": value}
        return name

    def calibration(slug: str, entry: dict[str, Any]) -> dict[str, Any]:
        pairs = entry.get("pairs")
        if isinstance(pairs, list):
            names = [f"{slug}.pairs{number or ''}" for number in (0, *range(2, len(pairs) + 1))]
            entry["pairs"] = [named(*one) for one in zip(pairs, names, strict=False)]
        elif pairs is not None:
            entry["pairs"] = named(pairs, f"{slug}.pairs")
        if "texts" in entry:
            entry["texts"] = named(entry["texts"], f"{slug}.texts")
        return entry

    def benchmark(slug: str, entry: dict[str, Any]) -> dict[str, Any]:
        if "dataset" in entry:
            entry["dataset"] = named(entry["dataset"], f"{slug}.data")
        return entry

    changed = dict(raw)
    for key, change in (("calibrations", calibration), ("benchmarks", benchmark)):
        if isinstance(raw.get(key), Mapping):
            changed[key] = {
                slug: change(str(slug), dict(entry)) if isinstance(entry, Mapping) else entry
                for slug, entry in raw[key].items()
            }
    if found:
        changed["datasets"] = {**mapping(raw.get("datasets")), **found}
    return changed


def all_errors(raw: Mapping[str, Any]) -> list[str]:
    """Return every error of an unvalidated configuration that is not about one value's kind."""
    return [
        *reserved_names(raw),
        *world_errors(raw),
        *experiment_errors(raw),
        *benchmark_errors(raw),
        *table_errors(raw),
        *path_errors(raw),
        *model_protocol_errors(raw),
        *calibration_errors(raw),
        *block_size_errors(raw),
        *released_errors(raw),
    ]


def reserved_names(raw: Mapping[str, Any]) -> list[str]:
    """Return an error for each name that belongs to something else."""
    return [
        f"{kind}.{name}: the name {name!r} is reserved for {reserved[name]}; choose another name"
        for kind, reserved in RESERVED.items()
        for name in section(raw, kind)
        if name in reserved
    ]


def world_errors(raw: Mapping[str, Any]) -> list[str]:
    """Return errors of the invented world: whose model it is, and what is shipped."""
    lines = []
    for name, entry in section(raw, "models").items():
        if entry.get("world") is True and name != WORLD_MODEL:
            lines.append(
                f"models.{name}.world: the world's model is called {WORLD_MODEL!r}; use that name"
            )
        elif entry.get("world") is True and entry.get("mirror") not in (None, name):
            lines.append(
                f"models.{name}.mirror: got {entry['mirror']!r}, but the workflow makes the "
                f"world's model itself; leave mirror out or set it to {name!r}"
            )
    world = mapping(raw.get("world"))
    seed, trains = world.get("seed", 0), raw.get("source") != "world" or world.get("retrain")
    if type(seed) is int and seed != SHIPPED_SEED and not trains:
        lines.append(
            f"world.seed: got {seed}, but the shipped model belongs to the world with seed "
            f"{SHIPPED_SEED}; set world.retrain to true to train one for this world, and results "
            "to a new folder to keep the world that is there"
        )
    return lines


def reference_errors(where: str, value: Any, allowed: Iterable[str], what: str) -> list[str]:
    """Return an error for a name, or each of a list, that is not among those defined."""
    allowed = list(allowed)
    if isinstance(value, list):
        each = (reference_errors(f"{where}.{k}", v, allowed, what) for k, v in enumerate(value))
        return [line for lines in each for line in lines]
    if not isinstance(value, str) or value in allowed:
        return []
    shown = ", ".join(allowed) or "none defined"
    return [
        f"{where}: got {value!r}, which is no {what}{nearest(value, allowed)} (allowed: {shown})"
    ]


def experiment_errors(raw: Mapping[str, Any]) -> list[str]:
    """Return errors of the names in experiments and of ``serving.experiment``."""
    lines: list[str] = []
    models, experiments = section(raw, "models"), section(raw, "experiments")
    methods = [*METHODS, *section(raw, "methods")]
    for name, experiment in experiments.items():
        for key, allowed, what in (
            ("models", models, "model"),
            ("methods", methods, "method"),
            ("calibrations", section(raw, "calibrations"), "calibration"),
        ):
            given = names(experiment.get(key))
            lines += reference_errors(f"experiments.{name}.{key}", given, allowed, what)
        for index, value in enumerate(names(experiment.get("models"))):
            entry = models.get(value) if isinstance(value, str) else None
            if entry and bool(entry.get("world")) != (raw.get("source") == "world"):
                lines.append(
                    f"experiments.{name}.models.{index}: model {value!r} does not go with "
                    f"source {raw.get('source')!r}; the world's model needs source 'world', "
                    "all others 'external'"
                )
    chosen = mapping(raw.get("serving")).get("experiment")
    lines += reference_errors("serving.experiment", chosen, experiments, "experiment")
    dataset, datasets = mapping(raw.get("serving")).get("dataset"), section(raw, "datasets")
    return lines + reference_errors("serving.dataset", dataset, datasets, "data set")


def benchmark_errors(raw: Mapping[str, Any]) -> list[str]:
    """Return errors of the benchmarks: names, judges, and what each task does not know."""
    lines: list[str] = []
    models, experiments = section(raw, "models"), section(raw, "experiments")
    benchmarks = section(raw, "benchmarks")
    for name, entry in benchmarks.items():
        where = f"benchmarks.{name}"
        lines += reference_errors(
            f"{where}.dataset", entry.get("dataset"), section(raw, "datasets"), "data set"
        )
        task = entry.get("task")
        known = isinstance(task, str) and task in FACTS and task != LM_EVAL
        if known and entry.get("dataset") is None:
            lines.append(f"{where}.dataset: is missing; name a data set, or a file of your own")
        given = names(entry.get("experiments"))
        lines += reference_errors(f"{where}.experiments", given, experiments, "experiment")
        lines += reference_errors(f"{where}.judge", entry.get("judge"), models, "model")
        if entry.get("judge") and raw.get("source") == "world":
            lines.append(
                f"{where}.judge: the invented world has no guard model; leave judge out there "
                "(a word list stands in), or set source to 'external'"
            )
        lines += [f"{where}.{key}: {what}" for key, what in benchmark_faults(entry)]
    if benchmarks and all(entry.get("experiments") for entry in benchmarks.values()):
        lines.append(
            "benchmarks: every one is restricted to some experiments; leave experiments out of "
            "one at least, which all checkpoints get"
        )
    return lines


def table_errors(raw: Mapping[str, Any]) -> list[str]:
    """Return errors of tables about a metric that no benchmark has, as its options leave it out."""
    lines = []
    entries = [one for one in section(raw, "benchmarks").values() if one.get("task") in FACTS]
    for name in names(raw.get("tables")):
        shown = TABLES.get(name, {}) if isinstance(name, str) else {}
        task, metric = str(shown.get("task")), shown.get("metric")
        if not metric or any(
            one["task"] == task and metric in metrics_of(task, one) for one in entries
        ):
            continue
        option = next(key for key, found in FACTS[task].options.items() if metric in found)
        lines.append(
            f"tables: {name} shows {metric} of the task {task}, which no benchmark has; add "
            f"{option} to one of that task, or leave the table out"
        )
    return lines


def path_errors(raw: Mapping[str, Any]) -> list[str]:
    """Return an error for each source with a path of its own and another place beside it."""
    return [
        f"{kind}.{name}.{key}: there is a path of your own beside it, which is used; remove one of "
        "the two"
        for kind in ("models", "datasets")
        for name, entry in section(raw, kind).items()
        for key in ("mirror", "hub", "world")
        if entry.get("path") is not None and entry.get(key)
    ]


def model_protocol_errors(raw: Mapping[str, Any]) -> list[str]:
    """Return an error for each style and split of a model that its task does not have."""
    return [
        f"models.{name}.protocol.{task}.{key}: {what}"
        for name, model in section(raw, "models").items()
        for task, entry in mapping(model.get("protocol")).items()
        for key, what in benchmark_faults(mapping(entry) | {"task": task})
        if key in mapping(entry)
    ]


def calibration_errors(raw: Mapping[str, Any]) -> list[str]:
    """Return errors of the calibrations: data sets, bias types, texts and their number."""
    lines: list[str] = []
    for name, entry in section(raw, "calibrations").items():
        where = f"calibrations.{name}"
        given, texts, datasets = entry.get("pairs"), entry.get("texts"), section(raw, "datasets")
        pairs = {f"{where}.pairs.{k}": one for k, one in enumerate(names(given))}
        pairs = pairs or {f"{where}.pairs": given}
        used: list[tuple[str, Any, tuple[str, ...]]]
        used = [(key, value, PAIR_SOURCES) for key, value in pairs.items()]
        used += [(f"{where}.texts", texts, TEXT_SOURCES)]
        for key, value, shipped in (one for one in used if isinstance(one[1], str) and one[1]):
            # Of the catalogue only these have the form; one under a name of your own may have it.
            own = [one for one in datasets if one not in DATA_OF]
            fitting = [one for one in datasets if one in shipped] + own
            what, hint = "data set of the form that is read here", ""
            if value not in datasets:
                what = "data set"
                hint = "; a file of your own is given by its path, as in ./pairs.jsonl"
            lines += [f"{line}{hint}" for line in reference_errors(key, value, fitting, what)]
        for source in (one for one in pairs.values() if isinstance(one, str) and one in BIAS_TYPES):
            categories, what = names(entry.get("categories")), f"bias type of {source}"
            lines += reference_errors(f"{where}.categories", categories, BIAS_TYPES[source], what)
        count = entry.get("n_texts", 0)
        if texts in TEXT_SOURCES and count == 0:
            lines.append(
                f"{where}.n_texts: texts are of {texts!r}, but their number is "
                f"{count if 'n_texts' in entry else 'missing'}; set n_texts from 1, or remove texts"
            )
        elif texts is None and type(count) is int and count > 0:
            lines.append(
                f"{where}.texts: {count} texts are asked for in n_texts, but their data set is "
                "missing; set texts, or remove n_texts"
            )
    return lines


def _grid(raw: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], str, dict[str, Any]]]:
    """Yield each experiment with each of its methods: name, entry, method, options of a variant."""
    variants = section(raw, "methods")
    for name, experiment in section(raw, "experiments").items():
        for method in names(experiment.get("methods")):
            if isinstance(method, str):
                yield name, experiment, method, variants.get(method, {})


def block_size_errors(raw: Mapping[str, Any]) -> list[str]:
    """Return an error for each block size that cuts the groups of a regime it is used with."""
    lines: dict[str, str] = {}
    for name, experiment, method, own in _grid(raw):
        size: Any = own.get("block_size")
        where = f"methods.{method}.block_size"
        if size is None:
            where, size = "pruning.block_size", mapping(raw.get("pruning")).get("block_size")
        if method == "dense" or type(size) is not int or size <= 0:
            continue
        grouped = [one for one in names(experiment.get("regimes")) if one in GROUPED]
        for regime in (one for one in grouped if size % REGIMES[one].of):
            group = REGIMES[regime].of
            lines.setdefault(
                where,
                f"{where}: got {size}, expected a multiple of {group}, as experiments.{name} "
                f"prunes with it to {regime}, zeros in each group of {group}",
            )
    return list(lines.values())


def released_errors(raw: Mapping[str, Any]) -> list[str]:
    """Return an error for each calibration that does not pad what the code of 2026 pads."""
    general, calibrations = mapping(raw.get("pruning")), section(raw, "calibrations")
    lines: dict[str, None] = {}
    for name, experiment, method, own in _grid(raw):
        facts = METHODS.get(str(own.get("method", method)))
        scaling = own.get("bias_scaling") or general.get("bias_scaling")
        theirs = facts and "bias_scaling" in facts.options and scaling == "released-2026"
        for calibration in names(experiment.get("calibrations")) if theirs else ():
            entry = calibrations.get(str(calibration), {})
            alignment = entry.get("alignment") or general.get("alignment", "equal-length")
            if alignment != "pad":
                lines[
                    f"calibrations.{calibration}.alignment: got {alignment!r}, expected 'pad', "
                    f"as experiments.{name} prunes by {method} with bias_scaling "
                    "'released-2026', the authors' code, which pads"
                ] = None
    return list(lines)


def benchmark_faults(entry: Mapping[str, Any]) -> Faults:
    """Yield (key, what is wrong) of a benchmark's options; null ones are left open.

    For the configuration and for commands alike: they fit its task, and each other.
    """
    task = entry.get("task")
    if task in FACTS:
        yield from _task_faults(task, entry)
    if task == LM_EVAL and not entry.get("name"):
        yield "name", "is missing; name one of lm-eval's tasks, as in arc_easy"
    if task != LM_EVAL and entry.get("name") is not None:
        yield "name", f"only the task {LM_EVAL} has it, this is the task {task!r}; leave it out"
    if task != LM_EVAL and entry.get("trust_tasks"):
        yield "trust_tasks", f"only the task {LM_EVAL} has it; leave it out"
    if task == LM_EVAL and entry.get("dataset") and not entry.get("trust_tasks"):
        yield "trust_tasks", "is missing: files of tasks can run code; read them, then set it true"
    for key, fitting in {**dict.fromkeys(JUDGE_KEYS, JUDGED), **TASK_OPTIONS}.items():
        if entry.get(key) not in (None, False) and task not in fitting:
            some = (
                f"tasks {' and '.join(fitting)} have" if fitting[1:] else f"task {fitting[0]} has"
            )
            yield key, f"only the {some} it, this is the task {task!r}; leave it out"
    forms = entry.get("judge_forms")
    if len({str(form) for form in names(forms)}) < len(names(forms)):
        yield "judge_forms", f"got {forms!r}, expected each form once"
    if task in JUDGED and forms is not None and not entry.get("judge"):
        yield "judge_forms", "says what a guard model is shown, but there is no judge; set judge"


def _task_faults(task: str, entry: Mapping[str, Any]) -> Faults:
    """Yield what is wrong with options against the facts of their task."""
    facts, dataset = FACTS[task], entry.get("dataset")
    owner, splits = DATA_OF.get(dataset, (task, ())) if isinstance(dataset, str) else (task, ())
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
    elif isinstance(value, str) and value not in allowed:
        yield key, f"got {value!r}, allowed are {', '.join(allowed)}{nearest(value, allowed)}"
