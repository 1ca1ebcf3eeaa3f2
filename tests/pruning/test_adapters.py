"""Adapters against a bias loss: the losses, merging, held-out groups, resuming."""

import math

import pytest
import torch
from pruning_models import random_pairs, save_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from evenprune.base.errors import UserError
from evenprune.data.calibration import TokenPair, tokenize_pairs
from evenprune.models.tensors import read_tensor
from evenprune.pruning import adapters as module
from evenprune.pruning.adapters import Tuning, adapt, contexts_of, split
from evenprune.pruning.base_model import BaseModel
from evenprune.pruning.masks import REGIMES
from evenprune.pruning.options import Options

TEXTS = [(5, 9, 11, 12, 8, 30, 17), (5, 30, 31, 9)]


def made(folder, name="llama", count=24):
    """Return a random model and its pairs."""
    save_model(folder, name)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pairs = tokenize_pairs(random_pairs(count, seed=3, equal=False), tokenizer, "suffix").pairs
    return BaseModel(folder, REGIMES["2of4"], "cpu"), pairs


def adapted(base, pairs, folder, **given):
    options = Options("debias-lora", "2of4", **given)
    return adapt(base, pairs, TEXTS, options, folder)


def log_p(model, ids, start=1):
    """Return log p of a sentence's tokens from ``start`` on, in float64."""
    logits = model(torch.tensor([ids]), use_cache=False).logits[0, :-1]
    chosen = torch.log_softmax(logits, -1).gather(1, torch.tensor(ids[1:])[:, None])
    return chosen[start - 1 :].sum().item()


def behind_the_group(model, own, other):
    """Return log p of the last tokens that two sentences share, given one less given the other."""
    shared = 0
    while own[-1 - shared] == other[-1 - shared] and shared < min(len(own), len(other)) - 1:
        shared += 1
    return log_p(model, own, len(own) - shared) - log_p(model, other, len(other) - shared)


def naive(loss, model, own, other):
    """Return the loss of one context from single sentences."""
    if loss == "association":
        gaps = [log_p(model, one) - log_p(model, two) for one, two in (own, other)]
        return 0.5 * (gaps[0] - gaps[1]) ** 2
    apart = [behind_the_group(model, *both) for both in zip(own, other)]
    if loss == "shared":
        return 0.5 * sum(x**2 for x in apart)
    return module.PREFERRED * math.log1p(math.exp(apart[0]))


@pytest.mark.parametrize("loss", ["association", "shared", "preference"])
@pytest.mark.parametrize("name", ["llama", "gemma2", "cohere", "gpt2"])
def test_the_loss_is_that_of_single_sentences_in_float64(name, loss, tmp_path):
    base, pairs = made(tmp_path / "model", name)
    contexts = contexts_of(pairs)
    options = Options("debias-lora", "2of4", lora_loss=loss)
    tuning = Tuning(base, contexts, TEXTS, options)
    model = AutoModelForCausalLM.from_pretrained(base.folder, dtype=torch.float64).eval()
    model.set_attn_implementation("eager")
    others = [1 + k % 2 for k in range(len(contexts))]
    right = 0.0
    for context, other in zip(contexts, others, strict=True):
        right += naive(loss, model, context.pairs[0], context.pairs[other]) / len(contexts)
    with torch.no_grad():
        assert float(tuning.bias(contexts, others)) == pytest.approx(right, rel=1e-3)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_training_lowers_the_loss_and_what_is_written_is_what_was_trained(
    name, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "HELD_OUT", 0.0)  # random models have nothing to carry over
    base, pairs = made(tmp_path / "model", name)
    first = {full: read_tensor(base.entry(f"{full}.weight")) for full in base.linears()}
    record = adapted(base, pairs, tmp_path / "kept", lora_steps=20, lora_rate=0.01)
    assert record["kept"]
    assert record["after"] < record["before"]
    assert len(record["steps"]) == 20
    used = contexts_of(pairs)
    tuning = Tuning(base, used, TEXTS, Options("debias-lora", "2of4"))
    tuning.train(20, 0.01)
    trained = tuning.judge(used)
    tuning.adapters.on = False
    assert tuning.judge(used) == pytest.approx(record["before"], rel=1e-4)
    for full in base.linears():  # merged: the same function without adapters
        written = read_tensor(base.entry(f"{full}.weight"))
        assert torch.equal(written, first[full]) == (full not in tuning.adapters.matrices)
        tuning.model.get_parameter(f"{full}.weight").data.copy_(written)
    assert tuning.judge(used) == pytest.approx(trained, rel=1e-3)
    assert trained == pytest.approx(record["after"], rel=1e-4)


def test_the_scale_is_linear_and_its_sign_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "HELD_OUT", 0.0)
    base, pairs = made(tmp_path / "model")
    name = list(base.linears())[-1]
    first = read_tensor(base.entry(f"{name}.weight"))
    changes = []
    for scale in (1.0, 2.0, -1.0):
        again, _ = made(tmp_path / "model")
        given = {"lora_steps": 5, "lora_rate": 0.01, "lora_scale": scale}
        adapted(again, pairs, tmp_path / f"kept{scale}", **given)
        changes.append(read_tensor(again.entry(f"{name}.weight")) - first)
    torch.testing.assert_close(changes[1], 2 * changes[0], rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(changes[2], -changes[0], rtol=1e-3, atol=1e-6)


def test_where_groups_held_out_do_not_gain_nothing_is_changed(tmp_path, monkeypatch, capsys):
    base, pairs = made(tmp_path / "model")
    monkeypatch.setattr(Tuning, "judge", lambda self, contexts: 1.0)
    before = dict(base.stored)
    record = adapted(base, pairs, tmp_path / "kept", lora_steps=1)
    assert not record["kept"]
    assert base.stored == before
    assert "nothing is changed" in capsys.readouterr().err


def test_a_finished_training_is_taken_and_a_killed_one_ends_with_the_same_bytes(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "HELD_OUT", 0.0)
    base, pairs = made(tmp_path / "model")
    given = {"lora_steps": 4, "lora_rate": 0.01}
    record = adapted(base, pairs, tmp_path / "one", **given)
    files = sorted((tmp_path / "one").glob("block-*"))
    monkeypatch.setattr(module, "write_json", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    again, _ = made(tmp_path / "model")
    with pytest.raises(KeyboardInterrupt):
        adapted(again, pairs, tmp_path / "two", **given)
    monkeypatch.undo()
    monkeypatch.setattr(module, "HELD_OUT", 0.0)
    assert adapted(again, pairs, tmp_path / "two", **given) == record
    for file in files:
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
    monkeypatch.setattr(Tuning, "train", None)  # not called again
    assert adapted(again, pairs, tmp_path / "two", **given) == record
    files[0].write_bytes(files[0].read_bytes()[:-1] + b"\x7f")
    with pytest.raises(UserError, match="has changed since it was written"):
        adapted(base, pairs, tmp_path / "one", **given)


def test_pairs_without_counterfactuals_are_refused():
    with pytest.raises(UserError, match="none of the 1 pairs has any"):
        contexts_of([TokenPair("a", "x", (1, 2), (1, 3), ())])


def test_whole_groups_are_held_out(tmp_path):
    _, pairs = made(tmp_path / "model")
    used, held = split(contexts_of(pairs), 0)
    assert held
    assert not {one.target for one in used} & {one.target for one in held}
