"""Models that a command line names: as the catalogue does, by a GGUF file, or by their hub
repository, ``org/name`` or ``org/name@revision``.

What the lock file pins is used as it is pinned; anything else is fetched as it is now, and its
commit said, into the hub library's cache.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from ..config.catalogue import is_repository
from ..io.checksums import model_patterns, source_folder
from ..io.errors import UserError
from ..models.loading import weight_files
from ..models.trust import FLAG, trusting_folders
from .hub import LOCK, read_lock, snapshot, split_ref
from .packages import gguf_folder
from .sources import is_gguf, resolve_source


@contextlib.contextmanager
def located(*models: Path | str, trust: bool = False) -> Iterator[list[Path]]:
    """Yield where models are that lie in folders or files, or are named; ``trust`` their code.

    A path that is there, or lies in a folder that is there, stays a path; a GGUF file becomes the
    folder into which it is converted. Their own code may run inside of the context only. Raises
    UserError for a repository that cannot be read, and for a name that nothing has.
    """
    found = [find_model(str(one), LOCK, trust)[0] for one in models]
    with trusting_folders(map(source_folder, found) if trust else ()):
        yield found


def find_model(text: str, lock: Path | str, trust: bool) -> tuple[Path, str | None]:
    """Return where a model is that lies here or is named, and its commit if it is of the hub."""
    from .defaults import catalogue_model, similar_models

    if is_gguf(text):
        return gguf_folder(Path(text)), None
    there = os.path.lexists(text)
    if not there and "/" not in text:
        if found := catalogue_model(text):
            return found, None
        raise UserError(
            f"there is no model {text}: no folder here and no name of the catalogue (one on the "
            f"hub has the form org/name, as openai-community/gpt2){similar_models(text)}"
        )
    if there or os.path.isdir(text.partition("/")[0]) or not is_repository(text):
        return Path(text), None
    try:
        return hub_model(text, lock, trust)
    except UserError as error:
        near = similar_models(text)
        raise UserError(f"there is no folder {text} here, and {error}{near}") from None


def hub_model(key: str, lock: Path | str, trust: bool) -> tuple[Path, str]:
    """Return the folder of ``org/name`` or ``org/name@ref`` in the hub's cache, and its commit.

    The commit is the one that the lock file pins, else the newest, which is said, else, where
    the hub is out of reach, that in the cache. ``trust``: the model's own code comes too. Raises
    UserError where it cannot be had.
    """
    entry = {"hub": key, FLAG: trust}
    if key in read_lock(lock):
        record = resolve_source("models", key, entry, mirror=None, lock_path=lock)
        return Path(record["folder"]), str(record["revision"])
    repo, ref = split_ref(key)
    folder, _ = snapshot(repo, "model", ref or "main", model_patterns(entry))
    weight_files(folder)
    print(
        f"{key} is at commit {folder.name}: {repo}@{folder.name} names the same files at any time",
        file=sys.stderr,
    )
    return folder, folder.name
