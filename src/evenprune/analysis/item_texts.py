"""The texts of a benchmark's items, from its data."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..config.tasks import ANSWERED, FACTS, splits_of
from ..data.readers.bbq import read_bbq
from ..data.readers.choice import read_hellaswag, read_mmlu
from ..data.readers.crows_pairs import read_crows_pairs
from ..data.readers.own import read_own_questions
from ..data.readers.stereoset import read_stereoset
from ..data.readers.unqover import read_unqover
from ..tasks.protocol import Protocol
from ..tasks.unqover import TASK as UNQOVER

# The texts of an item: those of its task's ``FIELDS``, and its options in the data's order.
ItemText = tuple[tuple[str, ...], tuple[str, ...]]
# Task -> what its texts beside the options are called. Only these tasks have answers to compare.
FIELDS = {task: FACTS[task].texts or () for task in ANSWERED}


def _questions(folder: Path, split: str, spec: dict[str, Any]) -> Iterable[Any]:
    """Return UnQover's items of a split; limit and seed choose among those that are generated."""
    if split not in ("generated", "balanced"):
        return read_unqover(folder, split)
    asked = Protocol("unqover", split=split, limit=spec.get("limit"), seed=spec.get("seed", 0))
    return [item for item, _ in UNQOVER.select(folder, asked)[0]]


# Task -> its items in a folder, of a split and options; then the texts of one of them.
READERS: dict[str, Callable[[Path, str, dict[str, Any]], Iterable[Any]]] = {
    "unqover": _questions,
    "bbq": lambda folder, *_: read_bbq(folder),
    "crows_pairs": lambda folder, split, _: read_crows_pairs(folder, split),
    "stereoset": lambda folder, *_: read_stereoset(folder),
    "hellaswag": lambda folder, *_: read_hellaswag(folder),
    "mmlu": lambda folder, split, _: read_mmlu(folder, split),
    "multiple_choice": lambda folder, *_: read_own_questions(folder),
}
TEXTS: dict[str, Callable[[Any], ItemText]] = {
    **dict.fromkeys(("unqover", "bbq"), lambda one: ((one.context, one.question), one.answers)),
    "crows_pairs": lambda one: ((), (one.sent_more, one.sent_less)),
    "stereoset": lambda one: ((), (one.stereotype, one.anti_stereotype, one.unrelated)),
    "hellaswag": lambda one: ((one.query,), one.choices),
    "mmlu": lambda one: ((one.category.replace("_", " "), one.query.strip()), one.choices),
    "multiple_choice": lambda one: ((one.question,), one.options),
}


def split_of(spec: Mapping[str, Any], task: str, dataset: str) -> str:
    """Return the split that a benchmark was of, by the options that its result names."""
    named = (spec.get("protocol") or {}).get("split") or spec.get("split")
    return str(named or splits_of(task, dataset)[0])


def read_texts(task: str, folder: Path, split: str, spec: dict[str, Any]) -> dict[str, ItemText]:
    """Return item id -> texts of a split of a task's data in ``folder``.

    ``spec`` are the options of the evaluation: its limit and seed choose among questions that are
    generated. Raises UserError for data that are not of the task's form.
    """
    return {item.id: TEXTS[task](item) for item in READERS[task](folder, split, spec)}
