"""Prune a checkpoint again that was deleted after its last use; the words are those of `prune`.

Does nothing where it is there. Several jobs may ask at a time: one prunes, the others wait. Whether
it is the same checkpoint is checked by whatever reads it, against check.json beside it.
"""

import argparse
import sys

from ..base.files import half_written
from . import prune


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``restore``."""
    prune.add_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Prune unless the folder is there."""
    # A lock of its own: that of the folder around it is taken by what publishes the checkpoint.
    with half_written(args.out.with_name(f"{args.out.name}.restored")):
        if not (args.out / "manifest.json").is_file():
            print(f"{args.out} was deleted after its last use: pruned again", file=sys.stderr)
            prune.run(args)
