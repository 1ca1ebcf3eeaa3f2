"""Where results go: what a command may write over, looked at before any work.

A folder that a command replaces as a whole carries a mark, a hidden file that names its kind and
lists its files. Only a folder with the mark of the same kind and without further files is
replaced, and only the files on the list are deleted. A file given as ``--out`` is written over,
as usual, but never one of the command's inputs.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .errors import UserError
from .files import PART, disk_errors, half_written
from .marks import WORLD_MODEL, delete_marked, mark_folder, objection

Input = Path | str | None


# What may be written


def check_folder(
    path: Path, kind: str, inputs: Iterable[Input] = (), keep: Sequence[str] = ()
) -> None:
    """Raise UserError unless the folder ``path`` may be made or replaced by one of ``kind``.

    It must be absent, empty or carry our mark of that kind with no file beside those listed; no
    link; neither a mount point nor the working or home directory nor above one; neither equal to,
    above nor below one of ``inputs``; and writable. ``keep`` names entries of its top level that
    replacing leaves alone.
    """
    with _looking(path):
        home = Path(os.path.expanduser("~"))  # stays `~` where there is none
        for what, place in (("working directory", Path.cwd()), ("home directory", home)):
            if covers(path, place):
                raise UserError(f"--out {path} would replace the {what} {place}; name another")
        _refuse_inputs(path, inputs, within=kind != WORLD_MODEL)  # which lies in its world
        if path.is_dir() and os.path.ismount(path):
            raise UserError(f"--out {path} is a mount point; name a folder in it")
        if reason := objection(path, kind, keep):
            raise UserError(f"--out {path} {reason}")
        aside = _aside(path)
        if os.path.lexists(aside) and (aside.is_symlink() or not aside.is_dir()):
            raise UserError(f"{aside}, where {path} would be moved aside, is no folder; remove it")
        if reason := objection(aside, kind, keep):
            raise UserError(f"{aside}, where {path} would be moved aside, {reason}")
        _check_writable(path / "file")
        _check_writable(path)


def check_place(path: Path, inputs: Iterable[Input] = (), name: str = "--out") -> None:
    """Raise UserError unless files may be written into the folder ``path``, which is kept.

    It must be absent or a folder, no link, none of the folders among ``inputs`` nor below one,
    and writable.
    """
    with _looking(path, name):
        _refuse_inputs(path, inputs, name, over=False)
        _check_writable(path / "file", name)


def check_file(
    path: Path | str, inputs: Iterable[Input] = (), name: str = "--out", keys: Sequence[str] = ()
) -> None:
    """Raise UserError unless the file ``path`` may be written.

    It must be absent or an ordinary file, no link, none of ``inputs`` nor below one of the
    folders among them, and its folder writable. One that is there must be ours where ``keys`` are
    given: JSON has these, of JSON lines the first line, CSV these columns. JSON that does not parse
    passes, as it may be a damaged one of ours.
    """
    path = Path(path)
    with _looking(path, name, folder=False):
        _refuse_inputs(path, inputs, name)
        _check_writable(path, name)
    if keys and not _is_ours(path, keys):
        raise UserError(f"{name}: this program did not make {path}; move it, or name another place")


def _is_ours(path: Path, keys: Sequence[str]) -> bool:
    try:
        with open(path, "rb") as file:
            text = file.read() if path.suffix == ".json" else file.readline(100_000)
        if path.suffix == ".csv":
            return not text or text.rstrip(b"\r\n") == ",".join(keys).encode()
        content = json.loads(text)
        return isinstance(content, dict) and set(keys) <= set(content)
    except (OSError, ValueError, RecursionError):
        return True


def covers(outer: Path, inner: Path) -> bool:
    """Return whether ``inner`` is ``outer`` or lies below it, whatever links lead there."""
    forms = (Path(os.path.abspath(inner)), inner.resolve())
    root, there = outer.resolve(), outer.exists()
    return any(
        place == root or (there and place.exists() and place.samefile(outer))
        for form in forms
        for place in (form, *form.parents)
    )


@contextlib.contextmanager
def _looking(path: Path, name: str = "--out", folder: bool = True) -> Iterator[None]:
    """Refuse a link, and a file for a folder or the reverse, before the looks at ``path`` inside.

    What the system says about an impossible path becomes one UserError.
    """
    try:
        if path.is_symlink():
            raise UserError(
                f"{name} {path} is a link; name a new place, or where it leads: {os.readlink(path)}"
            )
        found = "a folder" if path.is_dir() else "a file" if path.is_file() else "no ordinary file"
        expected = "a folder" if folder else "a file"
        if path.exists() and found != expected:
            raise UserError(f"{name} {path} is {found}, expected {expected}; choose another name")
        yield
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{name} {path} cannot be written: {str(reason).lower()}; choose another place"
        ) from error


def _refuse_inputs(
    path: Path, inputs: Iterable[Input], name: str = "--out", over: bool = True, within: bool = True
) -> None:
    """Refuse to write ``over`` an input, or what holds one, and ``within`` an input folder."""
    for given in (Path(one) for one in inputs if one):
        if over and covers(path, given):
            raise UserError(f"{name} {path} is the input {given} or holds it; choose another place")
        if within and given.is_dir() and covers(given, path):
            raise UserError(
                f"{name} {path} would write into the input folder {given}; choose another place"
            )


def _check_writable(path: Path, name: str = "--out") -> None:
    """Raise UserError unless something can be made beside ``path``."""
    place = next((one for one in path.parents if os.path.lexists(one)), path.parent)
    if not place.is_dir():
        raise UserError(f"{name} cannot be made: {place} is no folder; choose another place")
    # The name in the making is longer, see ``half_written``.
    if len(os.fsencode(path.name)) > os.pathconf(place, "PC_NAME_MAX") - len(PART) - 1:
        raise UserError(f"{name}: the name {path.name} is too long; choose a shorter one")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UserError(f"{name} cannot be made: {place} is write-protected; choose another place")


# Folders that are replaced as a whole


@contextlib.contextmanager
def atomic_folder(
    path: Path, kind: str, inputs: Iterable[Input] = (), keep: Sequence[str] = ()
) -> Iterator[Path]:
    """Yield an empty temporary folder beside ``path`` that replaces ``path`` on success.

    Raises UserError where ``check_folder`` does, before and after.
    """
    inputs = list(inputs)
    check_folder(path, kind, inputs, keep)
    with disk_errors(path), half_written(path, folder=True) as temporary:
        yield temporary
        replace_folder(temporary, path, kind, inputs, keep)


def replace_folder(
    new: Path, path: Path, kind: str, inputs: Iterable[Input] = (), keep: Sequence[str] = ()
) -> None:
    """Mark the folder ``new`` as one of ``kind`` and put it in the place of ``path``.

    What is there is looked at again, moved aside, and deleted when the new folder is in place;
    the entries ``keep`` move over. A kill leaves the old folder at ``path`` or beside it, as
    ``.NAME.replaced``, from where the next call takes it up. Raises UserError as
    ``check_folder`` does.
    """
    mark_folder(new, kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = _aside(path)
    with _locked(path.parent):
        check_folder(path, kind, inputs, keep)
        _settle(path, aside, keep)
        try:
            if path.is_dir() and any(path.iterdir()):
                os.rename(path, aside)
            # What was added since the last look is not lost either.
            if reason := objection(aside, kind, keep):
                raise UserError(f"--out {path} {reason}")
            os.rename(new, path)
        except BaseException:
            if aside.is_dir() and not path.exists():
                os.rename(aside, path)
            raise
        _settle(path, aside, keep)


def _aside(path: Path) -> Path:
    """Return where the old folder lies while the new one is put in place."""
    return path.with_name(f".{path.name}.replaced")


def _settle(path: Path, aside: Path, keep: Sequence[str]) -> None:
    """Finish a replacement: put back what lies aside where ``path`` is gone, else delete it."""
    if not os.path.lexists(aside):
        return
    if not path.exists():
        os.rename(aside, path)
        return
    for name in (name for name in keep if os.path.lexists(aside / name)):
        if os.path.lexists(path / name):
            raise UserError(f"{name} is in {path} and, from a killed run, in {aside}; remove one")
        os.rename(aside / name, path / name)
    delete_marked(aside)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, so that two replacements in it take turns."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no such lock
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
