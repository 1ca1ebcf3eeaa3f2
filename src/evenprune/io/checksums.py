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
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeGuard

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from .errors import UserError
from .files import (
    canonical_json,
    read_json,
    sha256_file,
    user_cache,
    write_json,
    write_text,
)
from .progress import Progress
from .reading import reading

Kind = Literal["data", "models"]

# Files below this are read again each time: that takes no longer than to look them up.
SMALL = 2**20
LARGE = 2**28  # from here on hashing reports its progress
# A file changed so shortly before it was hashed may change again without another time of change.
SETTLED = 2.0
SHA256 = re.compile(r"[0-9a-f]{64}")
# What a model folder needs: no pickles, no second copy of the weights (consolidated*.safetensors).
MODEL_FILES = ("model*.safetensors", "*.json", "tokenizer.*", "*.model", "*.txt", "*.jinja")
CODE_FILES = ("*.py",)


def _signature(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _with_progress(file: Path) -> str:
    progress = Progress(file.stat().st_size >> 20, f"checksum of {file.name} (MiB)")
    state = hashlib.sha256()
    with reading(file), open(file, "rb", buffering=0) as handle:
        while chunk := handle.read(2**22):
            state.update(chunk)
            progress.update(len(chunk) >> 20)
    return state.hexdigest()


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
            found = kept["sha256"]
            if kept == sealed({**state, "sha256": found}) and is_sha256(found):
                return found
    start = time.time()
    found = _with_progress(file) if before[0] >= LARGE else sha256_file(file)
    if _signature(file) == before and start - before[2] / 1e9 >= SETTLED:
        # A place that cannot be written only costs the time of the next hashing.
        with contextlib.suppress(OSError, UserError):
            write_json(entry, sealed({**state, "sha256": found}))
    return found


def is_sha256(value: Any) -> TypeGuard[str]:
    """Return whether a value read from a file is a SHA-256 in 64 hex digits."""
    return isinstance(value, str) and SHA256.fullmatch(value) is not None


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
    writes; one with ``file`` stands for that file. Raises UserError for a record
    without checksums, and for a file that was changed, added or removed since the record was
    written.
    """
    path = Path(path)
    if path.suffix != ".json" or not path.is_file():
        return path
    record = read_json(path)
    if "folder" not in record:
        return path
    if "checksum" in record:
        check_seal(record, path, f"record these files again: run {again(path)}")
    found = _parsed(record, path)
    folder = _recorded_folder(path, found)
    _compare_with_record(path, found, folder)
    return folder / found.file if found.file else folder


def read_mirrors(path: Path | str) -> list[str]:
    """Return the folders that a file ``{"mirror": folder, list of folders or null}`` names.

    Raises UserError for a file of another form, or none.
    """
    found = read_json(path).get("mirror", 0)
    folders: Any = [] if found is None else found if isinstance(found, list) else [found]
    if not all(isinstance(one, str) and one for one in folders):
        raise UserError(
            f'expected {{"mirror": the path of a folder, a list of them, or null}} in {path}, got '
            f"another form; run {again(path)}"
        )
    return folders


def _recorded_folder(path: Path, record: "SourceRecord") -> Path:
    """Return the folder of a record; one with ``mirror`` names it within that file's mirrors."""
    if record.mirror is None:
        return Path(record.folder)
    file = path.parent / record.mirror
    mirrors = read_mirrors(file)
    if not mirrors:
        raise UserError(
            f"{path} lies in a mirror, but {file} names none; set mirror in the configuration, "
            f"or run {again(path)}"
        )
    places = [Path(mirror) / record.folder for mirror in mirrors]
    return next((place for place in places if place.is_dir()), places[0])


def recorded_checksums(record: Mapping[str, Any], path: Path | str) -> dict[str, str]:
    """Return ``{file: SHA-256}`` of a record; UserError for one that has not its form."""
    return {name: file.sha256 for name, file in _parsed(record, path).files.items()}


Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class RecordedFile(BaseModel):
    """A file of a source."""

    sha256: Sha256


class SourceRecord(BaseModel):
    """What fetch-source writes, as far as it is read here."""

    model_config = ConfigDict(strict=True)

    folder: Annotated[str, StringConstraints(min_length=1)]
    files: dict[str, RecordedFile]
    mirror: str | None = None
    file: str | None = None
    origin: str | None = None
    dataset: str | None = None
    model: str | None = None


def _parsed(record: Mapping[str, Any], path: Path | str) -> SourceRecord:
    try:
        return SourceRecord.model_validate(record)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise UserError(
            f"expected a folder and the SHA-256 of every file in the record {path}, got another "
            f"form ({where}); run {again(path)}"
        ) from None


def _compare_with_record(path: Path, record: SourceRecord, folder: Path) -> None:
    recorded = {name: file.sha256 for name, file in record.files.items()}
    world = folder.parent.parent / "world.json"
    if record.origin == "world":
        # Recording a changed world again would take what is wrong for what is right.
        remedy = f"make the world again: run {again(world)}"
    else:
        remedy = f"put the recorded files back, or record these: run {again(path)}"
    compare_files(folder, recorded, path, remedy)
    if record.file or not (record.dataset or record.model):
        return
    added = set(source_files("data" if record.dataset else "models", folder)) - set(recorded)
    if added:
        raise UserError(
            f"{folder / min(added)} was added since {path} was written; remove it, or {remedy}"
        )


def source_name(path: Path | str) -> str:
    """Return the name of a model or data set given as ``source_folder`` takes it.

    A record's own name, else the folder's.
    """
    path = Path(path)
    return path.stem if path.suffix == ".json" and path.is_file() else path.resolve().name


def check_calibration_file(path: Path) -> str:
    """Return the SHA-256 of a calibration file that is the one its manifest describes.

    The manifest is the one beside it; a file without one is taken as it is. Raises UserError for
    a file that was changed since ``build-calibration`` wrote it.
    """
    manifest = path.parent / "manifest.json"
    remedy = f"put it back, or build the calibration again: run {again(manifest)}"
    content = read_sealed(manifest, remedy, foreign=True) if manifest.is_file() else {}
    files = content.get("files")
    recorded = files.get(path.name) if isinstance(files, dict) else None
    if is_sha256(recorded):
        compare_files(path.parent, {path.name: recorded}, manifest, remedy)
    return sha256_cached(path)


# Files that say themselves what they held when they were written


def _content_sha256(content: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return hashlib.sha256(canonical_json(rest).encode()).hexdigest()


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a JSON file with ``checksum``, the SHA-256 of all the rest of it."""
    return {**content, "checksum": _content_sha256(content)}


def check_seal(content: Any, path: Path | str, remedy: str) -> None:
    """Raise UserError for content that is not as ``sealed`` left it."""
    try:
        whole = content["checksum"] == _content_sha256(content)
    except (KeyError, TypeError, ValueError, AttributeError):
        whole = False
    if not whole:
        raise UserError(
            f"{path} has changed since it was written: the checksum in it does not fit; {remedy}"
        )


def read_sealed(path: Path | str, remedy: str, foreign: bool = False) -> dict[str, Any]:
    """Return the content of a JSON file that is as it was written; UserError for any other.

    One that may be ``foreign`` is taken without a checksum too.
    """
    content: dict[str, Any] = read_json(path)
    if not foreign or "checksum" in content:
        check_seal(content, path, remedy)
    return content


def _sum_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def write_sum(path: Path) -> None:
    """Write the SHA-256 of a file beside it, as ``sha256sum`` does."""
    write_text(_sum_file(path), f"{sha256_cached(path)}  {path.name}\n")


def check_sum(path: Path, remedy: str) -> None:
    """Raise UserError where a file is not the one whose SHA-256 is beside it; none is no error."""
    file = _sum_file(path)
    if not file.is_file() or not path.is_file():
        return
    recorded = file.read_text(encoding="utf-8", errors="replace").partition(" ")[0]
    compare_files(path.parent, {path.name: recorded}, file, remedy)
