"""`compare --fidelity`: against a naive script in float64, and what it refuses."""

import functools
import json
import math
import shutil

import numpy as np
import pytest
import torch
from both import refused
from evaluation_fixtures import save_model, unqover_rows, write_jsonl
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from evenprune.cli import main
from evenprune.comparison.fidelity import by_document, quantile
from evenprune.evaluation import divergence
from evenprune.evaluation.divergence import diverge, keep, read_windows
from evenprune.language_models.language_model import load_language_model

WORDS = ["Vel ran.", "A man met Tor.", "Lumo sang well and Kesh was rich."]


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    root = tmp_path_factory.mktemp("fidelity")
    write_jsonl(root / "data/datas_rebuilt.jsonl", unqover_rows(24))
    draw = np.random.default_rng(3)
    texts = [" ".join(draw.choice(WORDS, size)) for size in draw.integers(1, 60, 14)]
    write_jsonl(root / "text/docs.jsonl", [{"id": f"d{k}", "text": t} for k, t in enumerate(texts)])
    return root, save_model(root / "dense"), save_model(root / "other", seed=1)


def naive(dense, other, windows):
    """KL, agreement and both losses of llama.cpp's definition, one position after the other."""
    found = []
    load = functools.partial(AutoModelForCausalLM.from_pretrained, dtype=torch.float64)
    both = load(dense), load(other)
    for window in windows:
        with torch.inference_mode():
            p, q = (m(torch.tensor([window.tokens])).logits[0].log_softmax(-1) for m in both)
        for place in range(window.first - 1, len(window.tokens) - 1):
            kl = sum(math.exp(a) * (a - b) for a, b in zip(p[place].tolist(), q[place].tolist()))
            token = window.tokens[place + 1]
            same = float(p[place].argmax() == q[place].argmax())
            found.append((kl, same, -p[place, token].item(), -q[place, token].item()))
    return np.array(found).T


@pytest.mark.parametrize("piece", [1 << 22, 700])  # of the vocabulary in one piece, in several
def test_divergences_are_those_of_a_naive_script(ground, tmp_path, monkeypatch, piece):
    root, dense, other = ground
    monkeypatch.setattr(divergence, "PIECE", piece)
    monkeypatch.setattr(divergence, "SCORED", 50)
    tokenizer = AutoTokenizer.from_pretrained(dense)
    windows = read_windows(tokenizer, root / "text", 512, None, 0)
    lengths = {len(window.tokens) for window in windows}
    assert max(lengths) == 512 > min(lengths)
    for window in windows:
        assert window.tokens[0] == tokenizer.bos_token_id
        assert window.first == (257 if len(window.tokens) == 512 else 1)
    lm = load_language_model(dense, "cpu")
    kept = keep(lm, windows, tmp_path)
    lm.close()
    found = diverge(load_language_model(other, "cpu"), windows, kept)
    for own, expected in zip(
        (found.kl, found.same_top, found.base_nll, found.nll), naive(dense, other, windows)
    ):
        np.testing.assert_allclose(own, expected, rtol=0, atol=5e-5)
    itself = diverge(load_language_model(dense, "cpu"), windows, kept)
    assert not itself.kl.any()
    assert itself.same_top.all()
    np.testing.assert_array_equal(itself.nll, itself.base_nll)


class Largest(TorchDispatchMode):
    """The bytes of the largest tensor that is made."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **kwargs or {})
        if isinstance(made, torch.Tensor) and not made.is_meta:
            self.size = max(self.size, made.numel() * made.itemsize)
        return made


def test_logits_of_a_large_vocabulary_come_in_pieces(ground, tmp_path):
    """All of 64 positions would be 102 MB in float64."""
    root, dense, _ = ground
    large = tmp_path / "large"
    shutil.copytree(dense, large)
    config = AutoConfig.from_pretrained(dense)
    config.vocab_size = 200_000
    AutoModelForCausalLM.from_config(config).save_pretrained(large)
    windows = read_windows(AutoTokenizer.from_pretrained(dense), root / "text", 512, None, 0)
    lm = load_language_model(large, "cpu")
    kept = keep(lm, windows[:1], tmp_path)
    with Largest() as largest:
        diverge(lm, windows[:1], kept)
    assert largest.size < 64e6


def test_errors_are_over_documents():
    draw = np.random.default_rng(5)
    sizes = draw.integers(3, 90, 25)
    documents = [f"d{k}" for k, size in enumerate(sizes) for _ in range(size)]
    shifts = np.repeat(draw.normal(size=25), sizes)
    values = np.abs(draw.normal(size=len(documents)) + shifts)
    places = np.array(documents)
    without = [values[places != name].mean() for name in dict.fromkeys(documents)]
    expected = math.sqrt(24 / 25 * ((without - np.mean(without)) ** 2).sum())
    found = by_document(values, documents)
    assert found.value == pytest.approx(values.mean())
    assert found.stderr == pytest.approx(expected)
    assert found.df == 24
    one = quantile(values, documents, 0.9)
    assert one.value == np.quantile(values, 0.9)
    assert one.low < one.value < one.high
    assert quantile(values[:5], documents[:5], 0.9).low is None  # too few documents


def compare(root, *sides, more=()):
    words = ["compare", *sides, "--benchmark", "unqover", "--limit", "16", "--data"]
    return [*map(str, [*words, root / "data", "--fidelity", root / "text", *more])]


def test_a_comparison_says_it(ground, tmp_path, capsys):
    root, dense, other = ground
    more = ["--evals", tmp_path / "evals", "--out", tmp_path / "out"]
    assert main(compare(root, dense, dense, other, more=more)) == 0
    said = capsys.readouterr()
    assert "KL(dense ‖ model) 0 (0 to 0)" in said.out
    blocks = json.loads((tmp_path / "out/comparison.json").read_text())["blocks"]
    assert blocks[0]["fidelity"]["kl"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    found = blocks[1]["fidelity"]
    assert found["kl"]["low"] < found["kl"]["value"] < found["kl"]["high"]
    assert found["documents"] == 14
    assert "same likeliest token" in (tmp_path / "out/comparison.html").read_text()
    # Nothing of the dense model's states stays.
    assert all(len(one.name) == 16 for one in (tmp_path / "evals").iterdir())
    # What was found does: nothing is measured again.
    assert main(compare(root, dense, dense, other, more=more)) == 0
    again = capsys.readouterr()
    assert again.out == said.out
    assert said.err.count("fidelity of") == 2
    assert "fidelity of" not in again.err
    more[-1] = tmp_path / "third"
    assert main(compare(root, other, dense, more=more)) == 0
    assert "fidelity of" in capsys.readouterr().err  # another base


def test_what_fidelity_cannot_be_of(ground, tmp_path, capsys):
    root, dense, other = ground
    more = ["--evals", tmp_path / "evals"]
    shutil.copytree(other, tmp_path / "odd")
    tokenizer = json.loads((tmp_path / "odd/tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["V"], vocabulary["T"] = vocabulary["T"], vocabulary["V"]
    (tmp_path / "odd/tokenizer.json").write_text(json.dumps(tokenizer))
    odd = compare(root, dense, tmp_path / "odd", more=more)
    refused(capsys, odd, "split text into the same tokens")
    assert not (tmp_path / "evals").exists()  # before anything is evaluated
    evaluated = tmp_path / "evaluated"
    words = ["evaluate", "--model", dense, "--benchmark", "unqover", "--limit", "16", "--data",
             root / "data", "--out", evaluated]  # fmt: skip
    assert main([*map(str, words)]) == 0
    refused(capsys, compare(root, evaluated, other, more=more), "--fidelity needs models")
