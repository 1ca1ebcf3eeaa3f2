"""Whether a model folder's own Python code may run: never, unless the user said so for it.

``--trust-remote-code`` (``models.<name>.trust_remote_code`` in the configuration) is the only
way; there is no prompt. It counts for the folders named beside it, never for a guard model.
"""

import argparse
import contextlib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ..io.files import sha256_file

FLAG = "trust_remote_code"
_FOLDERS: ContextVar[frozenset[Path]] = ContextVar("trusted folders", default=frozenset())


def add_trust_argument(parser: argparse.ArgumentParser) -> None:
    """Declare ``--trust-remote-code``."""
    parser.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="run the Python code that the model's folder brings; read that code first",
    )


@contextlib.contextmanager
def trusting_folders(folders: Iterable[Path]) -> Iterator[None]:
    """Trust these folders, and no others, within the context."""
    token = _FOLDERS.set(frozenset(folder.resolve() for folder in folders))
    try:
        yield
    finally:
        _FOLDERS.reset(token)


def is_trusted(folder: Path | str) -> bool:
    """Return whether the user allowed the code of a model folder."""
    return Path(folder).resolve() in _FOLDERS.get()


def trust_record() -> dict[str, Any]:
    """Return what a result says about it: nothing, unless code was allowed, else its checksums."""
    files = {
        file.name: sha256_file(file) for f in sorted(_FOLDERS.get()) for file in f.glob("*.py")
    }
    return {FLAG: files} if _FOLDERS.get() else {}
