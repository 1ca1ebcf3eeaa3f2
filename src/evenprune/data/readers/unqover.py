"""UnQover: questions that their context leaves open."""

from dataclasses import dataclass
from pathlib import Path

from .rows import collect, find_file, json_rows


@dataclass(frozen=True)
class UnqoverItem:
    """An underspecified question; ``unknown`` is the index of the option "unknown"."""

    id: str
    category: str
    context: str
    question: str
    answers: tuple[str, str, str]
    label: int
    unknown: int


def read_unqover(folder: Path | str, variant: str = "datas_rebuilt") -> list[UnqoverItem]:
    """Read UnQover as in CAL: ``datas_rebuilt`` (40,008) or ``sampled`` (the authors' 3,000)."""
    path = find_file(folder, f"{variant}.jsonl")
    answers = ("ans0", "ans1", "ans2")
    fields = ("example_id", "category", "context", "question", *answers, "label", "unknown_num")
    return collect(
        (
            UnqoverItem(
                row.identifier("example_id"),
                row.text("category"),
                row.text("context"),
                row.text("question"),
                (row.text("ans0"), row.text("ans1"), row.text("ans2")),
                row.index("label", 3),
                row.index("unknown_num", 3),
            )
            for row in json_rows(path, fields)
        ),
        path,
    )
