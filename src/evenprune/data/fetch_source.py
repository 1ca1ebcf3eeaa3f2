"""Resolve one data set or model from mirror, package or hub, and record its files.

The mirror is tried first, then the hub at the commit that the lock file pins, or the package. Hub
files of data sets are converted to the canonical ones; of a model only safetensors are taken. The
record names origin, folder, revision and the SHA-256 of every file, so that steps behind it rerun
when a file has changed.
"""

import argparse
from typing import get_args

from ..io.checksums import Kind, read_mirrors, sealed
from ..io.errors import UserError
from ..io.files import write_json
from ..io.outputs import check_file
from ..io.reading import parse_json
from .hub import LOCK
from .sources import local_source, resolve_source, within_mirror


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    add("--kind", required=True, choices=get_args(Kind))
    add("--name", required=True, help="name of the source in the configuration")
    add("--entry", default="{}", help="its entry there (mirror, hub, package, path), as JSON")
    mirror = parser.add_mutually_exclusive_group()
    mirror.add_argument("--mirror", action="append",
        help="folder with data/<name> and models/<name>, tried first; several: given again, tried "
        "in that order",
    )  # fmt: skip
    mirror.add_argument("--mirror-file",
        help='JSON {"mirror": that folder, or a list}; the record then names the folder within '
        "it, and holds wherever the mirror is moved to",
    )  # fmt: skip
    add("--lock", default=LOCK, help="revisions and checksums of the hub")
    add("--cache", default="results/sources/hub", help="folder for converted hub files")
    add("--out", required=True, help="record to write (JSON)")


def run(args: argparse.Namespace) -> None:
    """Write the record of a source; raise UserError when it is nowhere."""
    entry = parse_json(args.entry, "--entry")
    if not isinstance(entry, dict):
        raise UserError(f"expected --entry to be a JSON object, got {args.entry[:80]!r}")
    source = (args.kind, args.name, entry)
    mirrors = read_mirrors(args.mirror_file) if args.mirror_file else list(args.mirror or ())
    inputs = [args.lock, args.mirror_file, local_source(*source, mirrors)]
    check_file(args.out, inputs, keys=("folder", "files"))
    record = resolve_source(*source, mirror=mirrors, lock_path=args.lock, cache=args.cache)
    if args.mirror_file:
        record = within_mirror(record, mirrors, args.mirror_file, args.out)
    write_json(args.out, sealed(record))
