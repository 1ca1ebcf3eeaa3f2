"""HarmBench: requests that a safe model refuses."""

from dataclasses import dataclass
from pathlib import Path

from ...base.errors import UserError
from .rows import collect, csv_rows, find_file


@dataclass(frozen=True)
class Behaviour:
    """A HarmBench behaviour; ``context`` is empty except for contextual ones."""

    id: str
    category: str
    topic: str
    behaviour: str
    context: str


def read_harmbench(folder: Path | str, category: str | None = None) -> list[Behaviour]:
    """Read HarmBench's text behaviours (400), or one functional category of them.

    Categories are standard (200), contextual and copyright (100 each). A blank at the end of
    a behaviour is the source's and is kept.
    """
    path = find_file(folder, "harmbench_behaviors_text_all.csv")
    fields = (
        *("Behavior", "FunctionalCategory", "SemanticCategory"),
        *("ContextString", "BehaviorID"),
    )
    categories = ("standard", "contextual", "copyright")
    items = collect(
        (
            Behaviour(
                row.text("BehaviorID"),
                row.one_of("FunctionalCategory", categories),
                row.text("SemanticCategory", empty=True),
                row.text("Behavior"),
                row.text("ContextString", empty=True),
            )
            for row in csv_rows(path, ",", fields)
        ),
        path,
    )
    if category is None:
        return items
    if category not in categories:
        raise UserError(
            f"expected a HarmBench category among {', '.join(categories)}, got {category!r}"
        )
    return [item for item in items if item.category == category]
