"""The texts of a benchmark's items, from its data: records hold none."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...data.readers.bbq import read_bbq
from ...data.readers.choice import Question
from ...data.readers.crows_pairs import read_crows_pairs
from ...data.readers.hellaswag import read_hellaswag
from ...data.readers.mmlu import read_mmlu
from ...data.readers.own_questions import read_own_questions
from ...data.readers.stereoset import read_stereoset
from ...data.readers.unqover import read_unqover


@dataclass(frozen=True)
class ItemText:
    """The texts of an item: those of its task's ``FIELDS``, and its options in the data's order."""

    fields: tuple[str, ...]
    options: tuple[str, ...]


# Task -> what its texts beside the options are called. Only these tasks have answers to compare.
FIELDS = {
    "unqover": ("Context", "Question"),
    "bbq": ("Context", "Question"),
    "crows_pairs": (),
    "stereoset": (),
    "hellaswag": ("Text",),
    "mmlu": ("Subject", "Question"),
    "multiple_choice": ("Question",),
}
Found = Iterable[tuple[str, ItemText]]


def _question(item: Question) -> ItemText:
    return ItemText((item.context, item.question), item.answers)


def _unqover(folder: Path, split: str, spec: dict[str, Any]) -> Found:
    if split not in ("generated", "balanced"):
        return ((item.id, _question(item)) for item in read_unqover(folder, split))
    from ...evaluation.protocol import Protocol
    from ...evaluation.unqover import select_items

    asked = Protocol("unqover", limit=spec.get("limit"), seed=spec.get("seed", 0))
    return ((item.id, _question(item)) for item in select_items(folder, split, asked)[0])


def _bbq(folder: Path, split: str, spec: dict[str, Any]) -> Found:
    return ((item.id, _question(item)) for item in read_bbq(folder))


def _crows_pairs(folder: Path, split: str, spec: dict[str, Any]) -> Found:
    for item in read_crows_pairs(folder, split):
        yield item.id, ItemText((), (item.sent_more, item.sent_less))


def _stereoset(folder: Path, split: str, spec: dict[str, Any]) -> Found:
    for item in read_stereoset(folder):
        yield item.id, ItemText((), (item.stereotype, item.anti_stereotype, item.unrelated))


def _hellaswag(folder: Path, split: str, spec: dict[str, Any]) -> Found:
    return ((item.id, ItemText((item.query,), item.choices)) for item in read_hellaswag(folder))


def _mmlu(folder: Path, split: str, spec: dict[str, Any]) -> Found:
    for item in read_mmlu(folder, split):
        subject = item.category.replace("_", " ")
        yield item.id, ItemText((subject, item.query.strip()), item.choices)


def _multiple_choice(folder: Path, split: str, spec: dict[str, Any]) -> Found:
    # As it was asked, with its lettered options: their number is each question's own.
    from ...evaluation.multiple_choice import as_choice

    for item in read_own_questions(folder):
        yield item.id, ItemText((as_choice(item, spec["style"]).query,), item.options)


READERS: dict[str, Callable[[Path, str, dict[str, Any]], Found]] = {
    "unqover": _unqover,
    "bbq": _bbq,
    "crows_pairs": _crows_pairs,
    "stereoset": _stereoset,
    "hellaswag": _hellaswag,
    "mmlu": _mmlu,
    "multiple_choice": _multiple_choice,
}


def read_texts(task: str, folder: Path, split: str, spec: dict[str, Any]) -> dict[str, ItemText]:
    """Return item id -> texts of a split of a task's data in ``folder``.

    ``spec`` are the options of the evaluation: its limit and seed choose among questions that are
    generated, its style is how questions of your own are asked. Raises UserError for data that are
    not of the task's form.
    """
    return dict(READERS[task](folder, split, spec))
