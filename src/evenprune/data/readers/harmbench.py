"""HarmBench: requests that a safe model refuses."""

from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field
from pydantic.dataclasses import dataclass

from ...io.errors import UserError
from .rows import Text, collect, csv_rows, find_file, read_items

Category = Literal["standard", "contextual", "copyright"]


@dataclass(frozen=True)
class Behaviour:
    """A HarmBench behaviour; ``context`` is empty except for contextual ones."""

    id: Annotated[Text, Field(alias="BehaviorID")]
    category: Annotated[Category, Field(alias="FunctionalCategory")]
    topic: Annotated[str, Field(alias="SemanticCategory")]
    behaviour: Annotated[Text, Field(alias="Behavior")]
    context: Annotated[str, Field(alias="ContextString")]


def read_harmbench(folder: Path | str, category: str | None = None) -> list[Behaviour]:
    """Read HarmBench's text behaviours (400), or one functional category of them.

    Categories are standard (200), contextual and copyright (100 each). A blank at the end of
    a behaviour is the source's and is kept.
    """
    path = find_file(folder, "harmbench_behaviors_text_all.csv")
    items = collect(read_items(Behaviour, path, csv_rows), path)
    known = get_args(Category)
    if category is not None and category not in known:
        raise UserError(f"expected a HarmBench category among {', '.join(known)}, got {category!r}")
    return [item for item in items if category in (None, item.category)]
