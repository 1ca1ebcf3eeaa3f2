"""The result in the making: a work folder that outlives a killed run and is then completed."""

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..io.checksums import read_sealed, sealed
from ..io.errors import UserError
from ..io.files import disk_errors, sha256_file, write_json
from ..io.marks import PRUNED
from ..io.outputs import Input, atomic_folder, check_place, covers, replace_folder

FOLDERS = ("model", "pruned", "state")


class Workspace:
    """Finished shards and their records under ``root/key``.

    ``model/`` becomes the output folder; ``pruned/`` holds shards that are still to be changed;
    ``state/`` one record per finished shard of either, written after the shard itself.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model, self.pruned, self.state = (folder / name for name in FOLDERS)
        self.complete = False  # nothing is missing but its place

    def record(self, made: Path) -> Any | None:
        """Return the record of a finished shard.

        None where one of the two is missing (a run killed while it published has the record alone)
        or is not as it was written.
        """
        with contextlib.suppress(UserError, KeyError):
            record = read_sealed(self.state / f"{made.name}.json", "prune again")
            if made.is_file() and sha256_file(made) == record["tensors"][""]["sha256"]:
                return {key: value for key, value in record.items() if key != "checksum"}
        return None

    def finish(self, made: Path, record: Any) -> None:
        """Write the record of a shard that is complete."""
        write_json(self.state / f"{made.name}.json", sealed(record))

    def publish(self, out: Path, inputs: Sequence[Path] = ()) -> None:
        """Move the finished model folder to ``out``, replacing a pruned model that is there.

        Raises UserError where ``out`` holds, or has come to hold, anything else.
        """
        self.complete = True
        with disk_errors(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            if os.stat(self.model).st_dev == os.stat(out.parent).st_dev:
                replace_folder(self.model, out, PRUNED, inputs)
                return
            with atomic_folder(out, PRUNED, inputs) as new:
                shutil.copytree(self.model, new, dirs_exist_ok=True)


def check_work(root: Path | None, out: Path, inputs: Iterable[Input] = ()) -> None:
    """Raise UserError for a ``--work`` that no unfinished result can be kept in.

    It must be absent or a folder that can be written to, no link, no input folder, and apart
    from ``--out``.
    """
    if root is None:
        check_place(out.parent / f".{out.name}.partial", name="the folder of unfinished results")
        return
    check_place(root, inputs, "--work")
    if covers(root, out) or covers(out, root):
        raise UserError(
            f"--work {root} and --out {out} are one folder, or one lies in the other; "
            "keep them apart"
        )


@contextlib.contextmanager
def workspace(root: Path, key: str, own_root: bool) -> Iterator[Workspace]:
    """Yield the workspace of one run, locked; remove it when the run ends well.

    ``key`` is a digest of everything that decides the result. With ``own_root`` the root belongs to
    one output folder: what other inputs left there is removed, and the root itself at the end.
    After a UserError other than a full disk the same inputs would fail again, so the workspace is
    removed as well, unless only its place was taken meanwhile. Raises UserError when another
    process works on the same result.
    """
    with disk_errors(root):
        folder = root / key
        for name in FOLDERS:
            (folder / name).mkdir(parents=True, exist_ok=True)
        busy = UserError(
            f"another process is pruning to the same output (it holds {folder / 'lock'}); "
            "wait for it, or choose another --out"
        )
        with contextlib.ExitStack() as held:
            try:
                lock = held.enter_context(open(folder / "lock", "w"))
            except FileNotFoundError:  # it has just ended, and taken the folder away
                raise busy from None
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                raise busy from None
            shutil.rmtree(_trash(folder), ignore_errors=True)
            for name in FOLDERS:
                for file in (folder / name).glob(".*"):  # what a killed run was writing
                    file.unlink()
            if own_root:
                _remove_stale(root, key)
            place = Workspace(folder)
            try:
                yield place
            except UserError as error:
                kept = place.complete or isinstance(error.__cause__, OSError)
                if not kept or not any(place.state.iterdir()):
                    _remove(folder, root, own_root)
                raise
            _remove(folder, root, own_root)


def _trash(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.done")


def _remove(folder: Path, root: Path, own_root: bool) -> None:
    # Renamed first: killed half-way, the remains are not taken for a run to be continued.
    os.replace(folder, _trash(folder))
    with contextlib.suppress(FileNotFoundError):  # another run that has begun there removes it too
        shutil.rmtree(_trash(folder))
    if own_root:
        with contextlib.suppress(OSError):  # another run has begun there meanwhile
            root.rmdir()


def _remove_stale(root: Path, key: str) -> None:
    """Remove the remains of runs with other inputs that no live process holds."""
    for folder in root.iterdir():
        if folder.is_symlink() or not re.fullmatch(r"[0-9a-f]{16}(\.done)?", folder.name):
            continue  # none of ours
        if folder.name.endswith(".done"):
            shutil.rmtree(folder, ignore_errors=True)
        if folder.name == key or not (folder / "lock").is_file():
            continue
        with contextlib.suppress(OSError), open(folder / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # none who works in it has it
            shutil.rmtree(folder)
