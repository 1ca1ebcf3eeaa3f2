"""Mixture-of-experts models against a naive float64 reference, token by token, and on disk."""

import csv
import re

import pytest
import torch
from pruning_models import WORDS, random_pairs, save_model
from registry_sweep import mask_agreement
from transformers import AutoModelForCausalLM, AutoTokenizer

from evenprune.blocks.packing import Text
from evenprune.data.calibration import tokenize_pairs
from evenprune.io.errors import UserError
from evenprune.methods.options import Options
from evenprune.pruning.check import check_model
from evenprune.pruning.engine import prune_model

KINDS = ("mixtral", "qwen2_moe", "gpt_oss")


def made(folder, kind, pairs=40):
    """Return a model folder and its calibration text: pairs, and a few texts."""
    save_model(folder, kind, seed=3)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = [(f"text-{k}", tokenizer(" ".join(WORDS[k : k + 5]))["input_ids"]) for k in range(4)]
    return folder, Text(tokenize_pairs(random_pairs(pairs, seed=5), tokenizer, "suffix"), texts)


@pytest.fixture(scope="module", params=KINDS)
def case(request, tmp_path_factory):
    return made(tmp_path_factory.mktemp(request.param), request.param)


def layers_of(out):
    with open(out / "layers.csv", newline="") as file:
        return list(csv.DictReader(file))


CASES = [
    *(("mixtral", method, "2of4") for method in ("magnitude", "wanda")),
    ("mixtral", "debias-sparsegpt", "u50"),
    ("qwen2_moe", "debias-sparsegpt", "2of4"),
    ("gpt_oss", "debias-sparsegpt", "2of4"),
]


@pytest.mark.parametrize(("case", "method", "regime"), CASES, indirect=["case"])
def test_experts_agree_with_the_reference(case, tmp_path, method, regime):
    folder, text = case
    bias = 3.0 if method == "debias-sparsegpt" else 0.0
    options = Options(method, regime, bias_weight=3.0, alignment="suffix")
    prune_model(folder, options, Text() if method == "magnitude" else text, tmp_path / "out")
    rows = {row["module"]: row for row in layers_of(tmp_path / "out")}
    found = mask_agreement(folder, tmp_path / "out", text, method, regime, bias)
    assert set(found) == set(rows)
    assert not [name for name in found if re.search(r"router|gate$|shared_expert_gate", name)]
    assert check_model(tmp_path / "out", folder)["matrices"] == len(found)
    assert min(share for share, _, _ in found.values()) >= 0.999
    if (folder.parent.name.startswith("mixtral"), method) == (True, "debias-sparsegpt"):
        # Another pair term would be seen.
        other = mask_agreement(folder, tmp_path / "out", text, "sparsegpt", regime)
        assert min(share for name, (share, *_) in other.items() if ".experts." in name) < 0.99
    if method == "magnitude":
        assert "tokens" not in next(iter(rows.values()))
        return
    for name, (_, tokens, shared) in found.items():
        said = "" if tokens is None else str(tokens)
        assert (rows[name]["tokens"], rows[name]["shared"]) == (
            said, "" if tokens is None else str(shared),
        )  # fmt: skip


def test_experts_with_few_tokens_take_those_of_the_layer(tmp_path):
    folder, text = made(tmp_path / "base", "qwen2_moe", pairs=12)
    manifest = prune_model(folder, Options("sparsegpt", "u50"), text, tmp_path / "out")
    rows = [row for row in layers_of(tmp_path / "out") if row["tokens"]]
    for row in rows:
        assert (row["shared"] == "True") == (int(row["tokens"]) < int(row["columns"]))
    shared = sum(row["shared"] == "True" for row in rows)
    assert 0 < shared < len(rows)
    assert manifest["experts"] == {"matrices": len(rows), "shared": shared}
    assert (
        f"Of {len(rows)} matrices of experts {shared} had"
        in (tmp_path / "out" / "README.md").read_text()
    )
    found = mask_agreement(folder, tmp_path / "out", text, "sparsegpt", "u50")
    assert min(share for share, _, _ in found.values()) >= 0.999


def test_an_expert_without_a_token(tmp_path):
    """Its router row is zero, and those of all others look at one large, equal input."""
    folder, text = made(tmp_path / "base", "mixtral")
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.post_attention_layernorm.weight[0] = 0.0
            layer.mlp.gate.weight[3] = -layer.mlp.gate.weight[:3].sum(dim=0)
    model.save_pretrained(folder)
    manifest = prune_model(folder, Options("sparsegpt", "2of4"), text, tmp_path / "out")
    assert manifest["sparsity"] == 0.5
    assert check_model(tmp_path / "out", folder)["sparsity"] == 0.5


@pytest.mark.parametrize("case", ["mixtral"], indirect=True)
def test_other_methods(case, tmp_path):
    folder, text = case
    improved = Options("wanda", "2of4", alignment="suffix", refit_steps=3)
    prune_model(folder, improved, text, tmp_path / "refit")
    for row in layers_of(tmp_path / "refit"):
        assert float(row["loss_after"]) <= float(row["loss_before"])
    options = Options("debias-lora", "2of4", alignment="suffix")
    with pytest.raises(UserError, match="debias-lora does not know the experts"):
        prune_model(folder, options, text, tmp_path / "no")
