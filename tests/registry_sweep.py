"""Prune a small random model of a type and compare with sentences run one at a time in float64.

The reference runs the whole unmodified model with hooks on its linears, block after block with
the pruned weights before it, and shares no code with the package.
``python tests/registry_sweep.py`` writes the table of docs/architectures.md.
"""

import csv
import random
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

import reference
from debias_sparsegpt.calibration import TokenizedPairs, TokenPair
from debias_sparsegpt.errors import UserError
from debias_sparsegpt.pruning.engine import Options, Text, prune_model
from registry_models import TYPES, NotSmall, save_random

LAYERS = 4
REGIME = "u50"


@dataclass(frozen=True)
class Row:
    """What became of one type: pruned, refused or not small, why, and how it agrees."""

    kind: str
    outcome: str
    reason: str = ""
    matrices: int = 0
    agreement: float = 1.0  # the lowest share of equal mask entries of a matrix


def token_pairs(count: int = 10, seed: int = 0) -> list[TokenPair]:
    """Return pairs of random tokens that differ in one place, of few different lengths."""
    rng = random.Random(seed)
    pairs = []
    for number in range(count):
        length = rng.choice((9, 12, 16))
        one = [rng.randrange(4, 90) for _ in range(length)]
        two = list(one)
        two[rng.randrange(1, length)] = rng.randrange(4, 90)
        matches = tuple((k, k) for k in range(length))
        pairs.append(TokenPair(f"pair-{number}", "all", tuple(one), tuple(two), matches))
    return pairs


def sweep_type(kind: str, folder: Path, layers: int = LAYERS, **options) -> Row:
    """Save, prune and compare one type; AssertionError where the result is wrong."""
    try:
        save_random(folder / "dense", kind, layers)
    except NotSmall as error:
        return Row(kind, "not small", str(error))
    return compare(kind, folder / "dense", folder / "pruned", **options)


def compare(kind: str, dense: Path, out: Path, **options) -> Row:
    """Prune a folder and compare the result with the reference."""
    pairs = token_pairs()
    chosen = {"method": "sparsegpt", "regime": REGIME} | options
    try:
        manifest = prune_model(
            dense, Options(**chosen), Text(TokenizedPairs(pairs, 0, {})), out, "cpu"
        )
    except UserError as error:
        assert "\n" not in str(error), error
        assert not out.exists()
        return Row(kind, "refused", str(error))
    before, after = stored_tensors(dense), stored_tensors(out)
    assert before.keys() == after.keys()
    pruned = {name for name, facts in manifest["tensors"].items() if facts.get("pruned")}
    for name in before.keys() - pruned:
        assert torch.equal(before[name], after[name]), name
    agreement = mask_agreement(dense, out, pairs, chosen["regime"])
    return Row(kind, "pruned", "", len(agreement), min(agreement.values()))


def stored_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """Return the bytes of all stored tensors."""
    tensors = {}
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                value = file.get_tensor(name)
                tensors[name] = value.contiguous().flatten().view(torch.uint8)
    return tensors


def mask_agreement(dense: Path, out: Path, pairs: list[TokenPair], regime: str) -> dict[str, float]:
    """Return for each pruned matrix the share of its zeros and others that the reference has."""
    with open(out / "layers.csv", newline="") as file:
        modules = [row["module"] for row in csv.DictReader(file)]
    blocks = defaultdict(list)
    for name in modules:
        blocks[int(re.search(r"\.(\d+)\.", name).group(1))].append(name)
    model, result = (
        AutoModelForCausalLM.from_pretrained(path, dtype=torch.float64).eval()
        for path in (dense, out)
    )
    if getattr(model.config, "attn_logit_softcapping", None):
        model.set_attn_implementation("eager")
    agreement = {}
    for _, names in sorted(blocks.items()):
        hessians = _hessians(model, names, pairs)
        for name in names:
            linear, target = model.get_submodule(name), result.get_submodule(name)
            sides = [
                (one.weight.T if isinstance(one, Conv1D) else one.weight).detach().numpy()
                for one in (linear, target)
            ]
            expected = reference.prune(sides[0], hessians[name], "sparsegpt", regime)
            agreement[name] = float(np.mean((expected == 0) == (sides[1] == 0)))
        with torch.no_grad():
            for name in names:
                model.get_submodule(name).weight.copy_(result.get_submodule(name).weight)
    return agreement


def _hessians(model, names: list[str], pairs: list[TokenPair]) -> dict[str, np.ndarray]:
    """Return the sum of XXᵀ over all sentences for each of some linears of a model."""
    sums = dict.fromkeys(names, 0.0)

    def hook(name):
        def add(_module, args):
            rows = args[0].reshape(-1, args[0].shape[-1]).double().numpy()
            sums[name] = sums[name] + rows.T @ rows

        return add

    handles = [model.get_submodule(n).register_forward_pre_hook(hook(n)) for n in names]
    with torch.no_grad():
        for pair in pairs:
            for ids in (pair.ids0, pair.ids1):
                model(torch.tensor([list(ids)]), use_cache=False)
    for handle in handles:
        handle.remove()
    return sums


if __name__ == "__main__":
    for one in sys.argv[1:] or TYPES:
        place = Path(tempfile.mkdtemp())
        try:
            print(sweep_type(one, place), flush=True)
        finally:
            shutil.rmtree(place)
