"""What the options of a benchmark must fulfil together: they fit its task, and each other.

For the configuration and for commands alike; the values may be of any kind.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ..base.errors import nearest
from .benchmark_keys import JUDGE_KEYS
from .raw import names
from .tasks import DATA_OF, FACTS, JUDGED, LM_EVAL, metrics_of

Faults = Iterator[tuple[str, str]]


def benchmark_faults(entry: Mapping[str, Any]) -> Faults:
    """Yield (key, what is wrong) of a benchmark's options; null ones are left open."""
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
    for key in JUDGE_KEYS:
        if entry.get(key) not in (None, False) and task not in JUDGED:
            tasks = " and ".join(JUDGED)
            yield key, f"only the tasks {tasks} have it, this is the task {task!r}; leave it out"
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
    # What the metrics of a task of lm-eval are, only its own files say.
    if task != LM_EVAL and (entry.get("split") is None or entry["split"] in splits):
        yield from _choice(task, entry, "headline", metrics_of(task, entry))


def _choice(task: str, entry: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> Faults:
    value = entry.get(key)
    if value is not None and not allowed:
        yield key, f"the task {task} has none; leave it out"
    elif isinstance(value, str) and value not in allowed:
        yield key, f"got {value!r}, allowed are {', '.join(allowed)}{nearest(value, allowed)}"
