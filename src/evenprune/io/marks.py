"""The mark of a folder that a command makes as a whole: a hidden file with its kind and its files.

Only what is on that list is ever deleted; ``outputs.py`` says which folders are replaced.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from .errors import few
from .files import write_json

MARK = ".evenprune.json"
# Snakemake puts this into every folder that is the output of a rule.
TIMESTAMP = ".snakemake_timestamp"

# The kinds of folders that are replaced as a whole.
WORLD = "world"
WORLD_MODEL = "model of the world"
CALIBRATION = "calibration"
PRUNED = "pruned model"
EXPORT = "2:4 export"
DATA_SET = "converted data set"
FETCHED = "fetched model"


class Mark(BaseModel):
    """What a command made: its kind, and the files that it wrote."""

    model_config = ConfigDict(strict=True)

    kind: str
    files: list[str]


def mark_folder(folder: Path, kind: str) -> None:
    """Write the mark of ``kind`` into a folder, with the list of the files that are in it."""
    write_json(folder / MARK, {"kind": kind, "files": sorted(_contents(folder))})


def objection(folder: Path, kind: str, keep: Sequence[str] = ()) -> str:
    """Return why a folder must not be replaced by one of ``kind``, or "" where it may."""
    if not folder.is_dir():
        return ""
    found = {file for file in _contents(folder) if Path(file).parts[0] not in keep}
    mark = read_mark(folder)
    if mark is None:
        if not found and not (folder / MARK).exists():
            return ""
        return (
            f"holds files (first {min(found, default=MARK)}) and not the mark of a {kind} that "
            "this program made; name a new folder, or remove this one yourself"
        )
    if mark.kind != kind:
        return f"is a {mark.kind} that this program made, expected a {kind}; name a new folder"
    if added := sorted(found - set(mark.files)):
        return f"is a {kind} to which files were added ({few(added, 1)}); first move them away"
    return ""


def read_mark(folder: Path) -> Mark | None:
    """Return a folder's mark, None without a good one."""
    file = folder / MARK
    try:  # a pipe would never end
        return Mark.model_validate_json(file.read_bytes()) if file.is_file() else None
    except (OSError, ValueError):
        return None


def _contents(folder: Path) -> set[str]:
    """Return everything in a folder that is no folder, as relative paths; links not followed."""

    def refuse(error: OSError) -> None:
        raise error

    found = (
        Path(root, name)
        for root, folders, files in os.walk(folder, onerror=refuse)
        for name in (*files, *(one for one in folders if Path(root, one).is_symlink()))
        if name != TIMESTAMP
    )
    return {str(path.relative_to(folder)) for path in found} - {MARK}


def delete_marked(folder: Path) -> None:
    """Delete what the mark lists, empty folders, and last the mark; keep anything else."""
    mark = read_mark(folder)
    for file in _contents(folder) & set(mark.files if mark else ()):
        (folder / file).unlink()
    for root, _, files in os.walk(folder, topdown=False):
        if TIMESTAMP in files:
            os.unlink(os.path.join(root, TIMESTAMP))
        if root != str(folder):
            with contextlib.suppress(OSError):  # something was added meanwhile
                os.rmdir(root)
    (folder / MARK).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
