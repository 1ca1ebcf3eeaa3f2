"""Prune a checkpoint again that was deleted after its last use; the words are those of `prune`.

Does nothing where it is there. Several jobs may ask at a time: one prunes, the others wait. Whether
it is the same checkpoint is checked by whatever reads it, against check.json beside it.
"""

import argparse
import fcntl
import os
import sys

from . import prune


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``restore``."""
    prune.add_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Prune unless the folder is there."""
    handle = os.open(args.out.parent, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not (args.out / "manifest.json").is_file():
            print(f"{args.out} was deleted after its last use: pruned again", file=sys.stderr)
            prune.run(args)
    finally:
        os.close(handle)
