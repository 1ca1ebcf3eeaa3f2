"""Where data sets and models come from: a mirror folder, the Hugging Face hub, a Python package.

In this order. A mirror holds ``data/<name>/…`` and ``models/<name>/…``. From the hub only what the
lock file pins is used: ``prefetch`` resolves each repository's commit once and records it there
with the checksum of every file. A package is pinned by the catalogue (``packages.py``). What was
resolved is written down as a *record*: origin, folder, revision, and size and SHA-256 of every
file.

No torch and no hub library at the top: Snakemake imports this module for every run.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config.catalogue import PACKAGED
from ..io.checksums import Kind, sha256_cached, source_checksums, source_files
from ..io.errors import UserError
from ..io.files import digest, write_text
from ..io.marks import DATA_SET
from ..io.outputs import atomic_folder
from ..models.loading import weight_files
from .converters import convert
from .hub import Entry, Lock, dataset_parts, fetch_locked, locked, pinned, read_lock, split_ref
from .packages import GGUF, cache_path, gguf_folder, package_source, source_facts

# Mirrors by their folders: one, or several that are tried in order.
Mirrors = str | Sequence[str] | None
# Where the one data set that the hub does not have can be taken from.
UNQOVER = (
    " (from data/unqover/datas.jsonl of the GitHub repository spirit-moon-fly/CAL, to be named "
    "datas_rebuilt.jsonl)"
)


def roots(mirror: Mirrors) -> list[str]:
    """Return the folders of the mirrors, in the order in which they are tried."""
    return [mirror] if isinstance(mirror, str) else list(mirror or ())


def is_gguf(path: Path | str) -> bool:
    """Return whether a model is named by its GGUF file."""
    return Path(path).suffix == GGUF and Path(path).is_file()


def local_source(kind: Kind, name: str, entry: Entry, mirror: Mirrors) -> Path | None:
    """Return where a source lies on this machine, the user's own or a mirror's; None: nowhere.

    Raises UserError for a path of the user's own where nothing is, or for a model neither a folder
    nor a GGUF file.
    """
    if not entry.get("path"):
        folders = (Path(root) / kind / (entry.get("mirror") or name) for root in roots(mirror))
        return next((one for one in folders if one.is_dir() and source_files(kind, one)), None)
    path = Path(entry["path"])
    good = path.is_dir() or is_gguf(path) or (path.is_file() and kind == "data")
    if good and source_files(kind, path):
        return path
    what = "the folder of a model or a GGUF file" if kind == "models" else "a file or folder"
    found = "a folder without files" if path.is_dir() else "a file" if path.is_file() else "nothing"
    raise UserError(
        f"{kind.replace('data', 'datasets')}.{name}.path: expected {what} at {path}, found "
        f"{found} ({path.absolute()}); paths are relative to the working directory"
    )


def unresolved(
    items: Iterable[tuple[Kind, str, Entry]], mirror: Mirrors, lock_path: str
) -> tuple[list[str], list[str]]:
    """Return what is said of needed sources before a run: errors, then what is still to fetch.

    An error is a path of the user's own where nothing is. To fetch is what no mirror has and the
    lock does not pin; the second list is the messages of the jobs that would fail.
    """
    errors, absent = [], []
    lock = read_lock(lock_path)
    for kind, name, entry in items:
        try:
            here = local_source(kind, name, entry, mirror) or entry.get("package")
            if not here and not pinned(kind, name, entry, lock):
                absent.append(str(missing(kind, name, entry, mirror, lock)))
        except UserError as error:
            errors.append(str(error))
    return errors, absent


def fingerprint(kind: Kind, name: str, entry: Entry, mirror: Mirrors, lock_path: str) -> str:
    """Return a short text that changes when what would be fetched changes; "" for nothing.

    It covers the SHA-256 of the user's own or the mirror's files, whatever their size, or else what
    the lock pins.
    Cheap enough to be asked for every source of every run: a large file is hashed once.
    """
    if place := local_source(kind, name, entry, mirror):
        return digest(source_checksums(kind, place))
    lock = read_lock(lock_path)
    keys = {key for key, _ in pinned(kind, name, entry, lock).values()}
    if keys:
        return digest({key: lock[key] for key in sorted(keys)})
    return digest(entry["package"]) if entry.get("package") else ""


def checksums(folder: Path, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return ``{name: {"sha256", "bytes"}}`` of files in a folder."""
    return {
        name: {"sha256": sha256_cached(folder / name), "bytes": (folder / name).stat().st_size}
        for name in names
    }


def missing(kind: Kind, name: str, entry: Entry, mirror: Mirrors, lock: Lock) -> UserError:
    """Return the error for a source that is nowhere: where it was looked for, what helps."""
    hub, what = entry.get("hub") or "", "model"
    if kind == "data":
        repos = [part.repo for part in dataset_parts(name, entry) if not locked(lock, part)]
        hub, what = ", ".join(dict.fromkeys(repos)), "data set"
    place = f"{kind}/{entry.get('mirror') or name}"
    places = [str(Path(root) / place) for root in roots(mirror)]
    looked = f"not in {' or '.join(places)}" if places else "no mirror is set"
    if hub:
        said = (
            f"the lock file pins no revision of {hub}; run `snakemake prefetch` (or `evenprune "
            "prefetch --configfile FILE`) with the same configuration where there is a network"
        )
    else:
        said = (
            f"it has no hub repository; put its files{UNQOVER if name == 'unqover' else ''} into "
            f"MIRROR/{place} and run again with `--config mirror=MIRROR`"
        )
    if kind == "data" and (has := PACKAGED.get(name)):
        said += f", or set split: {' or '.join(has)} in its benchmarks, which a Python package has"
    return UserError(f"the {what} {name} was not found: {looked}, and {said}")


def resolve_source(
    kind: Kind,
    name: str,
    entry: Entry,
    *,
    mirror: Mirrors,
    lock_path: Path | str,
    cache: Path | str | None = None,
) -> dict[str, Any]:
    """Return the record of a source: from this machine, the hub at its pinned commit, or a package.

    Hub files of a data set are converted to the canonical ones in ``cache/<name>``, where only an
    earlier conversion is replaced. Raises UserError when the source is nowhere, when a file does
    not fit the lock, when columns are not those expected, or weights no whole safetensors files.
    """
    lock = read_lock(lock_path)
    if place := local_source(kind, name, entry, mirror):
        root = _root(place, mirror)
        # The invented world is written in the layout of a mirror and says what it is.
        origin = "world" if root and (Path(root) / "world.json").is_file() else "mirror"
        if kind == "models":
            place = gguf_folder(place) if place.is_file() else place
            weight_files(place)
        return _record(kind, name, entry, place, "own" if entry.get("path") else origin, None)
    located = pinned(kind, name, entry, lock)
    if entry.get("package") and not located:
        place = package_source(kind, name, entry)
        return _record(kind, name, entry, place, "package", entry["package"]["name"])
    if not located:
        raise missing(kind, name, entry, mirror, lock)
    paths = {part: fetch_locked(lock, *one, lock_path) for part, one in located.items()}
    if kind == "models":
        key, names = located[name]
        folder = paths[name][0].parent
        weight_files(folder)
        record = _record(kind, name, entry, folder, "hub", lock[key]["revision"])
        # What else lies there is not pinned, and refused where the record is used.
        files = {one: record["files"][one] for one in names}
        return {**record, "hub": split_ref(key)[0], "files": files}
    folder = Path(cache or cache_path("sources", "hub")) / name
    files = convert(name, dataset_parts(name, entry), paths)
    with atomic_folder(folder, DATA_SET) as temporary:
        for file, text in files.items():
            write_text(temporary / file, text)
    keys = sorted({key for key, _ in located.values()})
    revision = ", ".join(f"{key}@{lock[key]['revision']}" for key in keys)
    return _record("data", name, entry, folder, "hub", revision)


def _root(folder: Path, mirror: Mirrors) -> str | None:
    """Return which of the mirrors a folder lies in, None for none of them."""
    return next((root for root in roots(mirror) if folder.is_relative_to(root)), None)


def _record(
    kind: Kind, name: str, entry: Entry, place: Path, origin: str, revision: str | None
) -> dict[str, Any]:
    """Return the record of a folder, or of a single file; a converted one says its source too."""
    folder = place.parent if place.is_file() else place
    facts = source_facts(folder)
    return {
        {"data": "dataset", "models": "model"}[kind]: name,
        "origin": origin,
        "folder": str(folder),
        **({"file": place.name} if place.is_file() else {}),
        "revision": revision,
        **({"source": facts} if facts else {}),
        "files": checksums(folder, source_files(kind, place, entry)),
    }


def within_mirror(
    record: Mapping[str, Any], mirror: Mirrors, mirror_file: Path | str, out: Path | str
) -> dict[str, Any]:
    """Return a record as it is written to ``out``: with no path of a mirror in it.

    Its ``folder`` is one within its mirror, its ``mirror`` the file that names all mirrors, as seen
    from the record. So a moved mirror changes that file alone. A record of the hub, or of a path
    of the user's own or a package, stays as it is.
    """
    root = _root(Path(record["folder"]), mirror)
    if root is None or record["origin"] in ("hub", "own", "package"):
        return dict(record)
    return {
        **record,
        "folder": os.path.relpath(record["folder"], root),
        "mirror": os.path.relpath(mirror_file, Path(out).parent),
    }
