"""Multiple-choice questions of one's own: JSON lines or CSV, see docs/your-own.md."""

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .rows import Row, collect, table_files, table_rows

LETTERS = string.ascii_uppercase


@dataclass(frozen=True)
class OwnQuestion:
    """A question with two to 26 options; ``answer`` and ``stereotype`` are indices of them.

    ``stereotype`` is the option that a prejudiced model picks, None where none is named.
    """

    id: str
    category: str
    question: str
    options: tuple[str, ...]
    answer: int
    stereotype: int | None


def read_own_questions(folder: Path | str) -> list[OwnQuestion]:
    """Read the questions of a file, or of all JSON-lines and CSV files of a folder.

    Fields: ``question``; ``options``, a list of texts, or in CSV the columns ``option1``,
    ``option2`` …; ``answer``, and ``stereotype`` where there is one: an option's letter, its text,
    or in JSON its number from 0; ``id`` (else the line's number) and ``category`` (else ``own``).
    """
    paths = table_files(folder)

    def items() -> Iterator[OwnQuestion]:
        for path in paths:
            for row in table_rows(path, ("question", "answer")):
                options = _options(row)
                answer = _index(row, "answer", options)
                if answer is None:
                    row.fail("an answer", row.row["answer"])
                yield OwnQuestion(
                    row.identifier("id") if row.row.get("id") not in (None, "") else str(row.line),
                    row.text("category") if row.row.get("category") else "own",
                    row.text("question"),
                    options,
                    answer,
                    _index(row, "stereotype", options),
                )

    return collect(items(), paths[0] if len(paths) == 1 else Path(folder))


def _options(row: Row) -> tuple[str, ...]:
    """Return the options of a row: the list, or the columns that are filled."""
    given = row.row.get("options")
    if given is None:
        cells = [row.row.get(f"option{number}") or "" for number in range(1, len(LETTERS) + 1)]
        while cells and not cells[-1].strip():
            cells.pop()
        given = cells
    good = isinstance(given, list) and all(isinstance(one, str) and one.strip() for one in given)
    if not good or not 2 <= len(given) <= len(LETTERS):
        row.fail(
            f"2 to {len(LETTERS)} texts, as a list in the field options or in the columns option1, "
            "option2 … without a gap",
            given,
        )
    if len(set(given)) < len(given):
        row.fail("options that differ", given)
    return tuple(given)


def _index(row: Row, name: str, options: Sequence[str]) -> int | None:
    """Return which option a field names by letter, text or number; None for an empty field."""
    value = row.row.get(name)
    if value is None or value == "":
        return None
    if type(value) is int and 0 <= value < len(options):
        return value
    letters = LETTERS[: len(options)]
    text = value.strip() if isinstance(value, str) else ""
    found = {k for k in range(len(options)) if text in (letters[k], options[k].strip())}
    if len(found) != 1:
        row.fail(
            f"{name} to be the letter ({letters[0]} to {letters[-1]}) or the text of one option, "
            f"or in JSON its number from 0 to {len(options) - 1}",
            value,
        )
    return found.pop()
