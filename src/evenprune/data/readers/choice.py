"""Benchmarks that ask for a choice: their items, and those of HellaSwag and MMLU."""

from collections import Counter
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from .rows import FourTexts, Identifier, OneOfFour, Text, find_file, read_items


@dataclass(frozen=True)
class ChoiceItem:
    """A question (or a text to continue) with choices; ``gold`` is the right one's index."""

    id: str
    category: str
    query: str
    choices: tuple[str, ...]
    gold: int


@dataclass(frozen=True)
class _Ending:
    id: Annotated[Identifier, Field(alias="row")]
    query: Text
    choices: FourTexts
    gold: OneOfFour


@dataclass(frozen=True)
class _Exam:
    id: str
    question: Text
    subject: Text
    choices: FourTexts
    answer: OneOfFour


def read_hellaswag(folder: Path | str) -> list[ChoiceItem]:
    """Read HellaSwag's validation set as lm-evaluation-harness scores it (10,042 items).

    Query and choices are cleaned already; the category is the text before the first colon
    (the activity).
    """
    rows = read_items(_Ending, find_file(folder, "validation_lm_eval.jsonl"))
    return [
        ChoiceItem(row.id, row.query.partition(":")[0], row.query, row.choices, row.gold)
        for row in rows
    ]


def read_mmlu(folder: Path | str, split: str = "test") -> list[ChoiceItem]:
    """Read a split of MMLU (test 14,042, validation 1,531, dev 285); category is the subject."""
    seen, found = Counter[str](), list[ChoiceItem]()
    for row in read_items(_Exam, find_file(folder, f"{split}.jsonl"), id="{number}"):
        identifier = f"{row.subject}-{seen[row.subject]}"
        seen[row.subject] += 1
        found.append(ChoiceItem(identifier, row.subject, row.question, row.choices, row.answer))
    return found
