"""Resolve one model from mirror or hub and record its files.

The mirror is tried first, then the hub at the commit that the lock file pins (safetensors
only). The record names origin, folder, revision and the SHA-256 of every file.
"""

import argparse

from ..base.files import write_json
from ..base.outputs import check_file, check_ours
from .source_flags import add_source_arguments, entry_of
from .sources import mirror_folder, resolve_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add_source_arguments(parser, "model")


def run(args: argparse.Namespace) -> None:
    """Write the record; raise UserError when the model is in neither place."""
    entry = entry_of(args.spec)
    check_file(args.out, [args.lock, mirror_folder("models", args.name, entry, args.mirror)])
    check_ours(args.out, ("folder", "files"))
    record = resolve_model(args.name, entry, mirror=args.mirror, lock_path=args.lock)
    write_json(args.out, record)
