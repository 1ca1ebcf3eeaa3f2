"""Where data sets and models come from: a mirror folder first, then the Hugging Face hub.

A mirror holds ``data/<name>/…`` and ``models/<name>/…``. From the hub only what the lock file
pins is used: ``prefetch`` resolves each repository's commit once and records it there with the
checksum of every file. What was resolved is written down as a *record*: origin, folder,
revision, and size and SHA-256 of every file.

No torch and no hub library at the top: Snakemake imports this module for every run.
"""

import fnmatch
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.checksums import Kind, is_sha256, model_files, sha256_cached, source_files
from ..base.errors import UserError
from ..base.files import digest, read_json, write_json, write_text
from ..base.outputs import (
    DATA_SET,
    FETCHED,
    MARK,
    atomic_folder,
    check_file,
    check_folder,
    replace_folder,
    start_folder,
)
from ..base.progress import Progress
from ..models.loading import weight_files
from .hub import Hub, Listing, RemoteFile, RepoType, Unreachable

if TYPE_CHECKING:
    from .converters import Table

Entry = Mapping[str, Any]

# The hub's own parquet copy of a data set, for those that are stored in another form.
PARQUET_REF = "refs/convert/parquet"

# Where a data set that the hub does not have can be taken from.
ELSEWHERE = {
    "unqover": "data/unqover/datas.jsonl of the GitHub repository spirit-moon-fly/CAL, "
    "to be named datas_rebuilt.jsonl",
}


@dataclass(frozen=True)
class Part:
    """Some files of a hub repository: the first of ``patterns`` that matches any.

    ``rows`` is the number of rows the data set must have, ``first`` how many to take; None:
    whatever there is.
    """

    name: str
    repo: str
    ref: str | None
    patterns: tuple[str, ...]
    rows: int | None = None
    first: int | None = None


def split_ref(repo: str) -> tuple[str, str | None]:
    """Split ``org/name@ref`` into repository and reference (None: the main branch)."""
    name, _, ref = repo.partition("@")
    return name, ref or None


def dataset_parts(name: str, entry: Entry) -> list[Part]:
    """Return the parts of a data set's ``hub`` entry; [] for one that the hub does not have.

    The entry is ``{repo, parts: {part: {files: [pattern, …], repo?, rows?, first?}}}``. Raises
    UserError for any other form.
    """
    hub = entry.get("hub")
    if not hub:
        return []
    if not isinstance(hub, Mapping):
        raise UserError(f"datasets.{name}.hub: expected the keys repo and parts, got {hub!r}")
    parts = []
    known = {"files", "repo", "rows", "first"}
    given = hub.get("parts")
    for part, options in given.items() if isinstance(given, Mapping) else ():
        options = options if isinstance(options, Mapping) else {}
        repo = options.get("repo", hub.get("repo"))
        files, counts = options.get("files"), [options.get(key) for key in ("rows", "first")]
        good = isinstance(repo, str) and isinstance(files, list | tuple) and len(files) > 0
        good = good and set(options) <= known and all(isinstance(one, str) for one in files)
        if not good or not all(one is None or (type(one) is int and one > 0) for one in counts):
            raise UserError(
                f"datasets.{name}.hub.parts.{part}: expected files (a list of patterns), repo "
                "here or above, and rows and first as numbers from 1, of the keys "
                f"{', '.join(sorted(known))}, got {options!r}"
            )
        parts.append(
            Part(
                part,
                *split_ref(repo),
                tuple(files),
                options.get("rows"),
                options.get("first"),
            )
        )
    if not parts:
        raise UserError(f"datasets.{name}.hub: expected the keys repo and parts, got {hub!r}")
    return parts


def mirror_folder(kind: Kind, name: str, entry: Entry, mirror: str | None) -> Path | None:
    """Return the folder of a data set or model in the mirror, or None when it is not there."""
    if not mirror:
        return None
    folder = Path(mirror) / kind / (entry.get("mirror") or name)
    return folder if folder.is_dir() and source_files(kind, folder) else None


def folder_below(root: Path | str, *names: str) -> Path:
    """Return ``root/name/…``; raise UserError where that is not a folder below ``root``.

    Names come from the configuration: one with ``..``, an absolute one or one that leads through
    a link would make a fetch replace a folder somewhere else.
    """
    root = Path(root)
    folder = root.joinpath(*names)
    above, found = root.joinpath(*names[:-1]).resolve(), folder.resolve()
    inside = above.is_relative_to(root.resolve()) and above in found.parents
    if ".." in folder.parts[len(root.parts) :] or not inside:
        raise UserError(
            f"expected a folder below {root} for {'/'.join(names)}, but that leads to {found}; "
            "correct the name (or the key mirror) in the configuration"
        )
    return folder


def select(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that the first pattern with any match matches, sorted."""
    names = sorted(names)
    for pattern in patterns:
        found = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
        if found:
            return found
    return []


def read_lock(path: Path | str) -> dict[str, Any]:
    """Read the lock file; a missing one is empty.

    It maps a repository (with ``@ref`` where it is not the main branch) to ``{"type",
    "revision": 40 hex digits, "files": {path: {"sha256", "bytes"}}}``. Raises UserError for
    anything else.
    """
    if not Path(path).exists():
        return {}
    lock = read_json(path)
    for repo, entry in lock.items() if isinstance(lock, dict) else [("", None)]:
        good = isinstance(entry, dict) and isinstance(entry.get("files"), dict)
        good = good and entry.get("type") in ("model", "dataset")
        good = good and all(map(_is_lock_file, entry["files"].values()))
        if not good or not re.fullmatch(r"[0-9a-f]{40}", str(entry.get("revision"))):
            raise UserError(
                f"expected a commit of 40 hex digits and files for {repo!r} in the lock file "
                f"{path}, got {entry!r}; remove that entry and run prefetch again"
            )
    return lock


def _is_lock_file(entry: Any) -> bool:
    good = isinstance(entry, dict) and is_sha256(entry.get("sha256"))
    return good and type(entry.get("bytes")) is int


def lock_key(repo: str, ref: str | None) -> str:
    """Return the lock's key for a repository at a reference."""
    return f"{repo}@{ref}" if ref else repo


def _locked(lock: Mapping[str, Any], part: Part) -> tuple[str, list[str]] | None:
    """Return the lock's key and files for a part of a data set, or None."""
    for ref in (part.ref,) if part.ref else (None, PARQUET_REF):
        key = lock_key(part.repo, ref)
        names = select(lock[key]["files"], part.patterns) if key in lock else []
        if names:
            return key, names
    return None


def fingerprint(kind: Kind, name: str, entry: Entry, mirror: str | None, lock: str) -> str:
    """Return a short text that changes when what would be fetched changes; "" for nothing.

    It covers the SHA-256 of the mirror's files, whatever their size, or else what the lock pins.
    Cheap enough to be asked for every source of every run: a large file is hashed once.
    """
    folder = mirror_folder(kind, name, entry, mirror)
    if folder:
        return digest({file: sha256_cached(folder / file) for file in source_files(kind, folder)})
    pinned = read_lock(lock)
    if kind == "models":
        found = [entry["hub"]] if entry.get("hub") in pinned else []
    else:
        located = [_locked(pinned, part) for part in dataset_parts(name, entry)]
        found = [item[0] for item in located if item]
    return digest({key: pinned[key] for key in found}) if found else ""


def checksums(folder: Path, names: Sequence[str], label: str) -> dict[str, dict[str, Any]]:
    """Return ``{name: {"sha256", "bytes"}}`` of files in a folder, with progress in MiB."""
    sizes = {name: (folder / name).stat().st_size for name in names}
    progress = Progress(sum(sizes.values()) >> 20, f"checksums of {label} (MiB)")
    found = {}
    for name in names:
        found[name] = {"sha256": sha256_cached(folder / name), "bytes": sizes[name]}
        progress.update(sizes[name] >> 20)
    return found


def _missing(kind: Kind, name: str, entry: Entry, mirror: str | None, hub: str) -> UserError:
    what = "data set" if kind == "data" else "model"
    place = f"{kind}/{entry.get('mirror') or name}"
    looked = f"not in {Path(mirror) / place}" if mirror else "no mirror is set"
    if hub:
        remedy = (
            "run `snakemake prefetch` (or `python -m evenprune prefetch --config FILE`) "
            "with the same configuration where there is a network"
        )
    else:
        source = f" (from {ELSEWHERE[name]})" if name in ELSEWHERE else ""
        remedy = (
            f"put its files{source} into MIRROR/{place} and run again with `--config mirror=MIRROR`"
        )
    hub_says = f"the lock file pins no revision of {hub}" if hub else "it has no hub repository"
    return UserError(f"the {what} {name} was not found: {looked}, and {hub_says}; {remedy}")


def _note_if_moved(hub: Hub, key: str, kind: RepoType, revision: str) -> None:
    """Say in one line that a repository has moved since it was pinned; offline: say nothing."""
    repo, ref = split_ref(key)
    try:
        current = hub.listing(repo, kind, ref or "main").revision
    except UserError:
        return  # the pinned files are there or their download will say what is wrong
    if current != revision:
        print(
            f"note: {key} has moved on the hub to {current[:12]}; this run uses the pinned "
            f"{revision[:12]} (`prefetch --update` pins the new one)",
            file=sys.stderr,
        )


def _verified(
    hub: Hub, lock: Mapping[str, Any], key: str, names: Sequence[str], lock_path: Path | str
) -> list[Path]:
    """Return local copies of pinned files; raise UserError for one the lock does not agree with."""
    repo, pinned = split_ref(key)[0], lock[key]
    paths = [hub.fetch(repo, pinned["type"], pinned["revision"], name) for name in names]
    progress = Progress(sum(pinned["files"][n]["bytes"] for n in names) >> 20, f"{key} (MiB)")
    for name, path in zip(names, paths, strict=True):
        expected = pinned["files"][name]["sha256"]
        found = sha256_cached(path)
        if found != expected:
            raise UserError(
                f"{name} of {key} has the SHA-256 {found[:16]}…, the lock file {lock_path} says "
                f"{expected[:16]}…: remove {path} and run prefetch again, or prefetch --update "
                "if the new file is wanted"
            )
        progress.update(path.stat().st_size >> 20)
    return paths


def resolve_dataset(
    name: str,
    entry: Entry,
    *,
    mirror: str | None,
    lock_path: Path | str,
    cache: Path | str,
    hub: Hub | None = None,
) -> dict[str, Any]:
    """Return the record of a data set: from the mirror, or from the hub at its pinned commit.

    Hub files are converted to the canonical ones in ``cache/<name>``, where only an earlier
    conversion is replaced. Raises UserError when
    the data set is in neither place, when a file does not fit the lock, or when the hub's
    columns are not those expected.
    """
    folder = mirror_folder("data", name, entry, mirror)
    if folder:
        return _mirror_record("data", "dataset", name, entry, folder, str(mirror))
    parts = dataset_parts(name, entry)
    lock = read_lock(lock_path)
    located = {part.name: _locked(lock, part) for part in parts}
    absent = [part.repo for part in parts if located[part.name] is None]
    if absent or not parts:
        raise _missing("data", name, entry, mirror, ", ".join(dict.fromkeys(absent)))
    folder = folder_below(cache, name)
    check_folder(folder, DATA_SET, name="--cache")
    hub = hub or Hub()
    keys = sorted({found[0] for found in located.values() if found})
    for key in keys:
        _note_if_moved(hub, key, "dataset", lock[key]["revision"])
    paths = {
        part: _verified(hub, lock, *found, lock_path) for part, found in located.items() if found
    }
    convert(name, parts, paths, folder)
    return {
        "dataset": name,
        "origin": "hub",
        "folder": str(folder),
        "revision": ", ".join(f"{key}@{lock[key]['revision']}" for key in keys),
        "files": checksums(folder, source_files("data", folder), name),
    }


def resolve_model(
    name: str,
    entry: Entry,
    *,
    mirror: str | None,
    lock_path: Path | str,
    hub: Hub | None = None,
) -> dict[str, Any]:
    """Return the record of a model: from the mirror, or from the hub at its pinned commit.

    Raises UserError when the model is in neither place, when a file does not fit the lock,
    or when the weights are no whole safetensors files.
    """
    folder = mirror_folder("models", name, entry, mirror)
    if folder:
        weight_files(folder)
        return _mirror_record("models", "model", name, entry, folder, str(mirror))
    lock = read_lock(lock_path)
    key = entry.get("hub") or ""
    if key not in lock:
        raise _missing("models", name, entry, mirror, key)
    hub = hub or Hub()
    _note_if_moved(hub, key, "model", lock[key]["revision"])
    names = model_files(lock[key]["files"], entry)
    folder = _verified(hub, lock, key, names, lock_path)[0].parent
    weight_files(folder)
    return {
        "model": name,
        "origin": "hub",
        "folder": str(folder),
        "revision": lock[key]["revision"],
        "files": {file: lock[key]["files"][file] for file in names},
    }


def _mirror_record(
    kind: Kind, word: str, name: str, entry: Entry, folder: Path, mirror: str
) -> dict[str, Any]:
    return {
        word: name,
        # The invented world is written in the layout of a mirror and says what it is.
        "origin": "world" if (Path(mirror) / "world.json").is_file() else "mirror",
        "folder": str(folder),
        "revision": None,
        "files": checksums(folder, source_files(kind, folder, entry), name),
    }


def convert(
    name: str, parts: Sequence[Part], paths: Mapping[str, Sequence[Path]], folder: Path
) -> None:
    """Convert hub files to the canonical ones in ``folder``, replacing an earlier conversion.

    Raises UserError where ``folder`` holds anything else, for a data set without converter, for
    columns that are not those expected and for another number of rows than the configuration
    states.
    """
    from .converters import CONVERTERS, Table, read_table

    if name not in CONVERTERS:
        raise UserError(
            f"datasets.{name}.hub: no converter for this data set (there are some for "
            f"{', '.join(CONVERTERS)}); take it from a mirror"
        )
    counts: dict[str, int] = {}

    def counted(part: Part, table: "Table") -> "Table":
        def rows() -> Iterable[Mapping[str, Any]]:
            counts[part.name] = 0
            for row in table.rows:
                counts[part.name] += 1
                yield row

        return Table(table.name, rows(), table.class_names)

    tables = {
        part.name: counted(
            part, read_table(f"{part.repo} ({part.name})", paths[part.name], part.first)
        )
        for part in parts
    }
    files = CONVERTERS[name](tables)
    for part in parts:
        if part.rows is not None and counts.get(part.name) != part.rows:
            raise UserError(
                f"expected {part.rows} rows in part {part.name} of {part.repo}, got "
                f"{counts.get(part.name)}; pin another revision or correct rows in the catalogue"
            )
    with atomic_folder(folder, DATA_SET) as temporary:
        for file, text in files.items():
            write_text(temporary / file, text)


# Fetching ahead


def pin(
    hub: Hub, lock: Mapping[str, Any], repo: str, ref: str | None, kind: RepoType, update: bool
) -> Listing:
    """Return the listing of a repository at its pinned commit, or at its newest if unpinned.

    Says in one line when the hub has moved. Without a connection the lock's own list serves.
    """
    key = lock_key(repo, ref)
    if key not in lock or update:
        return hub.listing(repo, kind, ref or "main")
    revision = lock[key]["revision"]
    try:
        listing = hub.listing(repo, kind, revision)
    except Unreachable:
        files = lock[key]["files"]
        return Listing(
            revision, {name: RemoteFile(f["bytes"], f["sha256"]) for name, f in files.items()}
        )
    _note_if_moved(hub, key, kind, revision)
    return listing


def _download(
    hub: Hub, repo: str, kind: RepoType, listing: Listing, names: Sequence[str], into: Path | None
) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Download files; return path and checksum of each, checked against what the hub states."""
    total = sum(listing.files[name].bytes or 0 for name in names)
    progress = Progress(total >> 20, f"{repo} (MiB)")
    found = {}
    for name in names:
        path = hub.fetch(repo, kind, listing.revision, name, into)
        remote = listing.files[name]
        checked = {"sha256": sha256_cached(path), "bytes": path.stat().st_size}
        if (remote.sha256 or checked["sha256"]) != checked["sha256"] or (
            remote.bytes is not None and remote.bytes != checked["bytes"]
        ):
            raise UserError(
                f"{name} of {repo} came damaged: expected {remote.bytes} bytes with SHA-256 "
                f"{str(remote.sha256)[:16]}…, got {checked['bytes']} bytes with "
                f"{checked['sha256'][:16]}…; remove {path} and run prefetch again"
            )
        found[name] = (path, checked)
        progress.update((remote.bytes or 0) >> 20)
    return found


def _record_in_lock(
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


def prefetch_dataset(
    name: str,
    entry: Entry,
    *,
    lock_path: Path | str,
    into: Path | None,
    update: bool,
    hub: Hub,
) -> str:
    """Download, convert and pin one data set; return a line that says what was fetched.

    The conversion is done here too, so that unexpected columns show while there is a network.
    """
    parts = dataset_parts(name, entry)
    if not parts:
        raise _missing("data", name, entry, None, "")
    target = folder_below(into, "data", entry.get("mirror") or name) if into else None
    if target:
        check_folder(target, DATA_SET, name="--into")
    lock = read_lock(lock_path)
    listings: dict[str, Listing] = {}
    files: dict[str, dict[str, Any]] = {}
    paths: dict[str, list[Path]] = {}
    for part in parts:
        seen: dict[str, list[str]] = {}
        for ref in (part.ref,) if part.ref else (None, PARQUET_REF):
            key = lock_key(part.repo, ref)
            try:
                if key not in listings:
                    listings[key] = pin(hub, lock, part.repo, ref, "dataset", update)
            except Unreachable:
                raise
            except UserError:
                if ref == PARQUET_REF:
                    continue  # not every repository has a parquet copy
                raise
            names = select(listings[key].files, part.patterns)
            seen[ref or "main"] = sorted(listings[key].files)[:8]
            if names:
                found = _download(hub, part.repo, "dataset", listings[key], names, None)
                files.setdefault(key, {}).update({name: item for name, (_, item) in found.items()})
                paths[part.name] = [path for path, _ in found.values()]
                break
        else:
            raise UserError(
                f"expected files like {' or '.join(part.patterns)} in the hub's data set "
                f"{part.repo}, found {json.dumps(seen)}; correct datasets.{name}.hub.parts."
                f"{part.name}.files, or take the data set from a mirror"
            )
    with tempfile.TemporaryDirectory() as scratch:
        convert(name, parts, paths, target or Path(scratch) / name)
    for key in sorted(files):
        _record_in_lock(lock_path, key, "dataset", listings[key].revision, files[key])
    return ", ".join(f"{key} at {listings[key].revision[:12]}" for key in sorted(files))


def prefetch_model(
    name: str,
    entry: Entry,
    *,
    lock_path: Path | str,
    into: Path | None,
    update: bool,
    hub: Hub,
) -> str:
    """Download and pin one model (safetensors only); return a line that says what was fetched."""
    key = entry.get("hub")
    if not key:
        raise _missing("models", name, entry, None, "")
    target = folder_below(into, "models", entry.get("mirror") or name) if into else None
    staging = target.with_name(f".{target.name}.partial") if target else None
    if target and staging:
        check_folder(target, FETCHED, name="--into")
        start_folder(staging, FETCHED)
    repo, ref = split_ref(key)
    listing = pin(hub, read_lock(lock_path), repo, ref, "model", update)
    names = model_files(listing.files, entry)
    if not any(file.endswith(".safetensors") for file in names):
        raise UserError(
            f"the model {name} has no safetensors weights (model*.safetensors) in {key}, and "
            "pickled weights are not read: name a reference that has them in the configuration "
            f"(hub: {repo}@refs/pr/N) or put a converted copy into MIRROR/models/"
            f"{entry.get('mirror') or name}"
        )
    found = _download(hub, repo, "model", listing, names, staging)
    if staging and target:
        weight_files(staging)
        for rest in staging.iterdir():  # the hub library's notes, files of another revision
            if rest.name not in (*names, MARK):
                shutil.rmtree(rest) if rest.is_dir() else rest.unlink()
        replace_folder(staging, target, FETCHED)
    files = {file: item for file, (_, item) in found.items()}
    _record_in_lock(lock_path, key, "model", listing.revision, files)
    return f"{key} at {listing.revision[:12]}"


def prefetch(
    items: Sequence[tuple[Kind, str, Entry]],
    *,
    mirror: str | None,
    lock_path: Path | str,
    into: Path | None = None,
    update: bool = False,
    hub: Hub | None = None,
) -> None:
    """Fetch every item that the mirror does not have; pin commits and checksums in the lock.

    One line per item says where it is. A failure does not stop the others; at the end one
    UserError lists all of them.
    """
    check_file(lock_path, name="--lock")
    hub = hub or Hub()
    failures = []
    fetch: dict[Kind, Callable[..., str]] = {"data": prefetch_dataset, "models": prefetch_model}
    for number, (kind, name, entry) in enumerate(items, 1):
        start = f"[{number}/{len(items)}] {kind}/{name}:"
        folder = mirror_folder(kind, name, entry, mirror)
        try:
            if folder:
                print(f"{start} in the mirror, {folder}", file=sys.stderr)
                continue
            print(f"{start} fetching", file=sys.stderr)
            said = fetch[kind](name, entry, lock_path=lock_path, into=into, update=update, hub=hub)
            print(f"{start} {said}", file=sys.stderr)
        except UserError as error:
            print(f"{start} failed", file=sys.stderr)
            hint = f" (or take it from {ELSEWHERE[name]})" if name in ELSEWHERE else ""
            failures.append(f"{kind}/{name}: {error}{hint}")
    if failures:
        raise UserError(
            f"{len(failures)} of {len(items)} sources could not be fetched:\n"
            + "\n".join(f"  {line}" for line in failures)
        )
