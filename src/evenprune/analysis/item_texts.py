"""The texts of a benchmark's items, from its data, and the prompts that they are asked with.

A prompt is a pattern into which the page puts an item's texts: as sent, but stored once.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..data.prompts import STYLES
from ..data.readers.bbq import read_bbq
from ..data.readers.choice import read_hellaswag, read_mmlu
from ..data.readers.crows_pairs import read_crows_pairs
from ..data.readers.own import LETTERS, read_own_questions
from ..data.readers.stereoset import read_stereoset
from ..data.readers.unqover import read_unqover
from ..tasks.multiple_choice import as_choice
from ..tasks.protocol import Protocol
from ..tasks.unqover import select_items

# The texts of an item: those of its task's ``FIELDS``, and its options in the data's order.
ItemText = tuple[tuple[str, ...], tuple[str, ...]]
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


def _questions(folder: Path, split: str, spec: dict[str, Any]) -> Iterable[Any]:
    """Return UnQover's items of a split; limit and seed choose among those that are generated."""
    if split not in ("generated", "balanced"):
        return read_unqover(folder, split)
    asked = Protocol("unqover", limit=spec.get("limit"), seed=spec.get("seed", 0))
    return [item for item, _ in select_items(folder, split, asked)[0]]


def _own(item: Any, spec: dict[str, Any]) -> ItemText:
    """Return a question as it was asked, with lettered options: their number is its own."""
    return (as_choice(item, spec["style"]).query,), item.options


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
}


def read_texts(task: str, folder: Path, split: str, spec: dict[str, Any]) -> dict[str, ItemText]:
    """Return item id -> texts of a split of a task's data in ``folder``.

    ``spec`` are the options of the evaluation: its limit and seed choose among questions that are
    generated, its style is how questions of your own are asked. Raises UserError for data that are
    not of the task's form.
    """
    found = READERS[task](folder, split, spec)
    return {item.id: TEXTS[task](item) if task in TEXTS else _own(item, spec) for item in found}


# A pattern's parts: text, or the number of one of the item's fields, options behind them.
Pattern = list[str | int]
FIRST = 0xE000  # of the characters that stand for texts while a pattern is made
# As lm-eval's tasks make them (a test compares), without what tokenizer and template add.
MMLU = "The following are multiple choice questions (with answers) about {}.\n\n{}\n" + (
    "A. {}\nB. {}\nC. {}\nD. {}\nAnswer:"
)
HARNESS = {"hellaswag": ("{}", 1), "mmlu": (MMLU, 6), "multiple_choice": ("{}", 1)}
LETTERED = {"mmlu": [" A", " B", " C", " D"]}  # what is scored after a prompt, where not options


SIGNS = [chr(FIRST + number) for number in range(16)]


def _pattern(text: str) -> Pattern:
    parts = re.split(f"([{SIGNS[0]}-{SIGNS[-1]}])", text)
    # Every second part is one of those characters.
    return [ord(part) - FIRST if k % 2 else part for k, part in enumerate(parts) if part]


def prompt_of(task: str, style: str | None) -> tuple[Pattern | None, list[str] | None]:
    """Return a task's prompt and what is scored after it.

    No prompt where whole sentences are scored; None for the latter where it is each option behind a
    blank. An item with fewer options than these has the first ones.
    """
    if task in ("unqover", "bbq") and style in STYLES:
        names = ("context", "question", "ans0", "ans1", "ans2")
        prefix, candidates = STYLES[style](dict(zip(names, SIGNS)))
        return _pattern(prefix), candidates
    if task in HARNESS:
        text, count = HARNESS[task]
        behind = LETTERED.get(task)
        if task == "multiple_choice" and style == "letters":
            behind = [f" {letter}" for letter in LETTERS]
        return _pattern(text.format(*SIGNS[:count])), behind
    return None, None
