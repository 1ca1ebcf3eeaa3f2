"""The whole engine against the naive float64 reference, matrix by matrix.

The reference sees the same pruned predecessors as the engine saw: block k of it runs behind
blocks 0 … k-1 of the engine's result.
"""

import csv
import re

import numpy as np
import pytest
import reference
import torch
from pruning_models import EXPERTS, WORDS, random_pairs, save_model
from registry_sweep import behind_pruned, linear_cases, load_exact, mask_agreement
from transformers import AutoModelForCausalLM, AutoTokenizer

from evenprune.blocks.base_model import BaseModel
from evenprune.blocks.packing import Text
from evenprune.config.facts import REGIMES
from evenprune.data.calibration import tokenize_pairs
from evenprune.io.errors import UserError
from evenprune.io.onednn import has_tiles
from evenprune.methods.options import Options
from evenprune.pruning.check import check_model
from evenprune.pruning.engine import prune_model

TEXTS = [f"{WORDS[k]} {WORDS[k + 1]} {WORDS[2 * k]} x y" for k in range(6)]


def made(folder, name, pairs=40):
    """Return a model folder and its calibration text: pairs, and a few texts."""
    save_model(folder, name, seed=3)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    alignment = "suffix" if name in EXPERTS else "equal-length"
    found = tokenize_pairs(random_pairs(pairs, seed=5), tokenizer, alignment)
    texts = [(f"text-{k}", tokenizer(text)["input_ids"]) for k, text in enumerate(TEXTS)]
    return folder, Text(found, texts)


@pytest.fixture(scope="module")
def case(request, tmp_path_factory):
    return made(tmp_path_factory.mktemp(request.param), request.param)


def linears(folder, out, text):
    """Yield (name, W, engine's W, [(X0, X1)] of pairs, [X] of texts) of all pruned matrices."""
    model, result = load_exact(folder), load_exact(out)
    for names in behind_pruned(model, result, out):
        yield from linear_cases(model, result, names, text)


def compare(folder, out, text, method, regime, hessian):
    count = 0
    for name, dense, got, *inputs in linears(folder, out, text):
        expected = reference.prune(dense, hessian(*inputs), method, regime)
        assert ((got == 0) == (expected == 0)).mean() >= 0.999, name
        distance = np.linalg.norm(got - expected) / np.linalg.norm(expected)
        assert distance <= 1e-3, name
        assert not (np.signbit(got) & (got == 0)).any()
        count += 1
    assert count == len(list(BaseModel(folder, REGIMES[regime], "cpu").linears()))


@pytest.mark.parametrize(
    ("case", "method", "regime"),
    [
        *(("llama", method, regime) for method in reference.METHODS for regime in ("u50", "2of4")),
        ("gpt_neox", "debias-sparsegpt", "1of4"),
        ("gpt2", "sparsegpt", "u25"),
    ],
    indirect=["case"],
)
def test_engine_agrees_with_the_reference(case, tmp_path, method, regime):
    folder, text = case
    prune_model(folder, Options(method, regime), text, tmp_path / "out")
    matches = [pair.matches for pair in text.pairs.pairs]
    bias = [1.0 if method == "debias-sparsegpt" else 0.0] * len(matches)
    compare(
        folder, tmp_path / "out", text, method, regime,
        lambda pairs, texts: reference.hessian(pairs, texts, matches, bias),
    )  # fmt: skip


def same(weight):
    """Return the Hessian with one bias weight for all pairs."""
    return lambda pairs, texts, matches: reference.hessian(
        pairs, texts, matches, [weight] * len(matches)
    )


def of_2026(alpha):
    return lambda pairs, texts, _: reference.released_2026_hessian(pairs, texts, alpha)


@pytest.mark.parametrize(
    ("alignment", "given", "cut", "hessian", "wrong"),
    [
        ("suffix", {"bias_weight": 3.0}, None, same(3.0), same(0.0)),
        ("pad", {"bias_weight": 3.0}, None, same(3.0), same(0.0)),
        # A naive running mean; wrong: the same sum of weights, the same for all pairs.
        (
            "equal-length", {"bias_weight": 0.1, "bias_scaling": "released-2025"}, None,
            lambda pairs, _, matches: reference.released_code_hessian(pairs, matches, 0.1),
            same(0.1 * 41 / 2),
        ),
        # Pads in every sum, texts behind the pairs; wrong: without the half.
        (
            "pad", {"bias_weight": 6.0, "bias_scaling": "released-2026"}, 9,
            of_2026(6.0), of_2026(12.0),
        ),
    ],
)  # fmt: skip
def test_alignments_and_scalings_agree_with_the_reference(
    tmp_path, alignment, given, cut, hessian, wrong
):
    folder = save_model(tmp_path / "base", "llama", seed=4)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = random_pairs(40, seed=6, equal=alignment == "equal-length")
    texts = [(text, tokenizer(text)["input_ids"]) for text in TEXTS] if cut else []
    text = Text(tokenize_pairs(rows, tokenizer, alignment, cut), texts)
    assert text.pairs.dropped == 0
    lengths = {len(ids) for pair in text.kept for ids in (pair.ids0, pair.ids1)}
    assert cut in (None, max(lengths))
    padded = any(tokenizer.pad_token_id in (*pair.ids0, *pair.ids1) for pair in text.kept)
    assert padded == (alignment == "pad")
    options = Options("debias-sparsegpt", "2of4", alignment=alignment, **given)
    prune_model(folder, options, text, tmp_path / "out")
    matches = [pair.matches for pair in text.kept]

    def against(total):
        compare(
            folder, tmp_path / "out", text, "debias-sparsegpt", "2of4",
            lambda pairs, texts: total(pairs, texts, matches),
        )  # fmt: skip

    against(hessian)
    with pytest.raises(AssertionError):
        against(wrong)


# Mixture-of-experts models, token by token, and on disk


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
    card = (tmp_path / "out/README.md").read_text()
    assert f"Of {len(rows)} matrices of experts {shared} had" in card
    said = (tmp_path / "out/provenance.json").read_text()
    assert f'"attention": "{"sdpa" if has_tiles() else "eager"}"' in said  # its rows are short
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
