"""vLLM as an evaluation backend: the worker, what it says, what happens when it dies."""

import os
import sys

import pytest
from both import refused
from evaluation_fixtures import (
    FOLDERS,
    LETTERS,
    char_tokenizer,
    checkpoint_command,
    command,
    items_of,
    result_of,
    tiny_llama,
)
from fake_vllm import install
from transformers import LlamaForCausalLM

from evenprune import cli
from evenprune.language_models import vllm_model
from evenprune.language_models.language_model import load_language_model
from evenprune.language_models.vllm_model import load_vllm_model
from evenprune.serving import environment
from evenprune.tasks.lettered_options import score_prompts

# Everything that a backend computes: lettered options, lm-eval, windows, answers.
TASKS = {
    "unqover": {"orders": 6}, "bbq": {}, "hellaswag": {}, "mmlu": {}, "crows_pairs": {},
    "perplexity": {"split": "all"}, "realtoxicityprompts": {"max_new_tokens": 12},
    "harmbench": {"max_new_tokens": 12},
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny random Llama whose heads are as wide as vLLM's CPU kernels want them."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    tokenizer = char_tokenizer(True, LETTERS)
    tokenizer.eos_token = "?"
    wide = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
    wide["eos_token_id"] = tokenizer.eos_token_id
    tiny_llama(len(tokenizer), seed=1, **wide).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def fake(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(install(tmp_path / "fake")))
    return sys.executable


def checkpoint(backend, model, data, out, python):
    wanted = {
        task: {
            "task": task,
            "backend": backend,
            "batch_size": 2,
            "data": str(data / FOLDERS.get(task, task)),
            **options,
        }
        for task, options in TASKS.items()
    }
    more = ("--device", "cpu", "--serving-python", python)
    return cli.main(checkpoint_command(model, out, wanted, *more))


def logprobs(record):
    """Return the log-probabilities of a record; of a document their mean over its parts."""
    if "nll" in record:
        parts = next(record[key] for key in ("n_tokens", "n_words", "n_bytes") if key in record)
        return [-record["nll"] / parts]
    return [*record.get("option_logprobs", ()), *record.get("shared_logprobs", ())]


def agree(ours, theirs):
    """Return whether two evaluations in float32 differ by no more than rounding explains.

    One near tie decides otherwise, and the rest of an answer is another one.
    """
    pairs = list(zip(ours, theirs, strict=True))
    assert all(a["item_id"] == b["item_id"] and a.get("perm") == b.get("perm") for a, b in pairs)
    for key, least in (("pred", 0.995), ("response_sha256", 0.9)):
        same = [a[key] == b[key] for a, b in pairs if key in a]
        if sum(same) < least * len(same):
            return False
    gaps = [abs(x - y) for a, b in pairs for x, y in zip(logprobs(a), logprobs(b), strict=True)]
    assert bool(gaps) != ("response_sha256" in ours[0])
    return all(gap <= 1e-3 for gap in gaps)  # nats


def assert_agreement(vllm, transformers):
    for task in TASKS:
        assert agree(items_of(vllm / task), items_of(transformers / task)), task
        spec = result_of(vllm / task)["spec"]
        assert (spec["backend"], spec["dtype"]) == ("vllm", "float32")


# The worker, with a package named vllm that computes with transformers


@pytest.mark.slow
def test_all_benchmarks_of_a_checkpoint_share_one_worker(model, data, tmp_path, fake, monkeypatch):
    log = tmp_path / "loads"
    monkeypatch.setenv("FAKE_VLLM_LOG", str(log))
    assert checkpoint("transformers", model, data, tmp_path / "own", fake) == 0
    assert not log.exists()

    headers_only = LlamaForCausalLM.from_pretrained

    def no_weights(*args, device_map=None, **kwargs):
        assert device_map == "meta", "weights are loaded by the worker alone"
        return headers_only(*args, device_map=device_map, **kwargs)

    monkeypatch.setattr(LlamaForCausalLM, "from_pretrained", no_weights)
    assert checkpoint("vllm", model, data, tmp_path / "vllm", fake) == 0
    (worker,) = log.read_text().split()
    with pytest.raises(ProcessLookupError):
        os.kill(int(worker), 0)
    assert_agreement(tmp_path / "vllm", tmp_path / "own")
    wrong = items_of(tmp_path / "own/unqover")
    wrong[0]["option_logprobs"][0] += 1
    assert not agree(items_of(tmp_path / "vllm/unqover"), wrong)
    found = result_of(tmp_path / "vllm/unqover")
    assert found["versions"]["vllm"] == "0.32.0"
    # Everything is there: no worker is started again.
    assert checkpoint("vllm", model, data, tmp_path / "vllm", fake) == 0
    assert len(log.read_text().split()) == 1


def test_options_of_several_tokens_and_cut_prompts(model, fake):
    """Summed options, one token behind a common blank, and a prompt longer than the context."""
    own = load_language_model(model, "cpu")
    theirs = load_vllm_model(model, "cpu", "auto", fake)
    try:
        prompts = [
            ("Who sang?", (" yes", " no", " nobody knows")),
            ("Who sang?", (" x", " y", " z")),
            ("a" * 600, (" A", " B", " C")),
            ("b" * 600, (" yes", " no", " nobody")),
        ]
        pairs = list(zip(score_prompts(theirs, prompts), score_prompts(own, prompts), strict=True))
        assert [a.path for a, _ in pairs] == ["summed", "shared-prefix", "next-token", "summed"]
        for a, b in pairs:
            assert a.logprobs == pytest.approx(b.logprobs, abs=1e-3)
            assert (a.mass, a.n_tokens, a.truncated) == (
                pytest.approx(b.mass, abs=1e-4), b.n_tokens, b.truncated,
            )  # fmt: skip
        # Log-probabilities stand in for logits.
        assert pairs[2][0].logits == pairs[2][0].logprobs
        assert theirs.row_losses([[1], [1, 5, 7]])[0] == []
        with pytest.raises(NotImplementedError):
            theirs.generate([[1]], 1, None, keep_logits=True)
    finally:
        theirs.close()


def test_without_vllm_nothing_starts(model, data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "has_vllm", lambda: False)
    monkeypatch.setattr(vllm_model, "SOURCE", tmp_path / "checkout/src")
    words = command("unqover", model, data, tmp_path / "out", "--backend", "vllm")
    refused(capsys, words, "there is no vLLM here; run `make vllm-env`")
    assert not (tmp_path / "out").exists()


# Real vLLM


@pytest.mark.slow
def test_real_vllm_agrees_with_transformers(model, data, tmp_path, vllm_python, monkeypatch):
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path / "cache"))
    assert checkpoint("transformers", model, data, tmp_path / "own", vllm_python) == 0
    assert checkpoint("vllm", model, data, tmp_path / "vllm", vllm_python) == 0
    assert_agreement(tmp_path / "vllm", tmp_path / "own")
