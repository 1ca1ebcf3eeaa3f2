"""DebiasSparseGPTModifier in llm-compressor, beside our engine and the formula.

``support/peer_modifier.py`` runs in an environment of its own.
"""

import os
import subprocess

import pytest
import torch
from peer_python import llmcompressor_python
from pruning_models import random_pairs, save_model, write_rows
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from evenprune.data.calibration import tokenize_pairs, tokenize_texts
from evenprune.pruning.calibration_text import Text
from evenprune.pruning.engine import prune_model
from evenprune.pruning.factor import inverse_factor
from evenprune.pruning.masks import regime_of
from evenprune.pruning.options import Options
from evenprune.pruning.solver import prune_columns

pytestmark = pytest.mark.slow
TEXTS = ["a b c d e f g", "h i j k"]


@pytest.fixture(scope="module")
def peer(repo, tmp_path_factory):
    """Prune a small random Llama there: peer(b) returns what it traced."""
    python = llmcompressor_python(repo, "peer", "0.14", "benchmarks/bench_pruning.py")
    folder = tmp_path_factory.mktemp("peer")
    model = save_model(folder / "base", "llama2", seed=1)
    rows = random_pairs(24, seed=1, low=8, high=12)
    rows += [{**rows[0], "id": "unequal", "anti_stereotype": rows[0]["stereotype"] + " A"}]
    texts = [{"id": str(k), "text": text} for k, text in enumerate(TEXTS)]
    pairs = write_rows(folder / "pairs.jsonl", rows)
    plain = write_rows(folder / "texts.jsonl", texts)
    environment = {**os.environ, "PYTHONPATH": str(repo / "src")}

    def run(bias_weight, pairs=pairs):
        out = folder / f"out{bias_weight}"
        script = repo / "tests/support/peer_modifier.py"
        done = subprocess.run(
            [python, script, model, pairs, plain, out, str(bias_weight)],
            env=environment, cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            return done.stderr
        assert "calibration: 24 pairs, 1 dropped" in done.stderr
        trace = {}
        for name, tensor in load_file(out / "trace.safetensors").items():
            matrix, _, what = name.rpartition(".")
            trace.setdefault(matrix, {})[what] = tensor
        return trace

    run.model, run.folder = model, folder
    tokenizer = AutoTokenizer.from_pretrained(model)
    run.text = Text(
        tokenize_pairs(rows, tokenizer, "equal-length"),
        [(str(k), ids) for k, ids in enumerate(tokenize_texts(TEXTS, tokenizer))],
        {},
        {},
    )
    return run


@pytest.fixture(scope="module")
def trace(peer):
    return peer(1.0)


def test_masks_on_its_hessian_are_those_of_our_solver(trace):
    assert len(trace) == 14
    for name, one in trace.items():
        factor = inverse_factor(one["hessian"], 0.01)
        ours = one["before"].T.clone().contiguous()
        prune_columns(ours, factor.upper, regime_of("2of4"), 128, [ours.shape[1]])
        same = ((ours.T == 0) == (one["after"] == 0)).float().mean()
        assert same >= 0.999, name
        torch.testing.assert_close(ours.T.contiguous(), one["after"], rtol=1e-3, atol=1e-4)


def test_the_hessian_is_the_equation(peer, trace):
    """Of the first matrices, whose inputs are the embedded tokens, normalised: in float64."""
    model = AutoModelForCausalLM.from_pretrained(peer.model, dtype=torch.float64)
    norm = model.model.layers[0].input_layernorm

    def inputs(ids):
        with torch.no_grad():
            return norm(model.model.embed_tokens(torch.tensor([ids])))[0]

    samples = 2 * len(peer.text.pairs.pairs) + len(TEXTS)
    plain = sum(x.T @ x for _, ids in peer.text.texts for x in [inputs(ids)])
    difference = 0
    for pair in peer.text.pairs.pairs:
        first, second = inputs(pair.ids0), inputs(pair.ids1)
        plain = plain + first.T @ first + second.T @ second
        difference = difference + (first - second).T @ (first - second)
    found = trace["model.layers.0.self_attn.q_proj"]["hessian"].double()
    assert difference.abs().max() > 0.01 * plain.abs().max()
    torch.testing.assert_close(
        found, 2 / samples * (plain + 2 * difference), rtol=1e-4, atol=1e-5 * float(plain.max())
    )


def test_a_whole_run_prunes_as_our_engine_does(peer, trace):
    ours = peer.folder / "ours"
    options = Options("debias-sparsegpt", "2of4")
    prune_model(peer.model, options, peer.text, ours, "cpu")
    weights = load_file(next(ours.glob("*.safetensors")), device="cpu")
    for file in ours.glob("*.safetensors"):
        weights |= load_file(file)
    equal = [
        float(((weights[f"{name}.weight"] == 0) == (one["after"] == 0)).float().mean())
        for name, one in trace.items()
    ]
    assert min(equal) >= 0.99, equal
    assert sum(equal) / len(equal) >= 0.999


def test_without_pairs_it_stops(peer):
    """Every pair is of unequal counts."""
    rows = [
        {"id": "1", "category": "", "stereotype": "a b", "anti_stereotype": "a b c"},
        {"id": "2", "category": "", "stereotype": "a", "anti_stereotype": "a b c"},
    ]
    said = peer(2.0, write_rows(peer.folder / "unequal.jsonl", rows))
    assert "expected pairs of equal token count" in said
