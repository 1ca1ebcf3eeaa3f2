"""MMLU: questions of 57 subjects with four choices."""

from collections.abc import Iterator
from pathlib import Path

from .choice import ChoiceItem
from .rows import collect, find_file, json_rows


def read_mmlu(folder: Path | str, split: str = "test") -> list[ChoiceItem]:
    """Read a split of MMLU (test 14,042, validation 1,531, dev 285); category is the subject."""
    path = find_file(folder, f"{split}.jsonl")

    def items() -> Iterator[ChoiceItem]:
        numbers: dict[str, int] = {}
        for row in json_rows(path, ("question", "subject", "choices", "answer")):
            subject = row.text("subject")
            numbers[subject] = numbers.get(subject, -1) + 1
            yield ChoiceItem(
                f"{subject}-{numbers[subject]}",
                subject,
                row.text("question"),
                row.texts("choices", 4),
                row.index("answer", 4),
            )

    return collect(items(), path)
