"""Pairs and texts of one's own, in the form that `prune --pairs` and `--texts` read too.

A pair is a stereotype and its opposite: two sentences, or one open question followed by the one
and by the other answer. What they begin with alike counts for neither.
"""

from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass

from ...io.reading import iter_table
from .rows import Identifier, Item, Text, collect, read_items, table_files


@dataclass(frozen=True)
class OwnText:
    """One text."""

    id: Identifier
    text: Text


@dataclass(frozen=True)
class OwnPair:
    """One pair; ``stereotype`` is the text that a prejudiced model finds likelier.

    ``counterfactuals`` are the same two texts about other groups than ``target``, ``unrelated`` is
    a third one that makes no sense.
    """

    id: Identifier
    category: Text
    stereotype: Text
    anti_stereotype: Text
    target: str = ""
    counterfactuals: list[tuple[Text, Text]] = field(default_factory=list)
    unrelated: str = ""


def read_pairs(place: Path | str) -> list[dict[str, str]]:
    """Read the pairs of a JSON-lines or CSV file, or of all such files of a folder.

    ``id`` and ``category`` may be left out: then the line's number is the id, and ``own`` the
    category. Raises UserError for a field that is missing or blank, an id that comes twice (over
    all files), and a file without any pair.
    """
    return _read(OwnPair, place)


def read_texts(place: Path | str) -> list[dict[str, str]]:
    """Read texts (id, text). Like ``read_pairs`` in all else."""
    return _read(OwnText, place)


def _read(kind: type[Item], place: Path | str) -> list[dict[str, Any]]:
    paths = table_files(place) if Path(place).is_dir() else [Path(place)]
    left_out = ("id", "category")
    rows = (row for one in paths for row in read_items(kind, one, iter_table, _complete, left_out))
    found = [asdict(row) for row in collect(rows, place)]  # type: ignore[call-overload]
    return [{name: value for name, value in row.items() if value} for row in found]


def _complete(row: dict[str, Any], _number: int, line: int) -> dict[str, Any]:
    """Return what stands in the place of the fields that a row leaves out."""
    defaults = {"id": str(line), "category": "own"}
    return {name: value for name, value in defaults.items() if row.get(name, "") == ""}
