"""Resolve one data set from mirror or hub and record its files.

The mirror is tried first, then the hub at the commit that the lock file pins. Hub files are
converted to the canonical ones. The record names origin, folder, revision and the SHA-256 of
every file, so that steps behind it rerun when a file has changed.
"""

import argparse

from .source_flags import add_source_arguments, fetch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add_source_arguments(parser, "data set")
    parser.add_argument(
        "--cache", default="results/sources/hub", help="folder for converted hub files"
    )


def run(args: argparse.Namespace) -> None:
    """Write the record; raise UserError when the data set is in neither place."""
    fetch("data", **vars(args))
