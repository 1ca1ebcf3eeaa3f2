"""Resolve one model from mirror or hub and record its files.

The mirror is tried first, then the hub at the commit that the lock file pins (safetensors
only). The record names origin, folder, revision and the SHA-256 of every file.
"""

import argparse

from ..base.files import write_json
from ..base.outputs import check_file, check_ours
from .source_flags import add_source_arguments, entry_of, mirrors_of
from .sources import local_source, resolve_model, within_mirror


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add_source_arguments(parser, "model")


def run(args: argparse.Namespace) -> None:
    """Write the record; raise UserError when the model is in neither place."""
    entry, mirrors = entry_of(args.spec), mirrors_of(args)
    inputs = [args.lock, args.mirror_file, local_source("models", args.name, entry, mirrors)]
    check_file(args.out, inputs)
    check_ours(args.out, ("folder", "files"))
    record = resolve_model(args.name, entry, mirror=mirrors, lock_path=args.lock)
    if args.mirror_file:
        record = within_mirror(record, mirrors, args.mirror_file, args.out)
    write_json(args.out, record)
