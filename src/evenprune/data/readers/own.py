"""Pairs, texts and multiple-choice questions of one's own: JSON lines or CSV, docs/your-own.md.

A pair, which `prune --pairs` reads too, is a stereotype and its opposite: two sentences, or one
open question followed by the one and by the other answer. What they begin with alike counts for
neither.
"""

import re
import string
from collections.abc import Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass

from ...io.reading import iter_table
from .rows import Added, Identifier, Item, Text, read_items, table_files

LETTERS = string.ascii_uppercase
OPTION = re.compile(r"\W*option\W*(\d+)\W*", re.IGNORECASE)


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


def _read(kind: type[Any], place: Path | str) -> list[dict[str, Any]]:
    found = [asdict(row) for row in _rows(kind, place, _named, ("id", "category"))]
    return [{name: value for name, value in row.items() if value} for row in found]


def _named(row: dict[str, Any], line: int) -> dict[str, Any]:
    """Return the id and the category of a row that it leaves out."""
    defaults = {"id": str(line), "category": "own"}
    return {name: value for name, value in defaults.items() if row.get(name) in (None, "")}


def _rows(kind: type[Item], place: Path | str, added: Added, without: Sequence[str]) -> list[Item]:
    """Return the rows of a file, or of all JSON-lines and CSV files of a folder."""
    return read_items(kind, *table_files(place), rows=iter_table, added=added, without=without)


@dataclass(frozen=True)
class OwnQuestion:
    """A question with two to 26 options; ``answer`` and ``stereotype`` are indices of them.

    ``stereotype`` is the option that a prejudiced model picks, None where none is named.
    """

    id: Identifier
    category: Text
    question: Text
    options: tuple[Text, ...]
    answer: int
    stereotype: int | None


def read_own_questions(folder: Path | str) -> list[OwnQuestion]:
    """Read the questions of a file, or of all JSON-lines and CSV files of a folder.

    Fields: ``question``; ``options``, a list of texts, or in CSV the columns ``option1``,
    ``option2`` …; ``answer``, and ``stereotype`` where there is one: an option's letter, its text,
    or in JSON its number from 0; ``id`` (else the line's number) and ``category`` (else ``own``).
    """
    made = ("id", "category", "options", "stereotype")
    return _rows(OwnQuestion, folder, _complete, made)


def _complete(row: dict[str, Any], line: int) -> dict[str, Any]:
    """Return what a row leaves out, its options as texts, and the ones that it names as numbers."""
    options, named = _options(row), row.get("stereotype") not in (None, "")
    return {
        **_named(row, line),
        "options": options,
        "answer": _index(row, "answer", options),
        "stereotype": _index(row, "stereotype", options) if named else None,
    }


def _options(row: dict[str, Any]) -> list[str]:
    """Return the options of a row: the list, or the columns that are filled."""
    columns = {key: OPTION.fullmatch(key) for key in row}
    cells = {int(found[1]): row[key] or "" for key, found in columns.items() if found}
    given = row.get("options")
    if given is None:
        last = max((number for number, text in cells.items() if str(text).strip()), default=0)
        given = [cells.get(number, "") for number in range(1, last + 1)]
    good = isinstance(given, list) and all(isinstance(one, str) and one.strip() for one in given)
    twice = len(cells) < sum(map(bool, columns.values())) or (cells and "options" in row)
    if twice or not good or not 2 <= len(given) <= len(LETTERS):
        raise ValueError(
            f"2 to {len(LETTERS)} texts, as a list in options or in columns option1, option2 … "
            "without a gap"
        )
    if len(set(given)) < len(given):
        raise ValueError("options that differ")
    return given


def _index(row: dict[str, Any], name: str, options: Sequence[str]) -> int:
    """Return which option a field names by letter, text or number."""
    value = row.get(name)
    if type(value) is int and 0 <= value < len(options):
        return value
    letters = LETTERS[: len(options)]
    text = value.strip() if isinstance(value, str) else ""
    found = {k for k in range(len(options)) if text in (letters[k], options[k].strip())}
    if len(found) != 1:
        raise ValueError(
            f"{name} to be the letter ({letters[0]} to {letters[-1]}) or the text of one option, "
            f"or in JSON its number from 0 to {len(options) - 1}"
        )
    return found.pop()
