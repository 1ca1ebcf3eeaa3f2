"""One model of the hub by its id, without a configuration."""

import sys
from pathlib import Path

from ..models.loading import weight_files
from .hub import Hub
from .lock import lock_key, read_lock
from .parts import split_ref
from .prefetch import download, safetensors_of
from .sources import resolve_model


def hub_model(name: str, lock: Path | str, trust: bool, hub: Hub | None = None) -> tuple[Path, str]:
    """Return the folder of ``org/name`` or ``org/name@ref`` in the hub's cache, and its commit.

    The commit is the one that the lock file pins, else the newest, which is said. ``trust``: the
    model's own code comes too. Raises UserError where it cannot be fetched.
    """
    repo, ref = split_ref(name)
    entry = {"hub": lock_key(repo, ref), "trust_remote_code": trust}
    if entry["hub"] in read_lock(lock):
        record = resolve_model(name, entry, mirror=None, lock_path=lock, hub=hub)
        return Path(record["folder"]), str(record["revision"])
    hub = hub or Hub()
    listing = hub.listing(repo, "model", ref or "main")
    files = safetensors_of(name, entry, listing)
    found = download(hub, repo, "model", listing, files, None)
    folder = found["config.json" if "config.json" in found else files[0]][0].parent
    weight_files(folder)
    print(f"{name}: commit {listing.revision}, which no lock file pins", file=sys.stderr)
    return folder, listing.revision
