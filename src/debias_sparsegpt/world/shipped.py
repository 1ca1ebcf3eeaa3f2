"""The world's model as shipped: the weights that ``train-world`` made for seed 0.

Training takes longer than a demonstration should, so its result is part of the package
(``weights/``, a few MB). It belongs to exactly one world: ``training.json`` beside the weights
lists the checksums of the files it was trained and is evaluated on, and those must be the
files of the world at hand.
"""

import argparse
import shutil
from pathlib import Path

from ..errors import UserError
from ..files import atomic_folder, read_json

WEIGHTS = Path(__file__).parent / "weights"


def unpack(world: Path, out: Path, weights: Path = WEIGHTS) -> None:
    """Copy the shipped model to ``out``, or raise UserError if it was trained on another world."""
    recorded = read_json(weights / "training.json")["world"]
    present = read_json(world / "world.json")["files"]
    other = sorted(
        name for name in {*recorded, *present} if recorded.get(name) != present.get(name)
    )
    if other:
        raise UserError(
            f"the shipped model was trained on another world than {world} ({len(other)} files "
            f"differ, first {other[0]}); set world.retrain: true in the configuration to train one"
        )
    with atomic_folder(out) as folder:
        shutil.copytree(weights, folder, dirs_exist_ok=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--world", type=Path, required=True, metavar="DIR", help="world folder")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="model folder")


def run(args: argparse.Namespace) -> None:
    """Copy the shipped model."""
    unpack(args.world, args.out)
    print(f"copied the shipped model of this world to {args.out}")
