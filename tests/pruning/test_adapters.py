"""Adapters against a bias loss: loss, budget, merging, held-out groups, resuming."""

import json
import math
from dataclasses import replace

import pytest
import torch
from both import refused
from folders import tensors
from pruning_models import prune_command, random_pairs, save_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from evenprune.blocks.base_model import BaseModel
from evenprune.cli import main
from evenprune.config.facts import REGIMES
from evenprune.data.calibration import tokenize_pairs
from evenprune.io.errors import UserError
from evenprune.methods import contexts as groups
from evenprune.methods import tuning as module
from evenprune.methods.contexts import contexts_of, split, split_texts
from evenprune.methods.options import Options
from evenprune.methods.scorer import LogProbs
from evenprune.methods.tuning import SCALES, Tuning, adapt
from evenprune.models.tensors import read_tensor
from evenprune.models.weights import read_header
from evenprune.pruning.card import model_card
from evenprune.pruning.check import check_model

TEXTS = [(5, 9, 11, 12, 8, 30, 17), (5, 30, 31, 9)]


def made(folder, name="llama", count=24):
    """Return a random model and its pairs."""
    save_model(folder, name)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pairs = tokenize_pairs(random_pairs(count, seed=3, equal=False), tokenizer, "suffix").pairs
    return BaseModel(folder, REGIMES["2of4"], "cpu"), pairs


def adapted(base, pairs, folder, **given):
    return adapt(base, pairs, TEXTS, Options("debias-lora", "2of4", **given), folder)


def log_probs(model, ids, weights=None):
    """Return log p of all tokens behind each one of a sentence, in float64."""
    arguments = {"input_ids": torch.tensor([ids]), "use_cache": False}
    found = torch.func.functional_call(model, weights or {}, (), arguments)
    return found.logits[0, :-1].log_softmax(-1)


def log_p(model, ids, weights=None):
    """Return log p of a sentence's tokens after the first."""
    return log_probs(model, ids, weights).gather(1, torch.tensor(ids[1:])[:, None]).sum()


def naive(loss, model, own, other, weights=None):
    """Return the loss of one context from single sentences."""
    if loss == "language":
        rows = [*own, *other]
        return -sum(log_p(model, ids) for ids in rows) / sum(len(ids) - 1 for ids in rows)
    gaps = [log_p(model, one, weights) - log_p(model, two, weights) for one, two in (own, other)]
    return 0.5 * (gaps[0] - gaps[1]) ** 2


def merged(tuning, model, scale=1.0):
    """Add the adapters' change to a model's weights, in its dtype."""
    for name in tuning.adapters.matrices:
        weight = model.get_parameter(f"{name}.weight")
        weight.data += scale * tuning.adapters.change(name).to(weight.dtype)


def in_float64(base):
    given = {"dtype": torch.float64, "attn_implementation": "eager"}
    return AutoModelForCausalLM.from_pretrained(base.folder, **given).requires_grad_(False)


@pytest.fixture
def all_used(monkeypatch):
    """Random models have nothing to carry over to other groups."""
    monkeypatch.setattr(groups, "HELD_OUT", 0.0)


def drawn(tuning, size=0.05):
    """Give the adapters a change, as if they were trained."""
    generator = torch.Generator().manual_seed(1)
    for _, two in tuning.adapters.matrices.values():
        two.data.copy_(size * torch.randn(two.shape, generator=generator))
    tuning.adapters.refresh()
    return tuning


@pytest.mark.parametrize("loss", ["association", "language"])
@pytest.mark.parametrize("name", ["llama", "gemma2", "cohere"])
def test_the_loss_is_that_of_single_sentences_in_float64(name, loss, tmp_path):
    base, pairs = made(tmp_path / "model", name)
    contexts = contexts_of([replace(pairs[0], unrelated=()), *pairs[1:]])
    tuning = drawn(Tuning(base, contexts, TEXTS, Options("debias-lora", "2of4", lora_loss=loss)))
    leads = tuning.leads(contexts)
    model = in_float64(base)

    def lead(one):
        if not one.unrelated:
            return [0.0, 0.0]
        return [float(log_p(model, ids) - log_p(model, one.unrelated)) for ids in one.pairs[0]]

    for one, found in zip(contexts, leads, strict=True):
        assert found.tolist() == pytest.approx(lead(one), rel=1e-3, abs=1e-4)
    merged(tuning, model)
    others = [1 + k % 2 for k in range(len(contexts))]
    with torch.no_grad():
        losses, falls = tuning.terms(contexts, others, leads)
    for k, (one, other) in enumerate(zip(contexts, others, strict=True)):
        right = naive(loss, model, one.pairs[0], one.pairs[other]).item()
        assert losses[k].item() == pytest.approx(right, rel=1e-3, abs=1e-4)
        fallen = [was - now for was, now in zip(leads[k].tolist(), lead(one))]
        assert falls[k].tolist() == pytest.approx(fallen, rel=1e-3, abs=1e-4)
    assert not falls[0].any()
    kept = [(max(0.0, one) ** 2 + max(0.0, two) ** 2) / 2 for one, two in falls.tolist()]
    assert module.keep_term(falls).tolist() == pytest.approx(kept)


def test_a_model_that_takes_no_trees_says_so_and_scores_the_same(tmp_path, capsys):
    base, pairs = made(tmp_path / "model", count=6)
    contexts, options = contexts_of(pairs), Options("debias-lora", "2of4")
    tuning = Tuning(base, contexts, TEXTS, options)
    assert "one sentence a row" not in capsys.readouterr().err
    config = tmp_path / "model/config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"sliding_window": 2}))
    plain = Tuning(base, contexts, TEXTS, options)
    assert (tuning.scorer.trees, plain.scorer.trees) == (True, False)
    assert "takes one sentence a row, which takes longer" in capsys.readouterr().err
    torch.testing.assert_close(tuning.leads(contexts), plain.leads(contexts), rtol=1e-3, atol=1e-4)


def test_no_row_is_longer_than_what_was_tried(tmp_path, monkeypatch):
    base, pairs = made(tmp_path / "model", count=6)
    contexts = contexts_of(pairs)
    tuning = Tuning(base, contexts, TEXTS, Options("debias-lora", "2of4"))
    whole, filled, lengths = tuning.leads(contexts), tuning.scorer._filled, []
    monkeypatch.setattr(groups, "PASS", 8)
    monkeypatch.setattr(
        tuning.scorer, "_filled", lambda rows: lengths.append(max(map(len, rows))) or filled(rows)
    )
    torch.testing.assert_close(tuning.leads(contexts), whole, rtol=1e-3, atol=1e-4)
    assert len(lengths) > 1
    assert max(lengths) <= 8 + max(one.tokens for one in contexts)


def test_log_probabilities_have_their_gradient_where_tokens_repeat():
    logits = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    place, token = torch.tensor([[0, 0, 1, 1, 2], [1, 1, 1, 2, 4]])
    assert torch.autograd.gradcheck(lambda given: LogProbs.apply(given, place, token), [logits])


@pytest.mark.parametrize("trees", [True, False])
def test_the_gradient_is_that_of_single_sentences_in_float64(trees, tmp_path, monkeypatch):
    base, pairs = made(tmp_path / "model", count=6)
    contexts = contexts_of(pairs)
    monkeypatch.setattr("evenprune.methods.adapters.KEPT", trees << 20)  # kept, or made anew
    tuning = drawn(Tuning(base, contexts, TEXTS, Options("debias-lora", "2of4")))
    tuning.scorer.trees = trees
    losses, falls = tuning.terms(contexts, [1] * len(contexts), tuning.leads(contexts))
    drift = tuning.drift(TEXTS[:1])
    ((losses + module.keep_term(falls)).sum() + drift).backward()
    tuning.adapters.gather()
    model = in_float64(base)
    changes = {
        name: [matrix.detach().double().requires_grad_() for matrix in both]
        for name, both in tuning.adapters.matrices.items()
    }
    weights = {
        f"{name}.weight": model.get_parameter(f"{name}.weight")
        + tuning.adapters.units[name] * b @ a
        for name, (a, b) in changes.items()
    }

    total = 0.0
    for one in contexts:
        total = total + naive("association", model, *one.pairs[:2], weights)
        for ids in one.pairs[0]:
            now, was = (
                log_p(model, ids, w) - log_p(model, one.unrelated, w) for w in (weights, None)
            )
            total = total + 0.5 * torch.relu(was - now) ** 2
    before = log_probs(model, TEXTS[0])
    right = (before.exp() * (before - log_probs(model, TEXTS[0], weights))).sum()
    assert drift.item() == pytest.approx(right.item(), rel=1e-3)
    (total + right).backward()
    for name, both in changes.items():
        for matrix, found in zip(both, tuning.adapters.matrices[name], strict=True):
            close = {"rtol": 1e-3, "atol": 1e-3 * matrix.grad.abs().max().item()}
            torch.testing.assert_close(found.grad.double(), matrix.grad, **close)


@pytest.mark.parametrize("budget", ["kl", "fall"])
def test_the_scale_chosen_is_the_largest_within_the_budgets(budget, tmp_path, monkeypatch):
    base, pairs = made(tmp_path / "model")
    contexts = contexts_of(pairs)

    def curve(kl=10.0, fall=1e3):
        options = Options("debias-lora", "2of4", lora_budget=kl)
        monkeypatch.setattr(module, "FALL", fall)
        return drawn(Tuning(base, contexts, TEXTS, options)).curve(contexts, TEXTS)

    first, whole = curve()
    assert (first["scale"], first["kl"], whole["scale"]) == (0.0, 0.0, 1.0)
    assert first["fall"] == pytest.approx(0.0, abs=1e-4)
    most = (whole[budget] - first[budget]) / 5
    found = curve(**{budget: most})
    assert found[0] == first
    assert found[-1] == whole
    rises = {one["scale"]: one[budget] - first[budget] for one in found}
    assert list(rises.values()) == sorted(rises.values())  # so that the bisection finds the largest
    chosen = max(scale for scale, rise in rises.items() if rise <= most)
    assert 0 < chosen < 1
    assert rises[SCALES[SCALES.index(chosen) - 1]] > most


@pytest.mark.parametrize("why", ["out of budget", "it does not fall"])
def test_nothing_is_changed_by_what_does_not_gain(why, tmp_path, monkeypatch, capsys):
    base, pairs = made(tmp_path / "model")
    if why == "it does not fall":
        point = {"loss": 1.0, "fall": 0.0, "kl": 0.0}
        same = [point | {"scale": scale} for scale in (0.0, 1.0)]
        monkeypatch.setattr(Tuning, "curve", lambda *_: same)
    before = dict(base.stored)
    with monkeypatch.context() as patch, pytest.raises(UserError, match="overflowed"):
        patch.setattr(Tuning, "train", lambda _: [{"bias": math.nan}])
        adapted(base, pairs, tmp_path / "broken")
    given = {"lora_steps": 2, "lora_rate": 0.5, "lora_budget": 1e-9}
    record = adapted(base, pairs, tmp_path / "kept", **given)
    assert (record["kept"], record["scale"]) == (False, 0.0)
    least = 1.0 if why == "it does not fall" else SCALES[-1]
    assert [one["scale"] for one in record["curve"]][:2] == [0.0, least]
    assert base.stored == before
    assert f"{why}, nothing is changed" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_training_lowers_the_loss_and_what_is_written_is_what_was_trained(name, tmp_path, all_used):
    base, pairs = made(tmp_path / "model", name)
    first = {full: read_tensor(base.entry(f"{full}.weight")) for full in base.linears()}
    given = {"lora_steps": 8, "lora_rate": 0.01, "lora_budget": 10.0, "lora_blocks": 0.5}
    record = adapted(base, pairs, tmp_path / "kept", **given)
    assert record["kept"]
    assert record["after"] < record["before"]
    assert len(record["steps"]) == 8
    used = contexts_of(pairs)
    fresh, _ = made(tmp_path / "model", name)
    tuning = Tuning(fresh, used, TEXTS, Options("debias-lora", "2of4", **given))
    tuning.train()
    trained = tuning.curve(used, TEXTS)
    assert trained[0]["loss"] == pytest.approx(record["before"], rel=1e-4)
    assert trained[-1]["loss"] == pytest.approx(record["after"], rel=1e-4)
    assert 0 < len(tuning.adapters.matrices) < len(first)
    for full in base.linears():  # merged: the same function without adapters
        written = read_tensor(base.entry(f"{full}.weight"))
        assert torch.equal(written, first[full]) == (full not in tuning.adapters.matrices)
        tuning.model.get_parameter(f"{full}.weight").data.copy_(written)
    with tuning.adapters.scaled(0.0):
        losses, _ = tuning.terms(used, [1] * len(used), tuning.leads(used))
    assert losses.mean().item() == pytest.approx(record["after"], rel=1e-3)


@pytest.mark.parametrize("loss", ["none", "association"])
def test_without_a_loss_only_what_keeps_language_is_trained(loss, tmp_path, monkeypatch):
    """With its two terms out, too, nothing is."""
    monkeypatch.setattr(module, "DRIFT", 0.0)
    base, pairs = made(tmp_path / "model")
    options = Options("debias-lora", "2of4", lora_loss=loss, lora_keep=0.0, lora_steps=2)
    tuning = Tuning(base, contexts_of(pairs), TEXTS, options)
    tuning.train()
    moved = [bool(two.any()) for _, two in tuning.adapters.matrices.values()]
    assert moved == [loss != "none"] * len(moved)


def test_a_pruned_model_is_drawn_back_to_the_base_model(tmp_path):
    """KL divergences are from the model before pruning; the curve has what is above the pruned."""
    base, pairs = made(tmp_path / "model")
    halved = {f"{one}.weight": read_tensor(base.entry(f"{one}.weight")) for one in base.linears()}
    for weight in halved.values():
        weight[:, ::2] = 0
    save_file(halved, tmp_path / "halved.safetensors")
    base.stored.update(read_header(tmp_path / "halved.safetensors"))
    given = {"lora_steps": 8, "lora_rate": 0.02, "lora_keep": 0.0, "lora_loss": "none"}
    tuning = Tuning(base, contexts_of(pairs), TEXTS, Options("debias-lora", "2of4", **given))
    model = in_float64(base)
    before = [log_probs(model, ids) for ids in TEXTS]
    for name, weight in halved.items():
        model.get_parameter(name).data.copy_(weight)
    for change in (tuning.train, lambda: None):
        both = zip(before, (log_probs(model, ids) for ids in TEXTS), strict=True)
        right = sum((p.exp() * (p - q)).sum().item() for p, q in both)
        assert tuning.drift(TEXTS).item() == pytest.approx(right, rel=1e-3)
        change()
        merged(tuning, model)
    assert tuning.curve(contexts_of(pairs), TEXTS)[-1]["kl"] < 0


def test_the_scale_is_linear_and_its_sign_turns(tmp_path, all_used):
    base, pairs = made(tmp_path / "model")
    name = list(base.linears())[-1]
    first = read_tensor(base.entry(f"{name}.weight"))
    changes = []
    for scale in (1.0, 2.0, -1.0):
        again, _ = made(tmp_path / "model")
        given = {"lora_steps": 5, "lora_rate": 0.01, "lora_scale": scale, "lora_budget": 10.0}
        adapted(again, pairs, tmp_path / f"kept{scale}", **given)
        changes.append(read_tensor(again.entry(f"{name}.weight")) - first)
    torch.testing.assert_close(changes[1], 2 * changes[0], rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(changes[2], -changes[0], rtol=1e-3, atol=1e-6)


def test_a_finished_training_is_taken_and_a_killed_one_ends_with_the_same_bytes(
    tmp_path, monkeypatch, all_used
):
    base, pairs = made(tmp_path / "model")
    given = {"lora_steps": 4, "lora_rate": 0.01, "lora_budget": 10.0}
    record = adapted(base, pairs, tmp_path / "one", **given)
    files = sorted((tmp_path / "one").glob("block-*"))
    again, _ = made(tmp_path / "model")
    with pytest.raises(KeyboardInterrupt), monkeypatch.context() as once:
        once.setattr(module, "write_json", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        adapted(again, pairs, tmp_path / "two", **given)
    assert adapted(again, pairs, tmp_path / "two", **given) == record
    for file in files:
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
    monkeypatch.setattr(Tuning, "train", None)  # not called again
    assert adapted(again, pairs, tmp_path / "two", **given) == record
    files[0].write_bytes(files[0].read_bytes()[:-1] + b"\x7f")
    with pytest.raises(UserError, match="has changed since it was written"):
        adapted(base, pairs, tmp_path / "one", **given)


def test_whole_groups_and_every_fifth_text_are_held_out(tmp_path):
    _, pairs = made(tmp_path / "model")
    used, held = split(contexts_of(pairs), 0)
    assert held
    assert not {one.target for one in used} & {one.target for one in held}
    learned, measured = split_texts([[(1, k), (2, k)] for k in range(10)])
    assert measured == [(1, 0), (2, 0), (1, 5), (2, 5)]
    assert sorted(learned + measured) == [(n, k) for n in (1, 2) for k in range(10)]
    assert split_texts([[ids] for ids in TEXTS]) == (TEXTS, TEXTS)  # too few
    with pytest.raises(UserError, match="at least two tokens"):
        split_texts([[(1,)]])


# A whole run: what is changed, what prunes it, what is recorded and refused


LORA = {"method": "debias-lora", "lora_steps": 5, "lora_rate": 0.01, "lora_blocks": 1}
LORA |= {"lora_budget": 1}


def run(base, pairs, out, **options):
    return main(prune_command(base, out, pairs, **{"method": "sparsegpt"} | options))


@pytest.mark.parametrize(("regime", "solver"), [("2of4", "sparsegpt"), ("u50", "wanda")])
def test_a_solver_prunes_and_the_adapters_are_of_what_it_leaves(
    prunable, pairs, tmp_path, all_used, regime, solver
):
    """The zeros are those of the other method's model, pruned by now or before."""
    then, moved = tmp_path / "then", tmp_path / "0"
    assert run(prunable, pairs, then, method=solver, regime=regime) == 0
    for number, (base, of) in enumerate([(prunable, prunable), (then, then), (prunable, then)]):
        out, kind = tmp_path / str(number), "dense" if of == base else regime
        assert run(base, pairs, out, **LORA, regime=kind, solver=solver) == 0
        ours, old = tensors(out), tensors(of)
        assert set(ours) == set(old)
        for name, weight in ours.items():
            assert torch.equal(weight, old[name]) != (".layers." in name and weight.ndim == 2), name
            assert torch.equal(weight == 0, old[name] == 0), name
        assert check_model(out, base)["regime"] == kind
    manifest = json.loads((moved / "manifest.json").read_text())
    shifted = manifest["shifted"]
    assert (len(shifted["steps"]), manifest["options"]["lora_rate"]) == (5, 0.01)
    card = (moved / "README.md").read_text()
    assert f"adapters were trained on {shifted['contexts']} contexts" in card
    assert "no new zeros, the changed weights" in card
    given_up = model_card({**manifest, "shifted": {**shifted, "kept": False}})
    assert card.count("nothing was changed") < given_up.count("nothing was changed")


def test_options_that_do_not_fit(prunable, pairs, tmp_path, capsys):
    for options, words in (
        ({"method": "sparsegpt", "regime": "dense"}, ("takes no weights away", "debias-lora")),
        ({**LORA, "alignment": "pad"}, ("--alignment: got 'pad'", "suffix")),
    ):
        refused(capsys, prune_command(prunable, tmp_path / "out", pairs, **options), *words)
    bare = tmp_path / "bare.jsonl"
    bare.write_text(pairs.read_text().replace('"counterfactuals"', '"others"'))
    said = refused(capsys, prune_command(prunable, tmp_path / "out", bare, **LORA), "none of the")
    assert ("block 1/" in said, (tmp_path / "out").exists()) == (False, False)
