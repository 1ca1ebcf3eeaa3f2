"""StereoSet: contexts with a blank, filled with a stereotype, an anti-stereotype, a stranger."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from .rows import Identifier, Text, find_file, read_items

LABELS = ("stereotype", "anti-stereotype", "unrelated")


@dataclass(frozen=True)
class StereoSetItem:
    """One intrasentence cluster: a context with a blank, filled in three ways."""

    id: Identifier
    category: Annotated[Text, Field(alias="bias_type")]
    target: Text
    context: Text
    stereotype: Text
    anti_stereotype: Annotated[Text, Field(alias="anti-stereotype")]
    unrelated: Text


def _by_label(row: dict[str, Any], _line: int) -> dict[str, Any]:
    """Return the sentences of a row by their labels."""
    given: Any = row.get("sentences")
    parts = [part for part in given if isinstance(part, dict)] if isinstance(given, list) else []
    found = [str(part.get("gold_label")) for part in parts]
    if sorted(found) != sorted(LABELS) or len(parts) != len(given):
        raise ValueError(f"three sentences labelled {', '.join(LABELS)}")
    return {part["gold_label"]: part.get("sentence") for part in parts}


def read_stereoset(folder: Path | str) -> list[StereoSetItem]:
    """Read StereoSet's intrasentence development set (2,106 clusters)."""
    path = find_file(folder, "intrasentence.jsonl")
    return read_items(StereoSetItem, path, added=_by_label, without=LABELS)
