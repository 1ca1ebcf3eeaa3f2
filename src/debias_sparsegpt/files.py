"""Reading and writing files so that a failed command leaves nothing half-written."""

import contextlib
import csv
import errno
import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import UserError


def canonical_json(obj: Any, indent: int | None = None) -> str:
    """Return JSON with sorted keys and no NaN, so that equal objects give equal bytes."""
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(
        obj,
        sort_keys=True,
        indent=indent,
        separators=separators,
        ensure_ascii=False,
        allow_nan=False,
    )


def digest(obj: Any) -> str:
    """Return the first 16 hex digits of the SHA-256 of ``canonical_json(obj)``."""
    return hashlib.sha256(canonical_json(obj).encode()).hexdigest()[:16]


def sha256_file(path: Path | str) -> str:
    """Return the SHA-256 of a file's bytes as 64 hex digits."""
    with open(path, "rb") as handle:
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


def read_json(path: Path | str) -> Any:
    """Read JSON; raise UserError when the file is missing or broken."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"expected a JSON file at {path}, found none; check the path") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"expected JSON in {path}, but it does not parse: {error}") from None


def iter_jsonl(
    path: Path | str, fields: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, row) of JSON lines (plain or ``.gz``), each row with all ``fields``.

    Raises UserError with file and line number for a missing file, a line that is not
    JSON, a row that is not an object, or a missing field. Blank lines are skipped.
    """
    path = Path(path)
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except json.JSONDecodeError as error:
                    raise UserError(
                        f"expected one JSON object a line in {path}, but line {number} does not "
                        f"parse ({error.msg}); mend or remove that line"
                    ) from None
                if not isinstance(row, dict):
                    raise UserError(
                        f"expected a JSON object on line {number} of {path}, "
                        f"got {type(row).__name__}; mend or remove that line"
                    )
                missing = [name for name in fields if name not in row]
                if missing:
                    raise UserError(
                        f"expected the fields {', '.join(fields)} in {path}, but line {number} "
                        f"lacks {', '.join(missing)}; add the missing field"
                    )
                yield number, row
    except FileNotFoundError:
        raise UserError(
            f"expected a JSON-lines file at {path}, found none; check the path"
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"{path} is damaged ({error}); fetch or make it again") from None


def read_jsonl(path: Path | str, fields: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return all rows of ``iter_jsonl``, with its checks."""
    return [row for _, row in iter_jsonl(path, fields)]
