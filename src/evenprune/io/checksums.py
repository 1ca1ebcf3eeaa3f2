"""SHA-256 of files, computed once, and the comparison of files with what was recorded of them.

A digest is kept in the user's cache (``user_cache``) under the file's path, and holds while size,
times of change and inode are those it was computed for. Where that folder cannot be written nothing
is kept. With EVENPRUNE_VERIFY=1, or ``verify``, every file is read again.

No torch and no hub library: Snakemake imports this module for every run.
"""

import contextlib
import fnmatch
import hashlib
import json
import os
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from .errors import UserError
from .files import canonical_json, read_json, sha256_file, user_cache, write_json, write_text
from .progress import Progress
from .reading import reading

Kind = Literal["data", "models"]

# Files below this are read again each time: that takes no longer than to look them up.
SMALL = 2**20
LARGE = 2**28  # from here on hashing reports its progress
# A file changed so shortly before it was hashed may change again without another time of change.
SETTLED = 2.0
# What a model folder needs: no pickles, no second copy of the weights (consolidated*.safetensors).
MODEL_FILES = ("model*.safetensors", "*.json", "tokenizer.*", "*.model", "*.txt", "*.jinja")
CODE_FILES = ("*.py",)


def _signature(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def sha256_cached(path: Path | str, verify: bool = False) -> str:
    """Return the SHA-256 of a file as 64 hex digits, from the cache where the file is unchanged.

    ``verify`` reads it in any case. Raises UserError for a file that may not be read.
    """
    file, root = Path(path), user_cache()
    with reading(path):
        before = _signature(file)
        state = {"path": str(file.resolve()), "signature": before}
    if before[0] < SMALL or root is None:
        return sha256_file(file)
    name = hashlib.sha256(os.fsencode(str(state["path"]))).hexdigest()[:32]
    entry = root / f"sha256/{name}.json"
    if not verify and os.environ.get("EVENPRUNE_VERIFY", "0") in ("", "0"):
        with contextlib.suppress(OSError, ValueError, RecursionError, TypeError, KeyError):
            kept: Any = json.loads(entry.read_text(encoding="utf-8"))
            if kept == sealed({**state, "sha256": kept["sha256"]}):
                return str(kept["sha256"])
    start = time.time()
    found = _with_progress(file) if before[0] >= LARGE else sha256_file(file)
    if _signature(file) == before and start - before[2] / 1e9 >= SETTLED:
        # A place that cannot be written only costs the time of the next hashing.
        with contextlib.suppress(OSError, UserError):
            write_json(entry, sealed({**state, "sha256": found}))
    return found


def _with_progress(file: Path) -> str:
    progress = Progress(file.stat().st_size >> 20, f"checksum of {file.name} (MiB)")
    state = hashlib.sha256()
    with reading(file), open(file, "rb", buffering=0) as handle:
        while chunk := handle.read(2**22):
            state.update(chunk)
            progress.update(len(chunk) >> 20)
    return state.hexdigest()


# Files that belong to a source


def source_files(
    kind: Kind, folder: Path, entry: Mapping[str, Any] = MappingProxyType({})
) -> list[str]:
    """Return the files of a folder that belong to the source, as sorted relative paths.

    All visible files of a data set, or the single file that a source is; of a model those that
    loading it reads.
    """
    if folder.is_file():
        return [folder.name]
    names = sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    )
    return names if kind == "data" else model_files(names, entry)


def source_checksums(kind: Kind, place: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a source, a folder or a file, by its name."""
    folder = place.parent if place.is_file() else place
    return {name: sha256_cached(folder / name) for name in source_files(kind, place)}


def matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """Return the names that any of the patterns matches, sorted."""
    patterns = list(patterns)
    return sorted(n for n in names if any(fnmatch.fnmatchcase(n, one) for one in patterns))


def model_patterns(entry: Mapping[str, Any] = MappingProxyType({})) -> tuple[str, ...]:
    """Return the patterns of the files that loading a model reads.

    Code only where the model's entry of the configuration says that it is trusted.
    """
    return (*MODEL_FILES, *(CODE_FILES if entry.get("trust_remote_code") else ()))


def model_files(names: Iterable[str], entry: Mapping[str, Any] = MappingProxyType({})) -> list[str]:
    """Return those of a folder's files that loading the model reads, sorted."""
    top = (name for name in names if "/" not in name and not name.startswith("."))
    return matching(top, model_patterns(entry))


# Comparison with what was recorded


def again(target: Path | str) -> str:
    """Return the command that makes a file of a run again, as it is said in messages."""
    return f"`snakemake --cores all -f {target}` with this run's configuration"


def compare_files(
    folder: Path,
    recorded: Mapping[str, str],
    said_by: Path | str,
    remedy: str,
    verify: bool = False,
) -> None:
    """Raise UserError for the first file of a folder that is missing or has another SHA-256."""
    for name in sorted(recorded):
        file = folder / name
        if not file.is_file():
            raise UserError(f"{said_by} lists {file}, but there is no such file; {remedy}")
        found = sha256_cached(file, verify)
        if found != recorded[name]:
            raise UserError(
                f"{file} has changed since {said_by} was written: expected the SHA-256 "
                f"{recorded[name][:16]}…, found {found[:16]}…; {remedy}"
            )


def source_folder(path: Path | str) -> Path:
    """Return the folder that ``path`` stands for, its files being those of the record.

    ``path`` is a folder, or the record (JSON with the key ``folder``) that fetch-source
    writes; one with ``file`` stands for that file. Raises UserError for a record that is not as it
    was written, and for a file that was changed, added or removed since.
    """
    path = Path(path)
    record = source_record(path)
    if not record:
        return path
    folder = _recorded_folder(path, record)
    # Recording a changed world again would take what is wrong for what is right.
    world = folder.parent.parent / "world.json"
    remedy = f"put the recorded files back, or record these: run {again(path)}"
    if record.get("origin") == "world":
        remedy = f"make the world again: run {again(world)}"
    recorded = {name: file["sha256"] for name, file in record["files"].items()}
    compare_files(folder, recorded, path, remedy)
    if "file" in record:
        return folder / str(record["file"])
    kind: Kind = "models" if "model" in record else "data"
    if added := set(source_files(kind, folder)) - set(recorded):
        raise UserError(
            f"{folder / min(added)} was added since {path} was written; remove it, or {remedy}"
        )
    return folder


def source_record(path: Path | str) -> dict[str, Any]:
    """Return what fetch-source wrote of a source; {} for a path that is no record."""
    if Path(path).suffix != ".json" or not Path(path).is_file():
        return {}
    return read_sealed(path, f"record these files again: run {again(path)}", {"folder"})


def read_mirrors(path: Path | str) -> list[str]:
    """Return the folders that a file ``{"mirror": folder, list of folders or null}`` names.

    Raises UserError for a file of another form, or none.
    """
    found = read_json(path).get("mirror", 0)
    folders: Any = [] if found is None else found if isinstance(found, list) else [found]
    if not all(isinstance(one, str) and one for one in folders):
        raise UserError(
            f"expected the path of a folder, a list of them, or null as mirror in {path}; "
            f"run {again(path)}"
        )
    return folders


def _recorded_folder(path: Path, record: Mapping[str, Any]) -> Path:
    """Return the folder of a record; one with ``mirror`` names it within that file's mirrors."""
    if "mirror" not in record:
        return Path(record["folder"])
    file = path.parent / record["mirror"]
    places = [Path(mirror) / record["folder"] for mirror in read_mirrors(file)]
    if not places:
        raise UserError(
            f"{path} lies in a mirror, but {file} names none; set mirror in the configuration, "
            f"or run {again(path)}"
        )
    return next((place for place in places if place.is_dir()), places[0])


def source_name(path: Path | str) -> str:
    """Return the name of a model or data set given as ``source_folder`` takes it.

    A record's own name, else the folder's.
    """
    path = Path(path)
    return path.stem if path.suffix == ".json" and path.is_file() else path.resolve().name


def check_calibration_file(path: Path) -> str:
    """Return the SHA-256 of a calibration file that is the one its manifest describes.

    The manifest is the one beside it; a file without one of ours is taken as it is. Raises
    UserError for a file that was changed since ``build-calibration`` wrote it.
    """
    manifest = path.parent / "manifest.json"
    remedy = f"put it back, or build the calibration again: run {again(manifest)}"
    made = read_sealed(manifest, remedy, {"checksum"}) if manifest.is_file() else {}
    files = {name: sha for name, sha in made.get("files", {}).items() if name == path.name}
    compare_files(path.parent, files, manifest, remedy)
    return sha256_cached(path)


# Files that say themselves what they held when they were written


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a JSON file with ``checksum``, the SHA-256 of all the rest of it."""
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return {**rest, "checksum": hashlib.sha256(canonical_json(rest).encode()).hexdigest()}


def read_sealed(path: Path | str, remedy: str, ours: Collection[str] = ()) -> dict[str, Any]:
    """Return the content of a JSON file that is as it was written; UserError for any other.

    With ``ours``, {} for a file that has none of these keys: it is another program's.
    """
    content: dict[str, Any] = read_json(path)
    if ours and content.keys().isdisjoint(ours):
        return {}
    if content != sealed(content):
        raise UserError(
            f"{path} has changed since it was written: the checksum in it does not fit; {remedy}"
        )
    return content


def write_sum(path: Path) -> None:
    """Write the SHA-256 of a file beside it, as ``sha256sum`` does."""
    write_text(f"{path}.sha256", f"{sha256_cached(path)}  {path.name}\n")


def check_sum(path: Path, remedy: str) -> None:
    """Raise UserError where a file is not the one whose SHA-256 is beside it; none is no error."""
    file = Path(f"{path}.sha256")
    if file.is_file() and path.is_file():
        recorded = file.read_text(encoding="utf-8", errors="replace").partition(" ")[0]
        compare_files(path.parent, {path.name: recorded}, file, remedy)
