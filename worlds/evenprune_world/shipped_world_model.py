"""The world's model as shipped: what ``train-world`` made of the world with seed 0.

``training.json`` beside its weights is its record; the training text that it lists must be
that of the world at hand.
"""

import argparse
import shutil
from pathlib import Path
from typing import Any

from evenprune.io.errors import UserError
from evenprune.io.files import read_json
from evenprune.io.marks import WORLD_MODEL
from evenprune.io.outputs import atomic_folder, check_folder
from evenprune.io.reading import expected_form

# Part of this module's code, see codedigest.py.
DATA_FILES = ("weights",)
WEIGHTS = Path(__file__).parent / "weights"
Checksums = dict[str, dict[str, Any]]


def world_checksums(world: Path) -> Checksums:
    """Return what ``world.json`` says of a world's files; UserError where it says nothing."""
    path = world / "world.json"
    with expected_form("a world", path, "make it again with generate-world"):
        return {name: dict(entry) for name, entry in read_json(path)["files"].items()}


def training_text(files: Checksums) -> Checksums:
    """Return those of a world's files that training reads; benchmarks are none of them."""
    return {name: entry for name, entry in files.items() if name.startswith("train/")}


def unpack(world: Path, out: Path, weights: Path = WEIGHTS) -> None:
    """Copy the shipped model in ``weights`` to ``out``.

    Raises UserError if it was trained on other text than this world's, and where ``out`` holds
    anything but a model of the world.
    """
    check_folder(out, WORLD_MODEL, [world, weights])
    recorded = training_text(read_json(weights / "training.json")["world"])
    present = training_text(world_checksums(world))
    other = sorted(one for one in {*recorded, *present} if recorded.get(one) != present.get(one))
    if other:
        raise UserError(
            f"the shipped model belongs to another world than {world} ({len(other)} files "
            f"differ, first {other[0]}); set world.retrain: true in the configuration to train one"
        )
    with atomic_folder(out, WORLD_MODEL, [world, weights]) as folder:
        shutil.copytree(weights, folder, dirs_exist_ok=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--world", type=Path, required=True, metavar="DIR", help="world folder")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="model folder")


def run(args: argparse.Namespace) -> None:
    """Copy the shipped model."""
    unpack(args.world, args.out)
    print(f"copied the shipped model of this world to {args.out}")
