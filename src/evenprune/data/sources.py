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
from ..io.checksums import Kind, model_files, sha256_cached, source_files
from ..io.errors import UserError
from ..io.files import digest, write_text
from ..io.marks import DATA_SET
from ..io.outputs import atomic_folder, check_folder
from ..models.loading import weight_files
from .converters import convert
from .lock import fetch_locked, locked, read_lock
from .packages import gguf_folder, package_dataset, package_model, source_facts
from .source_files import Entry, dataset_parts, split_ref

# Mirrors by their folders: one, or several that are tried in order.
Mirrors = str | Sequence[str] | None
GGUF = ".gguf"
# Where a data set that the hub does not have can be taken from.
ELSEWHERE = {
    "unqover": "data/unqover/datas.jsonl of the GitHub repository spirit-moon-fly/CAL, "
    "to be named datas_rebuilt.jsonl",
}


def roots(mirror: Mirrors) -> list[str]:
    """Return the folders of the mirrors, in the order in which they are tried."""
    return [mirror] if isinstance(mirror, str) else list(mirror or ())


def mirror_folder(kind: Kind, name: str, entry: Entry, mirror: Mirrors) -> Path | None:
    """Return the folder of a source in the first mirror that has it, None where none has."""
    for root in roots(mirror):
        folder = Path(root) / kind / (entry.get("mirror") or name)
        if folder.is_dir() and source_files(kind, folder):
            return folder
    return None


def is_gguf(path: Path | str) -> bool:
    """Return whether a model is named by its GGUF file."""
    return Path(path).suffix == GGUF and Path(path).is_file()


def own_source(kind: Kind, name: str, entry: Entry) -> Path | None:
    """Return the user's own file or folder that an entry names, None where it names none.

    Raises UserError where nothing is there, or a model is neither a folder nor a GGUF file.
    """
    if not entry.get("path"):
        return None
    path = Path(entry["path"])
    good = path.is_dir() or is_gguf(path) or (path.is_file() and kind == "data")
    if not good or not source_files(kind, path):
        what = "the folder of a model or a GGUF file" if kind == "models" else "a file or folder"
        found = "a folder without files" if path.is_dir() else "nothing"
        found = "a file" if path.is_file() else found
        raise UserError(
            f"{kind.replace('data', 'datasets')}.{name}.path: expected {what} at {path}, found "
            f"{found} ({path.absolute()}); paths are relative to the working directory"
        )
    return path


def local_source(kind: Kind, name: str, entry: Entry, mirror: Mirrors) -> Path | None:
    """Return where a source lies on this machine, the user's own or a mirror's; None: nowhere.

    Raises UserError for a path of the user's own where nothing is.
    """
    return own_source(kind, name, entry) or mirror_folder(kind, name, entry, mirror)


def unresolved(
    items: Iterable[tuple[Kind, str, Entry]], mirror: Mirrors, lock: str
) -> tuple[list[str], list[str]]:
    """Return what is said of needed sources before a run: errors, then what is still to fetch.

    An error is a path of the user's own where nothing is. To fetch is what no mirror has and the
    lock does not pin; the second list is the messages of the jobs that would fail.
    """
    errors, absent = [], []
    pinned = read_lock(lock)
    for kind, name, entry in items:
        try:
            if local_source(kind, name, entry, mirror):
                continue
            if entry.get("package") or is_pinned(kind, name, entry, pinned):
                continue
            absent.append(str(missing(kind, name, entry, mirror, pinned)))
        except UserError as error:
            errors.append(str(error))
    return errors, absent


def is_pinned(kind: Kind, name: str, entry: Entry, lock: Mapping[str, Any]) -> bool:
    """Return whether the lock file pins all of a source on the hub."""
    if kind == "models":
        return (entry.get("hub") or "") in lock
    parts = dataset_parts(name, entry)
    return bool(parts) and all(locked(lock, part) for part in parts)


def fingerprint(kind: Kind, name: str, entry: Entry, mirror: Mirrors, lock: str) -> str:
    """Return a short text that changes when what would be fetched changes; "" for nothing.

    It covers the SHA-256 of the user's own or the mirror's files, whatever their size, or else what
    the lock pins.
    Cheap enough to be asked for every source of every run: a large file is hashed once.
    """
    folder = local_source(kind, name, entry, mirror)
    if folder:
        names, base = source_files(kind, folder), folder.parent if folder.is_file() else folder
        return digest({file: sha256_cached(base / file) for file in names})
    pinned = read_lock(lock)
    if entry.get("package") and not is_pinned(kind, name, entry, pinned):
        return digest(entry["package"])
    if kind == "models":
        keys = {entry.get("hub") or ""} & pinned.keys()
    else:
        located = [locked(pinned, part) for part in dataset_parts(name, entry)]
        keys = {found[0] for found in located if found}
    return digest({key: pinned[key] for key in sorted(keys)}) if keys else ""


def checksums(folder: Path, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return ``{name: {"sha256", "bytes"}}`` of files in a folder."""
    paths = {name: folder / name for name in names}
    return {
        name: {"sha256": sha256_cached(path), "bytes": path.stat().st_size}
        for name, path in paths.items()
    }


def missing(
    kind: Kind, name: str, entry: Entry, mirror: Mirrors, lock: Mapping[str, Any]
) -> UserError:
    """Return the error for a source that is nowhere: where it was looked for, what helps."""
    hub = entry.get("hub") or ""
    if kind == "data":
        repos = [part.repo for part in dataset_parts(name, entry) if not locked(lock, part)]
        hub = ", ".join(dict.fromkeys(repos))
    what = "data set" if kind == "data" else "model"
    place = f"{kind}/{entry.get('mirror') or name}"
    places = [str(Path(root) / place) for root in roots(mirror)]
    looked = f"not in {' or '.join(places)}" if places else "no mirror is set"
    if hub:
        remedy = (
            "run `snakemake prefetch` (or `evenprune prefetch --configfile FILE`) "
            "with the same configuration where there is a network"
        )
    else:
        source = f" (from {ELSEWHERE[name]})" if name in ELSEWHERE else ""
        remedy = (
            f"put its files{source} into MIRROR/{place} and run again with `--config mirror=MIRROR`"
        )
    if name in PACKAGED and kind == "data":
        has = " or ".join(PACKAGED[name])
        remedy += f", or set split: {has} in its benchmarks, which a Python package has"
    hub_says = f"the lock file pins no revision of {hub}" if hub else "it has no hub repository"
    return UserError(f"the {what} {name} was not found: {looked}, and {hub_says}; {remedy}")


def resolve_dataset(
    name: str, entry: Entry, *, mirror: Mirrors, lock_path: Path | str, cache: Path | str
) -> dict[str, Any]:
    """Return the record of a data set: from the mirror, or from the hub at its pinned commit.

    Hub files are converted to the canonical ones in ``cache/<name>``, where only an earlier
    conversion is replaced. Raises UserError when
    the data set is in neither place, when a file does not fit the lock, or when the hub's
    columns are not those expected.
    """
    lock = read_lock(lock_path)
    here = _at_hand("data", name, entry, mirror, lock)
    if here:
        return here
    parts = dataset_parts(name, entry)
    located = {part.name: found for part in parts if (found := locked(lock, part))}
    if not parts or len(located) < len(parts):
        raise missing("data", name, entry, mirror, lock)
    folder = Path(cache) / name
    check_folder(folder, DATA_SET, name="--cache")
    paths = {}
    for part, (key, names) in located.items():
        fetched = fetch_locked(lock, key, names, lock_path)
        paths[part] = [fetched / file for file in names]
    files = convert(name, parts, paths)
    with atomic_folder(folder, DATA_SET) as temporary:
        for file, text in files.items():
            write_text(temporary / file, text)
    keys = sorted({key for key, _ in located.values()})
    revision = ", ".join(f"{key}@{lock[key]['revision']}" for key in keys)
    return _record("data", name, entry, folder, "hub", revision)


def resolve_model(
    name: str, entry: Entry, *, mirror: Mirrors, lock_path: Path | str
) -> dict[str, Any]:
    """Return the record of a model: from the mirror, or from the hub at its pinned commit.

    Raises UserError when the model is in neither place, when a file does not fit the lock,
    or when the weights are no whole safetensors files.
    """
    lock = read_lock(lock_path)
    here = _at_hand("models", name, entry, mirror, lock)
    if here:
        return here
    key = entry.get("hub") or ""
    names = model_files(lock[key]["files"], entry) if key in lock else []
    if not names:
        raise missing("models", name, entry, mirror, lock)
    folder = fetch_locked(lock, key, names, lock_path)
    weight_files(folder)
    return {
        "model": name,
        "origin": "hub",
        "folder": str(folder),
        "hub": split_ref(key)[0],
        "revision": lock[key]["revision"],
        "files": {file: lock[key]["files"][file] for file in names},
    }


def _at_hand(
    kind: Kind, name: str, entry: Entry, mirror: Mirrors, lock: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the record of a source on this machine or in a package; None for one on the hub."""
    place = local_source(kind, name, entry, mirror)
    if place:
        root = _root(place, mirror)
        # The invented world is written in the layout of a mirror and says what it is.
        origin = "world" if root and (Path(root) / "world.json").is_file() else "mirror"
        origin = "own" if entry.get("path") else origin
        if kind == "models":
            place = gguf_folder(place) if place.is_file() else place
            weight_files(place)
        return _record(kind, name, entry, place, origin, None)
    if not entry.get("package") or is_pinned(kind, name, entry, lock):
        return None
    place = (package_dataset if kind == "data" else package_model)(name, entry)
    return _record(kind, name, entry, place, "package", entry["package"]["name"])


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
