"""Prune a small random model of a type and compare with sentences run one at a time in float64.

The reference runs the whole unmodified model with hooks on its linears, block after block with
the pruned weights before it, and shares no code with the package.
``python docs/architectures.py`` writes the page of all types again.
"""

import csv
import random
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import expert_reference
import numpy as np
import reference
import torch
from registry_models import NotSmall, save_random
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from evenprune.blocks.packing import Text
from evenprune.data.calibration import TokenizedPairs, TokenPair
from evenprune.io.errors import UserError
from evenprune.methods.options import Options
from evenprune.pruning.engine import prune_model

LAYERS = 4
REGIME = "u50"


@dataclass(frozen=True)
class Row:
    """What became of one type: pruned, refused or not small, why, and how it agrees."""

    kind: str
    outcome: str
    reason: str = ""
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


def sweep_type(kind: str, folder: Path, layers: int = LAYERS, dtype=torch.float32) -> Row:
    """Save, prune and compare one type; AssertionError where the result is wrong."""
    try:
        save_random(folder / "dense", kind, layers, dtype)
    except NotSmall as error:
        return Row(kind, "not small", str(error))
    dense, out = folder / "dense", folder / "pruned"
    text = Text(TokenizedPairs(token_pairs(), 0, {}))
    try:
        manifest = prune_model(dense, Options("sparsegpt", REGIME), text, out, "cpu")
    except UserError as error:
        refusal = str(error).replace(str(dense), "DIR")
        assert "\n" not in refusal
        assert not out.exists()
        return Row(kind, "refused", refusal)
    before, after = stored_tensors(dense), stored_tensors(out)
    assert before.keys() == after.keys()
    pruned = {name for name, facts in manifest["tensors"].items() if facts.get("pruned")}
    for name in before.keys() - pruned:
        assert torch.equal(before[name], after[name]), name
    agreement = mask_agreement(dense, out, text)
    return Row(kind, "pruned", "", min(share for share, *_ in agreement.values()))


def stored_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """Return the bytes of all stored tensors."""
    tensors = {}
    for path in folder.glob("*.safetensors"):
        tensors |= load_file(path)
    return {name: value.flatten().view(torch.uint8) for name, value in tensors.items()}


def mask_agreement(
    dense: Path, out: Path, text: Text, method="sparsegpt", regime=REGIME, bias=0.0
) -> dict[str, tuple]:
    """Return {matrix: (share of equal mask entries, tokens, shared)} of all pruned matrices.

    Each block is behind the engine's own pruned ones. tokens and shared are None for plain linears.
    """
    model, result = (load_exact(path) for path in (dense, out))
    pairs = [pair.matches for pair in text.kept]
    found = {}
    for names in behind_pruned(model, result, out):
        experts = expert_reference.agreement(
            model, result, names, sentences_of(text), pairs, method, regime, bias
        )
        linears = linear_cases(model, result, [name for name in names if name not in experts], text)
        for name, weight, pruned, both, texts in linears:
            h = reference.hessian(both, texts, pairs, [bias] * len(pairs))
            expected = reference.prune(weight, h, method, regime)
            found[name] = (float(np.mean((expected == 0) == (pruned == 0))), None, None)
        found |= experts
    return found


def behind_pruned(model, result, out: Path):
    """Yield the matrices of each step of a result; behind it ``model`` has them pruned."""
    steps = defaultdict(list)
    with open(out / "layers.csv", newline="") as file:
        for row in csv.DictReader(file):
            name = row["module"]
            steps[int(re.search(r"\.(\d+)\.", name)[1])].append(name)
    for _, names in sorted(steps.items()):
        yield names
        for name in names:
            with torch.no_grad():
                expert_reference.matrix_of(model, name).copy_(
                    expert_reference.matrix_of(result, name)
                )


def sentences_of(text: Text) -> list:
    """Return the tokens of both sentences of each pair, then those of texts."""
    pairs = [ids for pair in text.kept for ids in (pair.ids0, pair.ids1)]
    return [*pairs, *(ids for _, ids in text.texts)]


def linear_cases(model, result, names, text: Text):
    """Yield (name, W, pruned W, [(X0, X1)] of pairs, [X] of texts) of linears of a model."""
    inputs = reference.linear_inputs(model, lambda ids: model(ids, use_cache=False),
                                     sentences_of(text))  # fmt: skip
    count = 2 * len(text.kept)
    for name in names:
        x = inputs[name]
        weight, pruned = (
            expert_reference.matrix_of(one, name).detach().double().numpy()
            for one in (model, result)
        )
        yield name, weight, pruned, list(zip(x[0:count:2], x[1:count:2], strict=True)), x[count:]


def load_exact(folder: Path):
    """Return a model in float64, in float32 where its own code knows no float64 (XGLM)."""
    for dtype in (torch.float64, torch.float32):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
        model.set_experts_implementation("eager")  # grouped products know no float64
        if getattr(model.config, "attn_logit_softcapping", None):
            model.set_attn_implementation("eager")
        try:
            with torch.no_grad():
                model(torch.arange(4, 12).unsqueeze(0), use_cache=False)
        except RuntimeError:
            continue
        return model
    raise AssertionError(f"{folder} does not run in float64 or float32")


def documented(path: Path) -> dict[str, str]:
    """Return the outcome of each type in the page of the docs."""
    cells = [line.split(" | ") for line in path.read_text().splitlines() if " | " in line][2:]
    return {
        kind: outcome.removeprefix("| ").partition(" (")[0]
        for outcome, _, kinds in cells
        for kind in kinds.removesuffix(" |").split(", ")
    }
