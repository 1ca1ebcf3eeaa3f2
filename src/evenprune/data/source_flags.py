"""Flags that the commands about sources share."""

import argparse
from collections.abc import Sequence
from typing import Any

from ..io.checksums import Kind, read_mirrors
from ..io.errors import UserError
from ..io.files import write_json
from ..io.outputs import check_file, check_ours
from ..io.reading import parse_json
from .sources import local_source, resolve_dataset, resolve_model, within_mirror

LOCK = "config/sources.lock.json"


def add_source_arguments(parser: argparse.ArgumentParser, kind: str) -> None:
    """Add the flags of fetch-dataset and fetch-model."""
    parser.add_argument("--name", required=True, help=f"name of the {kind} in the configuration")
    parser.add_argument(
        "--spec",
        default='{"entry":{}}',
        help='JSON {"entry": …} with the entry of the configuration (mirror, hub)',
    )
    mirror = parser.add_mutually_exclusive_group()
    mirror.add_argument(
        "--mirror",
        action="append",
        help="folder with data/<name> and models/<name>, tried first; several: given again, tried "
        "in that order",
    )
    mirror.add_argument(
        "--mirror-file",
        help='JSON {"mirror": that folder, or a list}; the record then names the folder within '
        "it, and holds wherever the mirror is moved to",
    )
    parser.add_argument("--lock", default=LOCK, help="revisions and checksums of the hub")
    parser.add_argument("--out", required=True, help="record to write (JSON)")


def entry_of(spec: str) -> dict[str, Any]:
    """Return the entry of a --spec; raise UserError when it has none."""
    given = parse_json(spec, "--spec")
    entry = given.get("entry") if isinstance(given, dict) else None
    if not isinstance(entry, dict):
        raise UserError(f'expected --spec to be JSON like {{"entry": {{…}}}}, got {spec[:80]!r}')
    return entry


def fetch(
    kind: Kind, name: str, spec: str, out: str, lock: str, mirror: Sequence[str] | None,
    mirror_file: str | None, cache: str = "",
) -> None:  # fmt: skip
    """Write the record of a source; raise UserError when it is nowhere."""
    entry = entry_of(spec)
    mirrors = read_mirrors(mirror_file) if mirror_file else list(mirror or ())
    check_file(out, [lock, mirror_file, local_source(kind, name, entry, mirrors)])
    check_ours(out, ("folder", "files"))
    if kind == "data":
        record = resolve_dataset(name, entry, mirror=mirrors, lock_path=lock, cache=cache)
    else:
        record = resolve_model(name, entry, mirror=mirrors, lock_path=lock)
    if mirror_file:
        record = within_mirror(record, mirrors, mirror_file, out)
    write_json(out, record)
