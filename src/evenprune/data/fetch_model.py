"""Resolve one model from mirror or hub and record its files.

The mirror is tried first, then the hub at the commit that the lock file pins (safetensors
only). The record names origin, folder, revision and the SHA-256 of every file.
"""

import argparse

from .source_flags import add_source_arguments, fetch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add_source_arguments(parser, "model")


def run(args: argparse.Namespace) -> None:
    """Write the record; raise UserError when the model is in neither place."""
    fetch("models", **vars(args))
