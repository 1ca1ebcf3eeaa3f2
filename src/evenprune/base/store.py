"""Finished work that other runs and clones take over, under the digest of what decided it.

``STORE/<kind>/<key>/`` holds the files of one finished folder and ``entry.json``, the SHA-256 of
each and of itself. An entry is made under another name and renamed, so that it is there as a
whole or not at all; of two writers the first wins, for both made the same. Files are links to one
copy where the file system allows that, else copies. Every byte is compared with its SHA-256 when
an entry is taken: a damaged one is said to be, removed and made anew. A store that cannot be
written to is read all the same.
"""

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from .checksums import again, compare_files, is_sha256, read_sealed, sealed, sha256_cached
from .errors import UserError
from .files import disk_errors, write_json

ENTRY = "entry.json"


def add_store_argument(parser: argparse.ArgumentParser) -> None:
    """Declare where finished work is kept for others."""
    parser.add_argument(
        "--store", type=Path, metavar="DIR", help="shared folder of finished work; default: none"
    )


class Store:
    """A folder of finished work; without ``root`` nothing is kept and nothing found.

    Raises UserError where ``root`` is no folder.
    """

    def __init__(self, root: Path | None) -> None:
        self.root = root
        if root is not None and root.exists() and not root.is_dir():
            raise UserError(
                f"--store {root} is a file, expected a folder that is there or can be made; "
                "name another place"
            )

    def take(self, kind: str, key: str, folder: Path) -> bool:
        """Put the files of an entry into ``folder``, over those of the same names, in their order.

        Returns whether there was a whole entry; else ``folder`` is as before. Raises UserError
        where it cannot be written to.
        """
        if self.root is None:
            return False
        entry = self.root / kind / key
        if not entry.is_dir():
            return False
        new = folder.with_name(f".{folder.name}.taken")
        with disk_errors(folder):
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
        try:
            files = _listed(entry)
            for name in files:
                _place(entry / name, new / name)
            # Of the files that came, and read again: a link to damaged bytes is as they are.
            compare_files(new, files, entry / ENTRY, again(folder), verify=True)
        except (UserError, OSError) as error:
            shutil.rmtree(new, ignore_errors=True)
            print(f"{entry} is damaged and not used: {error}", file=sys.stderr, flush=True)
            _discard(entry)
            return False
        with disk_errors(folder):
            folder.mkdir(exist_ok=True)
            for name in sorted(files):
                os.replace(new / name, folder / name)
            new.rmdir()
        print(f"taken from {entry}", file=sys.stderr, flush=True)
        return True

    def keep(self, kind: str, key: str, folder: Path, names: Iterable[str]) -> None:
        """Keep the files ``names`` of a finished folder, unless they are kept already.

        What cannot be kept is said; the result itself is finished.
        """
        if self.root is None or (self.root / kind / key).is_dir():
            return
        place = self.root / kind
        try:
            place.mkdir(parents=True, exist_ok=True)
            new = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=place))
            try:
                files = {}
                for name in sorted(names):
                    _place(folder / name, new / name)
                    files[name] = sha256_cached(new / name)
                write_json(new / ENTRY, sealed({"files": files}))
                new.chmod(0o755)  # mkdtemp's are their owner's alone
                with contextlib.suppress(FileExistsError):
                    _rename(new, place / key)
            finally:
                shutil.rmtree(new, ignore_errors=True)
        except (UserError, OSError) as error:
            print(f"not kept in {self.root}: {error}", file=sys.stderr, flush=True)


def _listed(entry: Path) -> dict[str, str]:
    """Return {file: SHA-256} of an entry; UserError for one that is not as it was written."""
    files = read_sealed(entry / ENTRY, "it is made anew").get("files")
    good = isinstance(files, dict) and files and all(map(is_sha256, files.values()))
    if isinstance(files, dict) and good and all(Path(name).name == name for name in files):
        return files
    raise UserError(f"expected names and SHA-256 of files in {entry / ENTRY}; it is made anew")


def _place(source: Path, target: Path) -> None:
    """Link a file, or copy it where links are not possible: another disk, another owner."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _rename(new: Path, entry: Path) -> None:
    """Rename a folder; FileExistsError where there is an entry already."""
    try:
        os.rename(new, entry)
    except OSError as error:
        if entry.is_dir():
            raise FileExistsError(entry) from error
        raise


def _discard(entry: Path) -> None:
    """Remove a damaged entry, as far as this user may."""
    with contextlib.suppress(OSError):
        aside = Path(tempfile.mkdtemp(prefix=".damaged-", dir=entry.parent))
        os.replace(entry, aside)
        shutil.rmtree(aside, ignore_errors=True)
