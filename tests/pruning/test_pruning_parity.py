"""The whole engine against the naive float64 reference, matrix by matrix.

The reference sees the same pruned predecessors as the engine saw: block k of it runs behind
blocks 0 … k-1 of the engine's result.
"""

from pathlib import Path

import numpy as np
import pytest
import reference
import torch
from pruning_models import WORDS, random_pairs, save_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.pytorch_utils import Conv1D

from evenprune.data.calibration import tokenize_pairs
from evenprune.pruning.calibration_text import Text
from evenprune.pruning.engine import prune_model
from evenprune.pruning.masks import REGIMES
from evenprune.pruning.options import Options

TEXTS = [f"{WORDS[k]} {WORDS[k + 1]} {WORDS[2 * k]} x y" for k in range(6)]


@pytest.fixture(scope="module")
def case(request, tmp_path_factory):
    """A base model folder, its calibration text, and inputs of its first block's linears."""
    folder = save_model(tmp_path_factory.mktemp(request.param), request.param, seed=3)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pairs = tokenize_pairs(random_pairs(40, seed=5), tokenizer, "equal-length")
    texts = [(f"text-{k}", tokenizer(text)["input_ids"]) for k, text in enumerate(TEXTS)]
    return folder, Text(pairs, texts)


def load(folder: Path):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    blocks = next(
        module
        for module in model.modules()
        if isinstance(module, torch.nn.ModuleList) and len(module) == 2
    )
    return model.eval(), blocks


def matrices(block):
    return {
        name: (module.weight.T if isinstance(module, Conv1D) else module.weight).detach().numpy()
        for name, module in block.named_modules()
        if isinstance(module, torch.nn.Linear | Conv1D)
    }


def reference_blocks(folder, out, text):
    """Yield for each block (dense W, engine's W, per-linear inputs of pairs, of texts)."""
    model, blocks = load(folder)
    _, pruned = load(out)
    sentences = [ids for pair in text.pairs.pairs for ids in (pair.ids0, pair.ids1)]
    for index, block in enumerate(blocks):
        everything = [*sentences, *(ids for _, ids in text.texts)]
        inputs = reference.linear_inputs(block, model, everything)
        split = {
            name: (
                list(zip(x[0 : len(sentences) : 2], x[1 : len(sentences) : 2], strict=True)),
                x[len(sentences) :],
            )
            for name, x in inputs.items()
        }
        yield matrices(block), matrices(pruned[index]), split
        block.load_state_dict(pruned[index].state_dict())


def compare(folder, out, text, method, regime, hessian):
    for dense, engine, inputs in reference_blocks(folder, out, text):
        assert set(dense) == set(inputs)
        for name, weight in dense.items():
            expected = reference.prune(weight, hessian(*inputs[name]), method, regime)
            got = engine[name]
            assert ((got == 0) == (expected == 0)).mean() >= 0.999, name
            distance = np.linalg.norm(got - expected) / np.linalg.norm(expected)
            assert distance <= 1e-3, name
            assert not (np.signbit(got) & (got == 0)).any()


@pytest.mark.parametrize(
    ("case", "method", "regime"),
    [
        *(("llama", method, regime) for method in reference.METHODS for regime in REGIMES),
        *(("gpt_neox", method, "2of4") for method in reference.METHODS),
        *(("gpt2", method, "u50") for method in reference.METHODS),
    ],
    indirect=["case"],
)
def test_engine_agrees_with_the_reference(case, tmp_path, method, regime):
    folder, text = case
    prune_model(folder, Options(method, regime), text, tmp_path / "out")
    matches = [pair.matches for pair in text.pairs.pairs]
    bias = [1.0 if method == "debias-sparsegpt" else 0.0] * len(matches)

    def hessian(pairs, texts):
        return reference.hessian(pairs, texts, matches, bias)

    compare(folder, tmp_path / "out", text, method, regime, hessian)


@pytest.mark.parametrize("case", ["llama"], indirect=True)
def test_released_code_scaling_agrees_with_a_naive_running_mean(case, tmp_path):
    folder, text = case
    text = Text(text.pairs)
    options = Options("debias-sparsegpt", "2of4", bias_weight=0.1, bias_scaling="released-2025")
    prune_model(folder, options, text, tmp_path / "out")
    matches = [pair.matches for pair in text.pairs.pairs]

    def hessian(pairs, _texts):
        return reference.released_code_hessian(pairs, matches, 0.1)

    def without_ramp(pairs, _texts):
        """The same sum of weights, the same for all pairs."""
        mean = 0.1 * (len(pairs) + 1) / 2
        return reference.hessian(pairs, [], matches, [mean] * len(pairs))

    compare(folder, tmp_path / "out", text, "debias-sparsegpt", "2of4", hessian)
    with pytest.raises(AssertionError):
        compare(folder, tmp_path / "out", text, "debias-sparsegpt", "2of4", without_ramp)


def test_the_released_code_of_2026_agrees_with_a_naive_running_mean(tmp_path):
    """Sentences padded in pairs and cut, pads in every sum, texts behind the pairs."""
    folder = save_model(tmp_path / "base", "llama", seed=5)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = random_pairs(30, seed=7, equal=False)
    cut = 9
    text = Text(
        tokenize_pairs(rows, tokenizer, "pad", cut),
        [(f"text-{k}", tokenizer(text)["input_ids"]) for k, text in enumerate(TEXTS)],
    )
    lengths = {len(ids) for pair in text.pairs.pairs for ids in (pair.ids0, pair.ids1)}
    assert max(lengths) == cut
    assert any(tokenizer.pad_token_id in (*p.ids0, *p.ids1) for p in text.pairs.pairs)
    options = Options(
        "debias-sparsegpt", "2of4", bias_weight=6.0, bias_scaling="released-2026", alignment="pad"
    )
    prune_model(folder, options, text, tmp_path / "out")

    def hessian(pairs, texts):
        return reference.released_2026_hessian(pairs, texts, 6.0)

    def without_the_half(pairs, texts):
        return reference.released_2026_hessian(pairs, texts, 12.0)

    compare(folder, tmp_path / "out", text, "debias-sparsegpt", "2of4", hessian)
    with pytest.raises(AssertionError):
        compare(folder, tmp_path / "out", text, "debias-sparsegpt", "2of4", without_the_half)


@pytest.mark.parametrize(
    ("case", "regime", "solver"),
    [
        ("llama", "dense", "sparsegpt"),
        ("llama", "2of4", "wanda"),
        ("gpt_neox", "2of4", "sparsegpt"),
        ("gpt2", "2of4", "sparsegpt"),
    ],
    indirect=["case"],
)
def test_erase_agrees_with_the_reference(case, tmp_path, regime, solver):
    folder, text = case
    dense = next(iter(reference_blocks(folder, folder, text)))[0]
    last = list(dense)[-1].rpartition(".")[2]
    options = Options(
        "debias-erase", regime, solver=solver, erase_modules=(last,),
        erase_strength=4.0, erase_keep=0.25,
    )  # fmt: skip
    prune_model(folder, options, text, tmp_path / "out")
    matches = [pair.matches for pair in text.pairs.pairs]
    changed = 0
    for dense, engine, inputs in reference_blocks(folder, tmp_path / "out", text):
        for name, weight in dense.items():
            pairs, texts = inputs[name]
            if name.rpartition(".")[2] == last:
                goal, metric = reference.erase_target(weight, pairs, texts, matches, 4.0, 0.25)
                assert np.linalg.norm(goal - weight) > 0.01 * np.linalg.norm(weight)
                changed += 1
            else:
                goal, metric = weight, reference.hessian(pairs, texts, matches, [0.0] * 40)
            if regime != "dense":
                goal = reference.prune(goal, metric, solver, regime)
            got = engine[name]
            assert ((got == 0) == (goal == 0)).mean() >= 0.999, name
            assert np.linalg.norm(got - goal) <= 1e-3 * np.linalg.norm(goal), name
    assert changed


@pytest.mark.parametrize("alignment", ["suffix", "pad"])
def test_alignments_agree_with_the_reference(tmp_path, alignment):
    folder = save_model(tmp_path / "base", "llama", seed=4)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = random_pairs(40, seed=6, equal=False)
    text = Text(tokenize_pairs(rows, tokenizer, alignment))
    assert text.pairs.dropped == 0
    options = Options("debias-sparsegpt", "u50", bias_weight=3.0, alignment=alignment)
    prune_model(folder, options, text, tmp_path / "out")
    matches = [pair.matches for pair in text.pairs.pairs]

    def hessian(pairs, texts):
        return reference.hessian(pairs, texts, matches, [3.0] * len(matches))

    compare(folder, tmp_path / "out", text, "debias-sparsegpt", "u50", hessian)
