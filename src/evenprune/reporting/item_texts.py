"""The texts of a benchmark's items, from its data, and the prompts that they are asked with.

A prompt is a pattern into which the page puts an item's texts: as sent, but stored once.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..data.prompts import STYLES
from ..data.readers.bbq import read_bbq
from ..data.readers.crows_pairs import read_crows_pairs
from ..data.readers.hellaswag import read_hellaswag
from ..data.readers.mmlu import read_mmlu
from ..data.readers.own_questions import LETTERS, read_own_questions
from ..data.readers.stereoset import read_stereoset
from ..data.readers.unqover import read_unqover

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


def _items(task: str, folder: Path, split: str, spec: dict[str, Any]) -> Iterable[Any]:
    """Return the data's items of a split, as their reader gives them."""
    if task == "unqover" and split in ("generated", "balanced"):
        from ..evaluation.protocol import Protocol
        from ..evaluation.unqover import select_items

        asked = Protocol("unqover", limit=spec.get("limit"), seed=spec.get("seed", 0))
        return [item for item, _ in select_items(folder, split, asked)[0]]
    whole: dict[str, Callable[[Path], Iterable[Any]]] = {
        **{"bbq": read_bbq, "stereoset": read_stereoset, "hellaswag": read_hellaswag},
        "multiple_choice": read_own_questions,
    }
    if task in whole:
        return whole[task](folder)
    parts: dict[str, Callable[[Path, str], Iterable[Any]]] = {
        **{"unqover": read_unqover, "crows_pairs": read_crows_pairs, "mmlu": read_mmlu}
    }
    return parts[task](folder, split)


def _text(task: str, item: Any, style: Any) -> ItemText:
    if task in ("unqover", "bbq"):
        return (item.context, item.question), item.answers
    if task == "crows_pairs":
        return (), (item.sent_more, item.sent_less)
    if task == "stereoset":
        return (), (item.stereotype, item.anti_stereotype, item.unrelated)
    if task == "hellaswag":
        return (item.query,), item.choices
    if task == "mmlu":
        return (item.category.replace("_", " "), item.query.strip()), item.choices
    # As it was asked, with its lettered options: their number is each question's own.
    from ..evaluation.multiple_choice import as_choice

    return (as_choice(item, style).query,), item.options


def read_texts(task: str, folder: Path, split: str, spec: dict[str, Any]) -> dict[str, ItemText]:
    """Return item id -> texts of a split of a task's data in ``folder``.

    ``spec`` are the options of the evaluation: its limit and seed choose among questions that are
    generated, its style is how questions of your own are asked. Raises UserError for data that are
    not of the task's form.
    """
    found = _items(task, folder, split, spec)
    return {item.id: _text(task, item, spec.get("style")) for item in found}


# A pattern's parts: text, or the number of one of the item's fields, options behind them.
Pattern = list[str | int]
FIRST = 0xE000  # of the characters that stand for texts while a pattern is made
# As lm-eval's tasks make them (a test compares), without what tokenizer and template add.
MMLU = "The following are multiple choice questions (with answers) about {}.\n\n{}\n" + (
    "A. {}\nB. {}\nC. {}\nD. {}\nAnswer:"
)
HARNESS = {
    **{"hellaswag": ("{}", 1), "mmlu": (MMLU, 6)},
    "multiple_choice": ("{}", 1),
}
LETTERED = {"mmlu": [" A", " B", " C", " D"]}  # what is scored behind a prompt, where not options


def _signs(count: int) -> list[str]:
    return [chr(FIRST + number) for number in range(count)]


def _pattern(text: str) -> Pattern:
    parts = re.split(f"([{chr(FIRST)}-{chr(FIRST + 15)}])", text)
    return [
        ord(part) - FIRST if len(part) == 1 and FIRST <= ord(part) < FIRST + 16 else part
        for part in parts
        if part
    ]


def prompt_of(task: str, style: str | None) -> tuple[Pattern | None, list[str] | None]:
    """Return a task's prompt and what is scored behind it.

    No prompt where whole sentences are scored; None for the latter where it is each option behind a
    blank. An item with fewer options than these has the first ones.
    """
    if task in ("unqover", "bbq") and style in STYLES:
        names = ("context", "question", "ans0", "ans1", "ans2")
        prefix, candidates = STYLES[style](dict(zip(names, _signs(5), strict=True)))
        return _pattern(prefix), candidates
    if task in HARNESS:
        text, count = HARNESS[task]
        behind = LETTERED.get(task)
        if task == "multiple_choice" and style == "letters":
            behind = [f" {letter}" for letter in LETTERS]
        return _pattern(text.format(*_signs(count))), behind
    return None, None
