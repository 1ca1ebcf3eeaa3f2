"""Reading the files that users give: whatever is wrong with one is said in one sentence.

Files are opened by ``open_text`` and JSON is parsed by ``parse_json`` or the readers of this
module, nowhere else, so that the same fault gives the same sentence in every command.
"""

import contextlib
import csv
import gzip
import json
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from pydantic_core import from_json

from .errors import UserError, shown

# What may be a float that is none: beyond its range, pydantic reads infinity. Two patterns, each
# of which begins with a set of characters, take a quarter of the time of one.
_EXPONENT, _LONG = re.compile(r"[eE][+0-9][0-9]{2}"), re.compile(r"[0-9]{300}")
_KEY = re.compile(r'"\s*:')  # each key ends so, and so may a part of a text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise ValueError for a key that comes twice, of which one were lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"it has the key {twice!r} twice in one object")
    return found


# What a user is told of the system's errors
_SAID = {
    FileNotFoundError: "found none",
    IsADirectoryError: "got a folder",
    NotADirectoryError: "but a part of that path is a file",
    PermissionError: "but it may not be read (permission denied)",
}


@contextlib.contextmanager
def reading(
    path: Path | str, what: str = "a file", remedy: str = "check the path"
) -> Iterator[None]:
    """Turn whatever the system says about reading ``path`` into one UserError.

    That is: no such file, a folder, no permission, a name too long, a damaged disk or gzip
    file, text that is not UTF-8. A pipe is refused before it is opened: it can be read once
    only, but checksums are taken of the same path.
    """
    try:
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UserError(
                f"expected {what} at {path}, got a pipe or device; write it to a file and give that"
            )
        yield
    except UnicodeDecodeError as error:
        given = "UTF-16" if error.object[:2] in (b"\xff\xfe", b"\xfe\xff") else "LATIN1"
        raise UserError(
            f"{path} is damaged or not UTF-8 text ({error.reason}); fetch or make it again, or "
            f"save it as UTF-8 (where it is {given}: `iconv -f {given} -t UTF-8 FILE > NEW`)"
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is damaged ({error}); fetch or make it again") from None
    except OSError as error:
        found = _SAID.get(type(error), f"but it cannot be read ({error.strerror})")
        place = path if type(error) in _SAID else shown(str(path))
        raise UserError(f"expected {what} at {place}, {found}; {remedy}") from None


@contextlib.contextmanager
def open_text(
    path: Path | str,
    what: str = "a file",
    remedy: str = "check the path",
    newline: str | None = None,
) -> Iterator[TextIO]:
    """Open UTF-8 text, plain or ``.gz``; a byte order mark is no part of it.

    Raises UserError as ``reading`` does, in the body too.
    """
    opener = gzip.open if Path(path).suffix == ".gz" else open
    with (
        reading(path, what, remedy),
        opener(path, "rt", encoding="utf-8-sig", newline=newline) as handle,
    ):
        yield handle


def read_text(path: Path | str, what: str = "a text file") -> str:
    """Return a file's text with its line ends as they are; raises UserError as ``open_text``."""
    with open_text(path, what, newline="") as handle:
        return handle.read()


def parse_json(text: str, origin: Path | str, finite: bool = True, part: str = "it") -> Any:
    """Return the object that JSON text, a ``part`` of ``origin`` or all of it, stands for.

    ``finite=False`` takes Infinity and NaN too, which model configurations may have.
    Raises UserError for text that does not parse, NaN and numbers beyond a float, whole numbers
    of thousands of digits, hundreds of levels, a key that comes twice, and halves of surrogate
    pairs, which no file or tokenizer takes.
    """
    try:
        loaded = from_json(text, allow_inf_nan=not finite)
        large = finite and (_EXPONENT.search(text) or _LONG.search(text))
        flat = isinstance(loaded, dict) and text.count("{") == 1
        # A key that came twice would be one more.
        if large or not flat or len(_KEY.findall(text)) != len(loaded):
            loaded = json.loads(text, object_pairs_hook=_once)  # slower, but sees keys that repeat
        if large:
            json.dumps(loaded, allow_nan=False)
        return loaded
    except ValueError as error:
        raise UserError(
            f"expected JSON in {origin}, but {part} does not parse: {error}; mend or fetch it again"
        ) from None


def read_json(path: Path | str, finite: bool = True) -> Any:
    """Return the JSON object (a dict) of a file.

    Raises UserError as ``open_text`` and ``parse_json``, and where the JSON is no object.
    """
    with open_text(path, "a JSON file") as handle:
        loaded = parse_json(handle.read(), path, finite)
    if not isinstance(loaded, dict):
        raise UserError(f"expected a JSON object in {path}, got {shown(loaded)}; check the path")
    return loaded


def iter_jsonl(
    path: Path | str, fields: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, row) of JSON lines (plain or ``.gz``), each row with all ``fields``.

    Raises UserError with file and line number for a missing file, a line that is not
    JSON as ``parse_json`` takes it, a row that is not an object, or a missing field. Blank lines
    are skipped.
    """
    with open_text(path, "a JSON-lines file") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            row = parse_json(line, path, part=f"line {number}")
            if not isinstance(row, dict):
                raise UserError(
                    f"line {number} of {path} is no JSON object, got {type(row).__name__}; mend it"
                )
            missing = [name for name in fields if name not in row]
            if missing:
                raise UserError(
                    f"expected the fields {', '.join(fields)} in {path}, but line {number} "
                    f"lacks {', '.join(missing)}; add the missing field"
                )
            yield number, row


def read_jsonl(path: Path | str, fields: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return all rows of ``iter_jsonl``, with its checks."""
    return [row for _, row in iter_jsonl(path, fields)]


def iter_csv(
    path: Path | str,
    columns: Sequence[str] = (),
    delimiter: str = ",",
    what: str = "a CSV file",
    remedy: str = "check that it is the original file",
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line number, row) of a CSV file (plain or ``.gz``) with a header.

    Raises UserError for a file that ``open_text`` does not open, one that lacks one of
    ``columns`` or has it twice, and for a row with more or fewer cells or a cell above csv's
    limit of 128 KiB (as behind a quote that is never closed).
    """
    with open_text(path, what, remedy, newline="") as lines:
        table = csv.DictReader(lines, delimiter=delimiter)
        try:
            names = table.fieldnames = [name.strip() for name in table.fieldnames or ()]
            count = Counter(names)
            wrong = [f"{name} is missing" for name in columns if not count[name]]
            wrong += [f"{name} is there twice" for name in count if name and count[name] > 1]
            if wrong:
                raise UserError(
                    f"expected the columns {', '.join(columns)} in {path}, but "
                    f"{', '.join(wrong)}; {remedy}"
                )
            for row in table:
                if None in row or None in row.values():
                    raise UserError(
                        f"expected {len(names)} columns on line {table.line_num} of {path}; mend it"
                    )
                yield table.line_num, row
        except csv.Error as error:
            raise UserError(
                f"expected CSV in {path}, but line {table.line_num + 1} does not parse ({error}); "
                "look for a quote that is not closed"
            ) from None


def iter_table(
    path: Path | str, fields: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, row) of a file that a user has written: JSON lines or CSV, by its name.

    A name with ``.csv`` or ``.tsv`` at its end (or before ``.gz``) is a table with a header, its
    columns apart by what its first line has most of: commas, semicolons or tabs. Raises UserError
    as ``iter_jsonl`` and ``iter_csv``.
    """
    suffix = Path(str(path).removesuffix(".gz")).suffix.lower()
    if suffix not in (".csv", ".tsv"):
        yield from iter_jsonl(path, fields)
        return
    with open_text(path, "a CSV file") as lines:
        header = lines.readline()
    delimiter = max(",;\t", key=header.count)
    yield from iter_csv(path, fields, delimiter, remedy="give the columns in its first line")


@contextlib.contextmanager
def expected_form(form: str, path: Path | str, remedy: str) -> Iterator[None]:
    """Turn a look into parsed content that has another form into one UserError.

    For blocks that only take values out of what was read from ``path``.
    """
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        reason = shown(f"{type(error).__name__}: {error}")
        raise UserError(
            f"expected {form} in {path}, but it has another form ({reason}); {remedy}"
        ) from None
