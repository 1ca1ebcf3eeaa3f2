"""The lock file: which commit of a hub repository is used, with the checksum of every file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, ValidationError

from ..io.checksums import Kind, RecordedFile, compare_files, model_files
from ..io.errors import UserError, shown
from ..io.files import read_json, write_json
from .hub import RepoType, snapshot
from .source_files import Entry, Part, dataset_parts, select, split_ref

LOCK = "config/sources.lock.json"
# The hub's own parquet copy of a data set, for those that are stored in another form.
PARQUET_REF = "refs/convert/parquet"


class LockEntry(BaseModel):
    """The commit of a repository that is used, with its files by path."""

    model_config = ConfigDict(strict=True)

    type: RepoType
    revision: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    files: dict[str, RecordedFile]


def read_lock(path: Path | str) -> dict[str, Any]:
    """Read the lock file; a missing one is empty.

    It maps a repository (with ``@ref`` where it is not the main branch) to what ``LockEntry``
    describes. Raises UserError for anything else.
    """
    lock = read_json(path) if Path(path).exists() else {}
    try:
        TypeAdapter(dict[str, LockEntry]).validate_python(lock)
    except ValidationError as error:
        repo = error.errors()[0]["loc"][0]
        raise UserError(
            f"expected a commit of 40 hex digits and files for {repo!r} in the lock file {path}, "
            f"got {shown(lock[repo])}; remove that entry and run prefetch again"
        ) from None
    return lock


def keys_of(part: Part) -> list[str]:
    """Return the lock's keys for a part of a data set: of its reference, else of both branches."""
    refs = [part.ref] if part.ref else [None, PARQUET_REF]
    return [f"{part.repo}@{ref}" if ref else part.repo for ref in refs]


def locked(lock: Mapping[str, Any], part: Part) -> tuple[str, list[str]] | None:
    """Return the lock's key and files for a part of a data set, or None."""
    for key in keys_of(part):
        names = select(lock[key]["files"], part.file.files) if key in lock else []
        if names:
            return key, names
    return None


def pinned(
    kind: Kind, name: str, entry: Entry, lock: Mapping[str, Any]
) -> dict[str, tuple[str, list[str]]]:
    """Return the lock's key and files for each part of a source; {} unless it pins all of it.

    A model is one part with its own name.
    """
    if kind == "models":
        key = entry.get("hub") or ""
        return {name: (key, model_files(lock[key]["files"], entry))} if key in lock else {}
    parts = dataset_parts(name, entry)
    found = {part.name: one for part in parts if (one := locked(lock, part))}
    return found if len(found) == len(parts) else {}


def record_in_lock(
    path: Path | str, key: str, kind: RepoType, revision: str, files: Mapping[str, Any]
) -> None:
    """Add a repository's commit and files to the lock; what it has of the same commit stays."""
    lock = read_lock(path)
    known = lock.get(key, {})
    kept = known["files"] if known.get("revision") == revision else {}
    lock[key] = {"type": kind, "revision": revision, "files": {**files, **kept}}
    write_json(path, lock)


def fetch_locked(
    lock: Mapping[str, Any], key: str, names: list[str], path: Path | str
) -> list[Path]:
    """Return pinned files in their folder; UserError for one with which the lock disagrees.

    path: of the lock file, for the message.
    """
    pinned = lock[key]
    folder, _ = snapshot(split_ref(key)[0], pinned["type"], pinned["revision"], names)
    wanted = {name: pinned["files"][name]["sha256"] for name in names}
    remedy = "remove it and run prefetch again, or prefetch --update if the new file is wanted"
    compare_files(folder, wanted, path, remedy)
    return [folder / name for name in names]
