"""The lock file: which commit of a hub repository is used, with the checksum of every file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, ValidationError

from ..io.errors import UserError, shown
from ..io.files import read_json, write_json
from .hub import RepoType
from .source_files import Part, select

# The hub's own parquet copy of a data set, for those that are stored in another form.
PARQUET_REF = "refs/convert/parquet"


class LockedFile(BaseModel):
    """A file of a pinned commit."""

    model_config = ConfigDict(strict=True)

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    bytes: int


class LockEntry(BaseModel):
    """The commit of a repository that is used, with its files by path."""

    model_config = ConfigDict(strict=True)

    type: Literal["model", "dataset"]
    revision: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    files: dict[str, LockedFile]


def read_lock(path: Path | str) -> dict[str, Any]:
    """Read the lock file; a missing one is empty.

    It maps a repository (with ``@ref`` where it is not the main branch) to what ``LockEntry``
    describes. Raises UserError for anything else.
    """
    if not Path(path).exists():
        return {}
    lock = read_json(path)
    try:
        TypeAdapter(dict[str, LockEntry]).validate_python(lock)
    except ValidationError as error:
        repo = error.errors()[0]["loc"][0]
        raise UserError(
            f"expected a commit of 40 hex digits and files for {repo!r} in the lock file {path}, "
            f"got {shown(lock[repo])}; remove that entry and run prefetch again"
        ) from None
    return lock


def lock_key(repo: str, ref: str | None) -> str:
    """Return the lock's key for a repository at a reference."""
    return f"{repo}@{ref}" if ref else repo


def locked(lock: Mapping[str, Any], part: Part) -> tuple[str, list[str]] | None:
    """Return the lock's key and files for a part of a data set, or None."""
    for ref in (part.ref,) if part.ref else (None, PARQUET_REF):
        key = lock_key(part.repo, ref)
        names = select(lock[key]["files"], part.file.files) if key in lock else []
        if names:
            return key, names
    return None


def record_in_lock(
    lock_path: Path | str, key: str, kind: RepoType, revision: str, files: Mapping[str, Any]
) -> None:
    """Add a repository's commit and files to the lock; other files of the same commit stay."""
    lock = read_lock(lock_path)
    known = lock.get(key, {})
    kept = known["files"] if known.get("revision") == revision else {}
    for name in kept.keys() & files.keys():
        if kept[name] != files[name]:
            raise UserError(
                f"{name} of {key} is not the file that the lock {lock_path} describes: expected "
                f"SHA-256 {kept[name]['sha256'][:16]}…, got {files[name]['sha256'][:16]}…; "
                "remove the cached file and run prefetch again"
            )
    lock[key] = {"type": kind, "revision": revision, "files": {**kept, **files}}
    write_json(lock_path, lock)
