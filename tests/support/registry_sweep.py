"""Prune a small random model of a type and compare with sentences run one at a time in float64.

The reference runs the whole unmodified model with hooks on its linears, block after block with
the pruned weights before it, and shares no code with the package.
``python tests/support/registry_sweep.py docs/architectures.md`` writes the table again.
"""

import csv
import random
import re
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import expert_reference
import numpy as np
import reference
import torch
import transformers
from registry_models import TYPES, NotSmall, save_random
from safetensors import safe_open
from transformers import AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

from evenprune.base.errors import UserError
from evenprune.data.calibration import TokenizedPairs, TokenPair
from evenprune.pruning.calibration_text import Text
from evenprune.pruning.engine import prune_model
from evenprune.pruning.options import Options

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


def sweep_type(
    kind: str, folder: Path, layers: int = LAYERS, dtype: torch.dtype = torch.float32, **options
) -> Row:
    """Save, prune and compare one type; AssertionError where the result is wrong."""
    try:
        save_random(folder / "dense", kind, layers, dtype)
    except NotSmall as error:
        return Row(kind, "not small", str(error))
    return compare(kind, folder / "dense", folder / "pruned", **options)


def compare(kind: str, dense: Path, out: Path, **options) -> Row:
    """Prune a folder and compare the result with the reference."""
    pairs = token_pairs()
    chosen = {"method": "sparsegpt", "regime": REGIME} | options
    text = Text(TokenizedPairs(pairs, 0, {}))
    try:
        manifest = prune_model(dense, Options(**chosen), text, out, "cpu")
    except UserError as error:
        refusal = str(error).replace(str(dense), "DIR")
    else:
        refusal = ""
    if refusal:
        assert "\n" not in refusal
        assert not out.exists()
        return Row(kind, "refused", refusal)
    before, after = stored_tensors(dense), stored_tensors(out)
    assert before.keys() == after.keys()
    pruned = {name for name, facts in manifest["tensors"].items() if facts.get("pruned")}
    for name in before.keys() - pruned:
        assert torch.equal(before[name], after[name]), name
    agreement = mask_agreement(dense, out, pairs, **chosen)
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


def mask_agreement(
    dense: Path, out: Path, pairs: list[TokenPair], regime: str, sequential: str = "block", **_
) -> dict[str, float]:
    """Return for each pruned matrix the share of its zeros and others that the reference has."""
    with open(out / "layers.csv", newline="") as file:
        modules = [row["module"] for row in csv.DictReader(file)]
    blocks = defaultdict(list)
    for name in modules:
        blocks[int(re.search(r"\.(\d+)\.", name).group(1))].append(name)
    model, result = (load_exact(path) for path in (dense, out))
    agreement = {}
    steps = [names for _, names in sorted(blocks.items())]
    if sequential == "module":
        steps = [[name] for names in steps for name in names]
    for names in steps:
        sentences = [ids for pair in pairs for ids in (pair.ids0, pair.ids1)]
        experts = expert_reference.agreement(
            model, result, names, sentences, [], "sparsegpt", regime
        )
        agreement |= {name: share for name, (share, *_) in experts.items()}
        plain = [name for name in names if name not in experts]
        hessians = _hessians(model, plain, pairs)
        for name in plain:
            linear, target = model.get_submodule(name), result.get_submodule(name)
            dense_w, pruned_w = (
                (one.weight.T if isinstance(one, Conv1D) else one.weight).detach().double().numpy()
                for one in (linear, target)
            )
            expected = reference.prune(dense_w, hessians[name], "sparsegpt", regime)
            agreement[name] = float(np.mean((expected == 0) == (pruned_w == 0)))
        with torch.no_grad():
            for name in plain:
                model.get_submodule(name).weight.copy_(result.get_submodule(name).weight)
        for name in experts:
            expert_reference.copy_matrix(model, result, name)
    return agreement


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


HEAD = """# Which architectures are pruned

For every type of transformers' causal-LM registry a random model of {layers} layers was made from
its config class, pruned with SparseGPT ({regime}) on {pairs} pairs of random tokens, and compared
with the unmodified model run sentence by sentence in float64: *agreement* is the lowest share of
equal mask entries of any of its matrices (XGLM in float32: its code has no float64). Tensors that
are not pruned stayed the same, byte for
byte, and the result loads in transformers. Nothing is decided by a type's name: what is refused is
refused for what the model's own code does with a few tokens, or for what it holds.
Experts are counted one by one, each with the tokens that are routed to it; routers, the gates of
shared experts and depthwise convolutions stay as they are. Real models differ from these in size:
there a parameter may be smaller than every linear layer, so that a type refused below for it is
pruned.
Where the code of a state-space block uses a layer's weight without calling it, no sums of its
inputs can be taken: `--method magnitude` needs none and prunes such a type too.

transformers {version}: {counts}. `python tests/support/registry_sweep.py docs/architectures.md`
writes this page again; the slow test `tests/pruning/test_pruning_registry.py` holds it to what
happens.

| type | outcome | matrices | agreement | reason |
| --- | --- | --- | --- | --- |
"""


def write_page(path: Path) -> None:
    """Sweep all types and write the page of the docs."""
    rows = []
    for kind in TYPES:
        with tempfile.TemporaryDirectory() as place:
            rows.append(sweep_type(kind, Path(place)))
    counts = Counter(row.outcome for row in rows)
    page = HEAD.format(
        layers=LAYERS, regime=REGIME, pairs=len(token_pairs()), version=transformers.__version__,
        counts=", ".join(f"{counts[name]} {name}" for name in sorted(counts, reverse=True)),
    )  # fmt: skip
    for row in rows:
        done = row.outcome == "pruned"
        reason = re.sub(r"^a model of type \S+ cannot be pruned: (.*); .*", r"\1", row.reason)
        reason = reason.replace("|", "/")
        values = [row.kind, row.outcome, row.matrices if done else "",
                  f"{row.agreement:.2%}" if done else "", reason]  # fmt: skip
        page += "| " + " | ".join(str(value) for value in values) + " |\n"
    path.write_text(page)


def documented(path: Path) -> dict[str, str]:
    """Return the outcome of each type in the page of the docs."""
    cells = [line.split(" | ") for line in path.read_text().splitlines() if " | " in line]
    return {row[0].removeprefix("| "): row[1] for row in cells[2:]}


if __name__ == "__main__":
    write_page(Path(sys.argv[1]))
