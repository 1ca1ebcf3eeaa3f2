"""MMLU: questions of 57 subjects with four choices."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pydantic.dataclasses import dataclass

from .choice import ChoiceItem
from .rows import FourTexts, OneOfFour, Text, collect, find_file, read_items


@dataclass(frozen=True)
class _Row:
    question: Text
    subject: Text
    choices: FourTexts
    answer: OneOfFour


def read_mmlu(folder: Path | str, split: str = "test") -> list[ChoiceItem]:
    """Read a split of MMLU (test 14,042, validation 1,531, dev 285); category is the subject."""
    path = find_file(folder, f"{split}.jsonl")

    def items() -> Iterator[ChoiceItem]:
        seen: Counter[str] = Counter()
        for row in read_items(_Row, path):
            identifier = f"{row.subject}-{seen[row.subject]}"
            seen[row.subject] += 1
            yield ChoiceItem(identifier, row.subject, row.question, row.choices, row.answer)

    return collect(items(), path)
