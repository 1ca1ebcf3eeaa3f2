"""Reading and writing files so that a failed command leaves nothing half-written."""

import contextlib
import csv
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import UserError, shown
from .reading import iter_jsonl as iter_jsonl
from .reading import read_json as read_json
from .reading import read_jsonl as read_jsonl
from .reading import reading


def canonical_json(obj: Any, indent: int | None = None) -> str:
    """Return JSON with sorted keys and no NaN, so that equal objects give equal bytes.

    Raises UserError for half of a surrogate pair, which no UTF-8 file can hold: it came in with
    a file's name or another program's text, since ``reading`` refuses it.
    """
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(
        obj,
        sort_keys=True,
        indent=indent,
        separators=separators,
        ensure_ascii=False,
        allow_nan=False,
    )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        part = text[max(error.start - 30, 0) : error.end + 30]
        raise UserError(
            f"expected text that can be written as UTF-8, got half of a character in "
            f"{shown(part)}; mend that text, or rename that file"
        ) from None
    return text


def digest(obj: Any) -> str:
    """Return the first 16 hex digits of the SHA-256 of ``canonical_json(obj)``."""
    return hashlib.sha256(canonical_json(obj).encode()).hexdigest()[:16]


def sha256_file(path: Path | str) -> str:
    """Return the SHA-256 of a file's bytes as 64 hex digits; UserError as ``reading``."""
    with reading(path), open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@contextlib.contextmanager
def disk_errors(path: Path | str) -> Iterator[None]:
    """Turn "disk full" and "no permission" while writing ``path`` into one UserError."""
    try:
        yield
    except OSError as error:
        reasons = {
            errno.ENOSPC: "the disk is full: free some space",
            errno.EDQUOT: "the disk quota is used up: free some space",
            errno.EACCES: "permission denied: choose a folder that you may write to",
            errno.EROFS: "the file system is read-only: choose another folder",
        }
        if error.errno in reasons:
            raise UserError(
                f"could not write {path}: {reasons[error.errno]}, then run the same command again"
            ) from error
        raise


@contextlib.contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success fsync and rename it, else remove it."""
    path = Path(path)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        os.chmod(name, 0o666 & ~_umask())
        temporary = Path(name)
        try:
            yield temporary
            with open(temporary, "rb+") as done:
                os.fsync(done.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: Path | str, text: str) -> None:
    """Write UTF-8 text atomically, making parent folders."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path | str, obj: Any) -> None:
    """Write canonical, indented JSON atomically."""
    write_text(path, canonical_json(obj, indent=1) + "\n")


def write_jsonl(path: Path | str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write one canonical JSON object a line atomically; return the number of rows."""
    count = 0
    with atomic_path(path) as temporary, open(temporary, "w", encoding="utf-8") as out:
        for row in rows:
            out.write(canonical_json(row) + "\n")
            count += 1
    return count


def write_csv(path: Path | str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as CSV with a header atomically; None becomes an empty cell."""
    with atomic_path(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, columns, lineterminator="\n", extrasaction="raise")
        writer.writeheader()
        writer.writerows(rows)
