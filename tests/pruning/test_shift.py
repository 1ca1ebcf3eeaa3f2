"""Steps against a bias loss: gradients, budget, held-out pairs, resuming."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
from pruning_models import random_pairs, save_model
from registry_sweep import load_exact
from transformers import AutoTokenizer

from evenprune.base.errors import UserError
from evenprune.data.calibration import tokenize_pairs
from evenprune.models.architecture import rows_of
from evenprune.models.tensors import read_tensor
from evenprune.pruning.base_model import BaseModel
from evenprune.pruning.masks import REGIMES
from evenprune.pruning.options import Options
from evenprune.pruning.reverse import Sentences, bias_loss, block_gradients
from evenprune.pruning.shift import Shift, held_out

NAMES = ("steps", "step", "loss", "holdout")
TEXTS = [("one", (5, 9, 11, 12, 8)), ("two", (5, 30, 31))]


def shift(base, pairs, texts, folder, damping=0.01, **given):
    """Return the steps; what is given is the options' ``gradient_…``."""
    assert set(given) <= set(NAMES)
    chosen = {f"gradient_{name}": value for name, value in given.items()}
    options = Options("debias-gradient", "2of4", damping=damping)
    options = options.model_copy(update=chosen)  # without bounds: some steps destroy the model
    return Shift(base, pairs, texts, options, folder)


def text_of(folder, count=12):
    """Return pairs of unequal token counts."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenize_pairs(random_pairs(count, seed=3, equal=False), tokenizer, "suffix").pairs


def log_p(model, ids):
    """Return log p of one sentence behind its first token."""
    logits = model(torch.tensor([ids]), use_cache=False).logits[0, :-1].double()
    chosen = torch.tensor(ids[1:])
    return torch.log_softmax(logits, -1).gather(1, chosen[:, None]).sum()


def naive_loss(model, pairs):
    """Return the mean square of the pair gaps, written down as it is."""
    return sum((log_p(model, p.ids0) - log_p(model, p.ids1)) ** 2 for p in pairs) / len(pairs)


def streamed(base, pairs, folder):
    """Return the loss and the gradient of each linear by its full name."""
    base.forward_dtype = torch.float32
    text = Sentences(base, pairs, TEXTS)
    done = text.forward(folder, lambda: None)
    chosen = torch.ones(len(pairs), dtype=torch.bool)
    value, weights = bias_loss(done.scores, chosen)
    gradients = text.output_gradients(done, weights, torch.zeros_like(done.texts))
    found = {}
    for index in reversed(range(len(base.blocks))):
        base.load_block(index)
        text.restore(folder, index, done.calibration)
        for name, gradient in block_gradients(
            base, index, done.calibration.streams(), gradients
        ).items():
            found[f"{base.block_name(index)}.{name}"] = gradient
        base.unload_block(index)
    return value, found


# Other heads and blocks: soft caps, tied and renamed output embeddings, Conv1D, parallel blocks.
@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma2", "cohere", "gpt2", "gpt_neox"])
def test_streamed_gradients_equal_those_of_the_whole_model(name, tmp_path):
    folder = save_model(tmp_path / "model", name)
    pairs = text_of(folder)
    base = BaseModel(folder, REGIMES["2of4"], "cpu")
    (tmp_path / "kept").mkdir()
    value, found = streamed(base, pairs, tmp_path / "kept")
    model = load_exact(folder)
    expected = naive_loss(model, pairs)
    assert value == pytest.approx(expected.item(), rel=1e-4)
    expected.backward()
    assert set(found) == set(base.linears())
    for full, gradient in found.items():
        linear = model.get_submodule(full)
        right = rows_of(linear, linear.weight.grad)
        assert right.abs().max() > 0
        torch.testing.assert_close(
            gradient.double(), right, rtol=1e-3, atol=1e-4 * right.abs().max().item()
        )


def test_a_head_of_its_own_under_a_config_that_ties_is_the_one_that_counts(tmp_path):
    folder = save_model(tmp_path / "model", tie_word_embeddings=False)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    pairs = text_of(folder)
    (tmp_path / "kept").mkdir()
    value, _ = streamed(BaseModel(folder, REGIMES["2of4"], "cpu"), pairs, tmp_path / "kept")
    assert value == pytest.approx(naive_loss(load_exact(folder), pairs).item(), rel=1e-4)


def test_derivative_of_the_loss():
    generator = torch.Generator().manual_seed(1)
    scores = -5 * torch.rand(7, 2, generator=generator, dtype=torch.float64)
    scores.requires_grad_(True)
    chosen = torch.tensor([True] * 5 + [False] * 2)
    right = ((scores[:, 0] - scores[:, 1])[chosen] ** 2).mean()
    right.backward()
    value, derivative = bias_loss(scores.detach(), chosen)
    assert value == pytest.approx(right.item())
    torch.testing.assert_close(derivative, scores.grad)


def weights_of(base):
    """Return all matrices (n, d) in float64 by full name, as ``base.stored`` names them."""
    return {
        full: rows_of(linear, read_tensor(base.stored[base.stored_name(f"{full}.weight")])).double()
        for full, linear in base.linears().items()
    }


def naive_inputs(folder, pairs):
    """Return the inputs (t, d) of each linear in float64 for all sentences and texts."""
    model = load_exact(folder)
    sentences = [ids for pair in pairs for ids in (pair.ids0, pair.ids1)]
    sentences += [ids for _, ids in TEXTS]
    found = reference.linear_inputs(model, lambda ids: model(ids, use_cache=False), sentences)
    names = BaseModel(folder, REGIMES["2of4"], "cpu").linears()
    return {name: torch.from_numpy(np.concatenate(found[name], axis=1).T) for name in names}


def one_step(folder, pairs, kept):
    """Return the matrices before and behind one step of 0.003, damping 0.05, and the gradients."""
    base = BaseModel(folder, REGIMES["2of4"], "cpu")
    before = weights_of(base)
    kept.mkdir()
    _, gradients = streamed(base, pairs, kept)
    shift(base, pairs, TEXTS, kept / "shift", 0.05, steps=1, step=0.003, holdout=0.0).run()
    return before, weights_of(base), gradients


def test_a_step_goes_along_the_gradient_and_changes_outputs_by_its_size(tmp_path):
    folder = save_model(tmp_path / "model")
    pairs = text_of(folder)
    before, moved, gradients = one_step(folder, pairs, tmp_path / "kept")
    changes, rates = [], []
    for full, inputs in naive_inputs(folder, pairs).items():
        change = moved[full] - before[full]
        changes.append(
            float((inputs @ change.T).square().sum() / (inputs @ before[full].T).square().sum())
        )
        hessian = inputs.T @ inputs
        hessian += 0.05 * hessian.diagonal().mean() * torch.eye(len(hessian))
        direction = gradients[full].double() @ torch.linalg.inv(hessian)
        rates.append(float(-(change * direction).sum() / direction.square().sum()))
        cosine = -(change * direction).sum() / (change.norm() * direction.norm())
        assert cosine > 0.9999
    assert sum(changes) / len(changes) == pytest.approx(0.003**2, rel=1e-3)
    assert max(rates) == pytest.approx(min(rates), rel=1e-3)  # one rate for all


def test_where_the_first_step_does_not_help_nothing_changes(tmp_path, capsys):
    folder = save_model(tmp_path / "model")
    pairs = text_of(folder)
    base = BaseModel(folder, REGIMES["2of4"], "cpu")
    before = weights_of(base)
    stored = dict(base.stored)
    given = {"steps": 3, "step": 50.0, "holdout": 0.25}  # destroys the model
    record = shift(base, pairs, TEXTS, tmp_path / "shift", **given).run()
    assert record["steps_kept"] == 0
    assert len(record["steps"]) == 1
    losses = record["steps"][0]
    assert losses["halved"] == 5
    assert losses["after"]["held_out"] >= losses["before"]["held_out"]
    assert base.stored == stored
    assert "nothing is changed" in capsys.readouterr().err
    assert all(torch.equal(before[name], value) for name, value in weights_of(base).items())


def test_a_step_too_long_to_help_is_halved_until_it_does(tmp_path, capsys):
    folder = save_model(tmp_path / "model")
    pairs = text_of(folder)
    # Twice, so that what helps those used helps those held out.
    pairs += [replace(pair, id=f"{pair.id} again") for pair in pairs]

    def run(name, step):
        base = BaseModel(folder, REGIMES["2of4"], "cpu")
        given = {"steps": 1, "step": step, "holdout": 0.25}
        (taken,) = shift(base, pairs, TEXTS, tmp_path / name, **given).run()["steps"]
        return taken, weights_of(base)

    step, weights = run("long", 3.2)
    assert step["kept"]
    assert step["halved"] > 0
    assert step["after"]["held_out"] < step["before"]["held_out"]
    assert f"halved {step['halved']} times" in capsys.readouterr().err
    longer, _ = run("longer", 2 * step["size"])
    assert longer["halved"] == 1  # so the step before the last did not help
    once, expected = run("once", step["size"])
    assert once["halved"] == 0
    for name, weight in weights.items():
        assert torch.equal(weight, expected[name]), name


def test_bfloat16_weights_keep_their_dtype(tmp_path):
    folder = save_model(tmp_path / "model", dtype=torch.bfloat16)
    base = BaseModel(folder, REGIMES["2of4"], "cpu")
    before = weights_of(base)
    given = {"steps": 2, "step": 0.05, "holdout": 0.0}
    shift(base, text_of(folder), TEXTS, tmp_path / "shift", **given).run()
    names = [base.stored_name(f"{full}.weight") for full in base.linears()]
    assert {base.stored[name].torch_dtype for name in names} == {torch.bfloat16}
    assert base.forward_dtype is None
    after = weights_of(base)
    assert any(not torch.equal(after[name], value) for name, value in before.items())


def test_held_out_pairs_follow_from_seed_and_ids_alone(tmp_path):
    folder = save_model(tmp_path / "model")
    pairs = text_of(folder, 30)
    ids = [pair.id for pair in pairs]
    first = held_out(ids, 0.2, 0)
    assert int(first.sum()) == 6
    names = {pair.id for pair, held in zip(pairs, first, strict=True) if held}
    turned = ids[::-1]
    assert names == {
        name for name, held in zip(turned, held_out(turned, 0.2, 0), strict=True) if held
    }
    assert held_out(ids, 0.2, 1).tolist() != first.tolist()


@pytest.mark.parametrize(("count", "share"), [(2, 0.9), (2, 0.1)])
def test_a_share_without_pairs_is_refused(tmp_path, count, share):
    folder = save_model(tmp_path / "model")
    base = BaseModel(folder, REGIMES["2of4"], "cpu")
    with pytest.raises(UserError, match="gradient-holdout"):
        shift(base, text_of(folder, count), TEXTS, tmp_path / "shift", holdout=share)


def perplexity(model, texts):
    """Return the perplexity of texts, one after the other, written down as it is."""
    total = sum(float(log_p(model, ids).detach()) for ids in texts)
    return math.exp(-total / sum(len(ids) - 1 for ids in texts))


def test_steps_on_text_learn_the_texts_and_look_at_no_pair(tmp_path):
    folder = save_model(tmp_path / "model")

    def run(name, pairs):
        base = BaseModel(folder, REGIMES["2of4"], "cpu")
        given = {"steps": 2, "step": 0.003, "loss": "text", "holdout": 0.4}
        return shift(base, pairs, TEXTS, tmp_path / name, **given).run()

    record = run("one", text_of(folder))
    steps = record["steps"]
    assert record["steps_kept"] == 2
    expected = math.log(perplexity(load_exact(folder), [ids for _, ids in TEXTS]))
    assert steps[0]["before"]["used"] == pytest.approx(expected, rel=1e-4)
    assert steps[1]["after"]["used"] < steps[1]["before"]["used"] < steps[0]["before"]["used"]
    assert record["pairs_held_out"] == 0
    other = run("other", text_of(folder, 6))["steps"][0]["before"]
    assert other["used"] == pytest.approx(expected, rel=1e-4)


def test_steps_on_text_need_texts(tmp_path):
    folder = save_model(tmp_path / "model")
    base = BaseModel(folder, REGIMES["2of4"], "cpu")
    with pytest.raises(UserError, match="texts as well as pairs for --gradient-loss text"):
        shift(base, text_of(folder), [], tmp_path / "shift", loss="text")
