"""What the readers share: finding a data set's files, typed rows, ids that come once.

A broken or missing row raises UserError with file and line.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ...base.errors import UserError, shown
from ...base.reading import iter_csv, iter_jsonl, iter_table


def find_file(folder: Path | str, name: str) -> Path:
    """Return ``folder/name`` or ``folder/name.gz``; raise UserError when there is neither.

    Where a file is given in place of a folder, it is that file, whatever its name.
    """
    folder = Path(folder)
    if folder.is_file():
        return folder
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise UserError(
        f"expected {name} (or {name}.gz) in {folder}, found neither; "
        "check the folder or fetch the data set again"
    )


def jsonl_files(folder: Path | str) -> list[Path]:
    """Return a folder's JSON-lines files, plain or gzipped, by name; UserError if none.

    Where a file is given in place of a folder, it is that file.
    """
    return _files(Path(folder), (".jsonl",), "JSON-lines files (*.jsonl or *.jsonl.gz)")


def table_files(folder: Path | str) -> list[Path]:
    """Return a folder's files that ``iter_table`` reads, likewise."""
    kinds = (".jsonl", ".csv", ".tsv")
    return _files(Path(folder), kinds, "JSON-lines or CSV files (*.jsonl, *.csv, *.tsv)")


def _files(folder: Path, suffixes: Sequence[str], what: str) -> list[Path]:
    if folder.is_file():
        return [folder]
    found = {
        path.name.removesuffix(".gz"): path
        for suffix in suffixes
        for pattern in (f"*{suffix}.gz", f"*{suffix}")
        for path in folder.glob(pattern)
    }
    if not found:
        raise UserError(
            f"expected {what} in {folder}, found none; check the folder or fetch the data set again"
        )
    return [found[name] for name in sorted(found)]


class Row:
    """Typed access to the fields of one row; what is wrong is said with file and line."""

    def __init__(self, path: Path, line: int, row: dict[str, Any]) -> None:
        self.path, self.line, self.row = path, line, row

    def fail(self, expected: str, got: Any) -> NoReturn:
        """Raise UserError that names file and line, what was expected and what came."""
        raise UserError(
            f"expected {expected} on line {self.line} of {self.path}, got {shown(got)}; "
            "mend or remove that row"
        )

    def text(self, name: str, empty: bool = False) -> str:
        """Return a text that is not blank; with ``empty`` it may be."""
        value = self.row[name]
        if not isinstance(value, str) or not (empty or value.strip()):
            self.fail(f"a {'' if empty else 'non-empty '}text in field {name}", value)
        return value

    def one_of(self, name: str, allowed: Sequence[str]) -> str:
        """Return a field that must be one of the allowed values."""
        value = self.row[name]
        if value not in allowed:
            self.fail(f"{name} to be one of {', '.join(allowed)}", value)
        return value

    def index(self, name: str, count: int) -> int:
        """Return a whole number from 0 to ``count`` - 1."""
        value = self.row[name]
        if type(value) is not int or not 0 <= value < count:
            self.fail(f"{name} to be a whole number from 0 to {count - 1}", value)
        return value

    def identifier(self, name: str) -> str:
        """Return a number or a text as a text."""
        value = self.row[name]
        if type(value) not in (int, str) or value == "":
            self.fail(f"a number or a text in field {name}", value)
        return str(value)

    def texts(self, name: str, count: int) -> tuple[str, ...]:
        """Return a list of exactly ``count`` texts that are not blank."""
        value = self.row[name]
        good = isinstance(value, list) and len(value) == count
        if not good or not all(isinstance(part, str) and part.strip() for part in value):
            self.fail(f"a list of {count} non-empty texts in field {name}", value)
        return tuple(value)


def json_rows(path: Path, fields: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a JSON-lines file that must have the fields."""
    for line, row in iter_jsonl(path, fields):
        yield Row(path, line, row)


def table_rows(path: Path, fields: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a file of the user's own, see ``iter_table``."""
    for line, row in iter_table(path, fields):
        yield Row(path, line, row)


def csv_rows(path: Path, delimiter: str, fields: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a CSV file that must have the fields."""
    for line, row in iter_csv(path, fields, delimiter):
        yield Row(path, line, row)


Item = TypeVar("Item")


def collect(items: Iterable[Item], path: Path) -> list[Item]:
    """Return the items as a list; raise UserError when there is none or an id comes twice."""
    found = list(items)
    if not found:
        raise UserError(f"expected at least one row in {path}, but it is empty; fetch it again")
    seen: set[str] = set()
    for item in found:
        identifier = item.id  # type: ignore[attr-defined]
        if identifier in seen:
            raise UserError(
                f"expected every row of {path} to have an id of its own, but {identifier!r} comes "
                "twice; remove one of the rows"
            )
        seen.add(identifier)
    return found
