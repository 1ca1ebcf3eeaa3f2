"""The Hugging Face hub: what the catalogue says of its files, which commit is used, the download.

The lock file says of each repository the commit that is used, with the checksum of every file. The
hub's own library resolves, downloads, and finds what its cache (HF_HOME) has; no other module talks
to it. Everything that can go wrong there becomes a UserError in one sentence; the text of the
library's own exception is never repeated, since it can hold request headers and signed addresses.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, ValidationError

from ..config.catalogue import FilePart, HubEntry, PackageData
from ..config.field_errors import field_errors
from ..io.checksums import Kind, compare_files, matching, model_files
from ..io.errors import UserError, shown
from ..io.files import disk_errors, read_json, write_json

Entry = Mapping[str, Any]
Lock = Mapping[str, Any]  # by repository, what ``LockEntry`` describes
Held = tuple[str, list[str]]  # a key of the lock, and files of that repository
RepoType = Literal["model", "dataset"]
LOCK = "config/sources.lock.json"
# The hub's own parquet copy of a data set, for those that are stored in another form.
PARQUET_REF = "refs/convert/parquet"


# What the configuration says of the files of a source


@dataclass(frozen=True)
class Part:
    """Some files of a hub repository or package, as the catalogue describes them."""

    name: str
    repo: str
    ref: str | None
    file: FilePart

    @property
    def keys(self) -> list[str]:
        """The keys of the lock file: of its reference, else of both branches."""
        refs = [self.ref] if self.ref else [None, PARQUET_REF]
        return [f"{self.repo}@{ref}" if ref else self.repo for ref in refs]


def split_ref(repo: str) -> tuple[str, str | None]:
    """Split ``org/name@ref`` into repository and reference (None: the main branch)."""
    name, _, ref = repo.partition("@")
    return name, ref or None


def dataset_parts(name: str, entry: Entry, key: str = "hub") -> list[Part]:
    """Return the parts of a data set's ``hub`` or ``package`` entry; [] where it has none.

    Raises UserError for an entry of another form than the configuration describes.
    """
    if not entry.get(key):
        return []
    kind: type[HubEntry | PackageData] = HubEntry if key == "hub" else PackageData
    try:
        source = kind.model_validate(entry[key])
    except ValidationError as error:
        raise UserError(f"datasets.{name}.{key}: {next(field_errors(error, kind))[1]}") from None
    default = source.name if isinstance(source, PackageData) else source.repo
    return [
        Part(name, *split_ref(getattr(part, "repo", None) or default or ""), part)
        for name, part in source.parts.items()
    ]


def select(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that the first pattern with any match matches, sorted."""
    names = list(names)
    return next(filter(None, (matching(names, [pattern]) for pattern in patterns)), [])


# The lock file


class LockedFile(BaseModel):
    """A file of a repository."""

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class LockEntry(BaseModel):
    """The commit of a repository that is used, with its files by path."""

    model_config = ConfigDict(strict=True)

    type: RepoType
    revision: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    files: dict[str, LockedFile]


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


def locked(lock: Lock, part: Part) -> Held | None:
    """Return the lock's key and files for a part of a data set, or None."""
    held = ((key, select(lock[key]["files"], part.file.files)) for key in part.keys if key in lock)
    return next((one for one in held if one[1]), None)


def pinned(kind: Kind, name: str, entry: Entry, lock: Lock) -> dict[str, Held]:
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


# The download


def fetch_locked(lock: Lock, key: str, names: list[str], path: Path | str) -> list[Path]:
    """Return pinned files in their folder; UserError for one with which the lock disagrees.

    path: of the lock file, for the message.
    """
    held = lock[key]
    folder, _ = snapshot(split_ref(key)[0], held["type"], held["revision"], names)
    wanted = {name: held["files"][name]["sha256"] for name in names}
    remedy = "remove it and run prefetch again, or prefetch --update if the new file is wanted"
    compare_files(folder, wanted, path, remedy)
    return [folder / name for name in names]


def snapshot(
    repo: str, kind: RepoType, revision: str, patterns: Sequence[str]
) -> tuple[Path, list[str]]:
    """Return the folder of ``repo`` in the hub's cache, and those of its files that match.

    The folder's name is the commit. What is missing is downloaded; without a connection the cache
    has to have all of it. Of a model only files at its top level are taken. Raises UserError where
    that is not possible: no such repository or revision, gated, out of reach.
    """
    from huggingface_hub import snapshot_download

    below = None if kind == "dataset" else "*/*"
    with _explained(repo, kind, revision), disk_errors("the hub's cache"):
        which: dict[str, Any] = {"repo_type": kind, "revision": revision, "ignore_patterns": below}
        folder = Path(snapshot_download(repo, allow_patterns=list(patterns), **which))
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    return folder, matching((name for name in names if not below or "/" not in name), patterns)


@contextlib.contextmanager
def _explained(repo: str, kind: RepoType, revision: str) -> Iterator[None]:
    """Turn the library's exceptions into one sentence that holds no secret."""
    from huggingface_hub import constants, errors

    offline = constants.is_offline_mode()
    reach = "offline mode is on (HF_HUB_OFFLINE)" if offline else "the hub cannot be reached"
    known: dict[type[Exception], str] = {
        errors.HFValidationError: "is none: expected org/name of letters, digits and -, _ or .",
        errors.GatedRepoError: "is gated and this account may not read it: accept its terms on its "
        "page, then set HF_TOKEN (or run `hf auth login`) and run the command again",
        errors.RepositoryNotFoundError: "does not exist, or is private and needs a token that may "
        "read it: check the name in the configuration, or set HF_TOKEN",
        errors.RevisionNotFoundError: f"has no revision {revision}: correct or remove it from the "
        "lock file",
        errors.LocalEntryNotFoundError: f"is not in the local cache as a whole, and {reach}: run "
        "prefetch where there is a network",
        # Whatever else the library or its transport raises: an address that is none, an answer
        # that is no JSON, a transfer that broke.
        Exception: f"could not be read at {revision} (NAME): check HF_ENDPOINT, HF_TOKEN and the "
        "name in the configuration, then run the same command again",
    }
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        message = next(text for one, text in known.items() if isinstance(error, one))
        message = message.replace("NAME", type(error).__name__)
        raise UserError(f"the hub's {kind} {repo!r} {message}") from None
