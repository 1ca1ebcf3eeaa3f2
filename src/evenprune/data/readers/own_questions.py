"""Multiple-choice questions of one's own: JSON lines or CSV, see docs/your-own.md."""

import re
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass

from ...io.reading import iter_table
from .rows import Identifier, Text, collect, read_items, table_files

LETTERS = string.ascii_uppercase
OPTION = re.compile(r"\W*option\W*(\d+)\W*", re.IGNORECASE)


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
    paths = table_files(folder)
    made = ("id", "category", "options", "stereotype")
    rows = (
        row for one in paths for row in read_items(OwnQuestion, one, iter_table, _complete, made)
    )
    return collect(rows, paths[0] if len(paths) == 1 else folder)


def _complete(row: dict[str, Any], _number: int, line: int) -> dict[str, Any]:
    """Return what a row leaves out, its options as texts, and the ones that it names as numbers."""
    options = _options(row)
    return {
        "id": str(line) if row.get("id") in (None, "") else row["id"],
        "category": row.get("category") or "own",
        "options": options,
        "answer": _index(row, "answer", options),
        "stereotype": None
        if row.get("stereotype") in (None, "")
        else _index(row, "stereotype", options),
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
            f"2 to {len(LETTERS)} texts, as a list in the field options or in the columns option1, "
            "option2 … without a gap"
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
