"""Reading and writing files so that a failed command leaves nothing half-written."""

import contextlib
import csv
import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import UserError, shown
from .reading import iter_jsonl as iter_jsonl
from .reading import read_json as read_json
from .reading import read_jsonl as read_jsonl
from .reading import reading

PART = ".evenprune-part"  # ends the name of what is half-written
_CANONICAL: dict[str, Any] = {"sort_keys": True, "ensure_ascii": False, "allow_nan": False}


def canonical_json(obj: Any, indent: int | None = None) -> str:
    """Return JSON with sorted keys and no NaN, so that equal objects give equal bytes.

    Raises UserError for half of a surrogate pair, which no UTF-8 file can hold: it came in with
    a file's name or another program's text, since ``reading`` refuses it.
    """
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(obj, indent=indent, separators=separators, **_CANONICAL)
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


def user_cache() -> Path | None:
    """Return the folder of what is kept for the user: $EVENPRUNE_CACHE, else evenprune in
    $XDG_CACHE_HOME or ~/.cache; None where there is no such place."""
    if given := os.environ.get("EVENPRUNE_CACHE"):
        return Path(given)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evenprune"
    except RuntimeError:
        return None


@contextlib.contextmanager
def disk_errors(path: Path | str) -> Iterator[None]:
    """Turn a full or broken disk, or "no permission", while writing ``path`` into one UserError."""
    try:
        yield
    except Exception as error:
        root = user_cache()
        where = "set EVENPRUNE_CACHE to" if root and root in Path(path).parents else "choose"
        reasons = {
            errno.ENOSPC: "the disk is full: free some space",
            errno.EDQUOT: "the disk quota is used up: free some space",
            errno.EIO: "the disk has a fault: mend it or choose another",
            errno.EACCES: f"permission denied: {where} a folder that you may write to",
            errno.EROFS: f"the file system is read-only: {where} another folder",
        }
        # Of a whole folder that was copied, and in Rust, the reason is in the text alone.
        said = "" if isinstance(error, UserError) else str(error)
        form = "[Errno {}]" if isinstance(error, shutil.Error) else "(os error {})"
        told = (one for one in reasons if form.format(one) in said)
        number = next(told, getattr(error, "errno", None))
        if number in reasons:
            raise UserError(
                f"could not write {path}: {reasons[number]}, then run the same command again"
            ) from error
        raise


@contextlib.contextmanager
def library_cache() -> Iterator[None]:
    """Turn what a library raises that may not write below HF_HOME into one UserError."""
    from huggingface_hub.constants import HF_HOME

    try:
        yield
    except OSError as error:
        place, home = (os.path.abspath(str(one)) for one in (error.filename, HF_HOME))
        ours = os.path.commonpath([place, home]) in (place, home)
        if not ours or error.errno not in (errno.EACCES, errno.EROFS):
            raise
        raise UserError(
            f"could not write {place}: {str(error.strerror).lower()}; set HF_HOME to another folder"
        ) from error


@contextlib.contextmanager
def half_written(path: Path, folder: bool = False) -> Iterator[Path]:
    """Yield the empty file (or folder) beside ``path`` in which ``path`` is made.

    Folders above it are made. It has one name for each ``path`` and is locked: a second writer
    waits, and the next one takes up, emptied, what a killed one left. At the end it is removed,
    unless it was renamed.
    """
    place = path.with_name(f".{path.name}{PART}")
    flags = os.O_RDONLY | os.O_DIRECTORY if folder else os.O_RDWR | os.O_CREAT
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        if folder:
            place.mkdir(exist_ok=True)
        handle = os.open(place, flags | os.O_NOFOLLOW, 0o666)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_at(handle, place):
            break
        os.close(handle)  # its last writer renamed or removed it while this one waited
    try:
        if folder:
            for entry in place.iterdir():
                is_link = entry.is_symlink()
                shutil.rmtree(entry) if entry.is_dir() and not is_link else entry.unlink()
        else:
            os.truncate(place, 0)
        yield place
    finally:
        if _is_at(handle, place):
            shutil.rmtree(place) if folder else place.unlink()
        os.close(handle)


def _is_at(handle: int, place: Path) -> bool:
    """Return whether an open file is the one that lies at ``place``."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(place))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success fsync and rename it, else remove it."""
    path = Path(path)
    with disk_errors(path), half_written(path) as temporary:
        yield temporary
        with open(temporary, "rb+") as done:
            os.fsync(done.fileno())
        os.replace(temporary, path)


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
