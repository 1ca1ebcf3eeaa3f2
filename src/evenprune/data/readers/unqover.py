"""UnQover: questions that their context leaves open."""

from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from .rows import Identifier, OneOfThree, Text, ThreeOptions, find_file, read_items


@dataclass(frozen=True)
class UnqoverItem(ThreeOptions):
    """An underspecified question; ``unknown`` is the index of the option "unknown"."""

    id: Annotated[Identifier, Field(alias="example_id")]
    category: Text
    unknown: Annotated[OneOfThree, Field(alias="unknown_num")]


def read_unqover(folder: Path | str, variant: str = "datas_rebuilt") -> list[UnqoverItem]:
    """Read UnQover as in CAL: ``datas_rebuilt`` (40,008) or ``sampled`` (the authors' 3,000)."""
    return read_items(UnqoverItem, find_file(folder, f"{variant}.jsonl"))
