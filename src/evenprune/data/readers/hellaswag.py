"""HellaSwag: texts to continue with one of four endings."""

from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from .choice import ChoiceItem
from .rows import FourTexts, Identifier, OneOfFour, Text, collect, find_file, read_items


@dataclass(frozen=True)
class _Ending:
    id: Annotated[Identifier, Field(alias="row")]
    query: Text
    choices: FourTexts
    gold: OneOfFour


def read_hellaswag(folder: Path | str) -> list[ChoiceItem]:
    """Read HellaSwag's validation set as lm-evaluation-harness scores it (10,042 items).

    Query and choices are cleaned already; the category is the text before the first colon
    (the activity).
    """
    path = find_file(folder, "validation_lm_eval.jsonl")
    rows = read_items(_Ending, path)
    items = (
        ChoiceItem(row.id, row.query.partition(":")[0], row.query, row.choices, row.gold)
        for row in rows
    )
    return collect(items, path)
