"""What the evaluation tasks are, as ``tasks.yaml`` says: splits, styles, metrics, data. No torch.

The modules in ``tasks/``, each of its task's name, take their splits and styles from here.
"""

from collections.abc import Mapping
from dataclasses import field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from ..io.yamlfile import own_yaml

DATA_FILES = ("tasks.yaml",)  # part of this module's code, see codedigest.py
DOCUMENTS = "documents"  # the split of perplexity over stories
LM_EVAL = "lm_eval"  # any task of lm-eval, by its name

# Which values of a metric are good: large, small, near one half or near zero; "": none is.
Direction = Literal["up", "down", "half", "zero", ""]
Group = Literal["perplexity", "performance", "fairness"]
Kind = Literal["bias", "ability"]
# A number, or text such as 1/3.
Share = Annotated[float, BeforeValidator(lambda given: float(Fraction(given)))]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class TaskFacts:
    """One task; ``tasks.yaml`` says what each of these is."""

    label: str
    headline: str
    splits: tuple[str, ...]
    metrics: tuple[str, ...]
    split_metrics: dict[str, tuple[str, ...]] = field(default_factory=dict)
    styles: tuple[str, ...] = ()
    data: dict[str, tuple[str, ...]] = field(default_factory=dict)
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    directions: dict[str, Direction] = field(default_factory=lambda: {"acc": "up"})
    chance: Share | None = None
    chances: dict[str, Share] = field(default_factory=dict)
    compares: tuple[str, ...] = ()
    kinds: dict[str, Kind] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    nats: tuple[str, ...] = ()
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    means: dict[str, str] = field(default_factory=dict)
    compared: bool = False
    unbiased: str = ""
    stereotyped: str = ""
    named: str = ""
    texts: tuple[str, ...] | None = None
    group: Group = "fairness"


_WRITTEN = own_yaml(Path(__file__).with_name(DATA_FILES[0]))
FACTS = TypeAdapter(dict[str, TaskFacts]).validate_python(_WRITTEN)
TASKS = tuple(FACTS)
# Tasks for data of one's own: none has a data set in the catalogue, and a benchmark of them is
# called by its own name in tables.
OWN_TASKS = ("multiple_choice", LM_EVAL)
# Options of some tasks only, and these tasks.
TASK_OPTIONS = {
    key: tuple(name for name, task in FACTS.items() if key in task.options)
    for key in sorted({key for task in FACTS.values() for key in task.options})
}
# Tasks whose answers a judge reads.
JUDGED = TASK_OPTIONS["judge"]
WIKITEXT_SPLITS = tuple(one for one in FACTS["perplexity"].splits if one != DOCUMENTS)
# Tasks whose records are answers among options, which the page shows item by item.
ANSWERED = tuple(name for name, task in FACTS.items() if task.texts is not None)
# The data set that the paper measured a task on.
PAPER_DATASETS = {task: task for task in TASKS} | {"perplexity": "wikitext2"}
# Catalogue name of a data set -> (the task whose form it has, the task's splits that it has).
# None: no task reads it.
DATA_OF: dict[str, tuple[str | None, tuple[str, ...]]] = {
    **{
        name: (task, splits or facts.splits)
        for task, facts in FACTS.items()
        for name, splits in facts.data.items()
    },
    **dict.fromkeys(("ultrachat", "ultrachat_gen", "question_pairs"), (None, ())),
}


def decisive(task: str) -> list[Any]:
    """Return the facts of a task that its result depends on; the others only show it."""
    facts = FACTS[task]
    return [facts.headline, facts.splits, facts.styles]


def direction(task: str, metric: str) -> Direction:
    """Return which values of a task's metric are good."""
    found = FACTS[task].directions
    return next((found[word] for word in found if metric.startswith(word)), "")


def splits_of(task: str, dataset: Any) -> tuple[str, ...]:
    """Return the splits that a task has on a data set, the default one first."""
    owner, splits = DATA_OF.get(dataset, (None, ())) if isinstance(dataset, str) else (None, ())
    return splits if owner == task else FACTS[task].splits


def metrics_of(task: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the metrics of a benchmark's results, as far as its options decide them.

    ``options`` are ``dataset``, ``split``, ``orders``, ``judge``, ``judge_forms`` and those of
    ``TASK_OPTIONS``, as in the configuration; what is missing or null is the default.
    """
    facts = FACTS[task]
    split = options.get("split") or splits_of(task, options.get("dataset"))[0]
    found = facts.metrics + facts.split_metrics.get(split, ())
    for key, names in facts.options.items():
        given = options.get(key)
        if key == "judge":
            forms = options.get("judge_forms") or ("pr",)
            names = tuple(f"{name}_{form}" for form in forms for name in names)
        found += names if given and (key, given) != ("orders", 1) else ()
    return found
