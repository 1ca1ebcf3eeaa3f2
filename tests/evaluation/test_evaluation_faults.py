"""Broken models, chat templates and disks: one sentence, exit status 2, and never a score."""

import io
import json
import math
import shutil
import sys

import pytest
import torch
from evaluation_fixtures import checkpoint_command, command, contents, save_model, tiny_lm
from fake_vllm import install
from safety_models import save_guard

from evenprune import cli
from evenprune.base.errors import UserError
from evenprune.evaluation import journal as journal_module
from evenprune.evaluation import judges, language_model, vllm_model
from evenprune.evaluation.finite import exp_loss, require_finite
from evenprune.evaluation.generation import greedy
from evenprune.evaluation.lettered_options import score_prompts

# task and part -> further options
TASKS = {
    **dict.fromkeys(("unqover", "bbq", "hellaswag", "mmlu", "crows_pairs", "stereoset"), ()),
    "perplexity": (),
    "perplexity paper": ("--split", "paper"),
    "perplexity lmeval": ("--split", "lmeval"),
    "perplexity documents": (),
    "realtoxicityprompts": ("--max-new-tokens", "4"),
    "harmbench": ("--max-new-tokens", "4"),
}
DAMAGED = "weights are damaged"


def evaluate(task, model, data, out, *more):
    name = task.split()[0]
    given = ["--data", str(data / "tinystories")] if task.endswith("documents") else []
    return cli.main([*command(name, model, data, out, *TASKS.get(task, ())), *given, *more])


def nan_everywhere(model):
    model.model.norm.weight.data[0] = math.nan


def poison(monkeypatch, folder=None):
    """Damage what is loaded (of one folder), behind all that loading checks."""
    real = language_model.load_language_model

    def load(path, *rest):
        lm = real(path, *rest)
        if folder in (None, path):
            with torch.no_grad():
                nan_everywhere(lm.model)
        return lm

    monkeypatch.setattr(language_model, "load_language_model", load)
    monkeypatch.setattr(judges, "load_language_model", load)


@pytest.mark.parametrize("task", TASKS)
def test_no_benchmark_scores_logits_that_are_no_numbers(
    task, model, data, tmp_path, monkeypatch, capsys
):
    poison(monkeypatch)
    assert evaluate(task, model, data, tmp_path / "out") == 2
    said = capsys.readouterr()
    assert DAMAGED in said.err
    assert "item" in said.err
    assert "Traceback" not in said.err
    assert not (tmp_path / "out").exists()  # nothing recorded, nothing kept


@pytest.mark.slow
@pytest.mark.parametrize("task", ["unqover", "realtoxicityprompts"])
def test_no_score_from_vllm_either(task, model, data, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", str(install(tmp_path / "site")))
    monkeypatch.setenv("FAKE_VLLM", "nan")
    monkeypatch.setattr(vllm_model, "vllm_python", lambda asked: sys.executable)
    assert evaluate(task, model, data, tmp_path / "out", "--backend", "vllm") == 2
    assert DAMAGED in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_item_that_meets_the_damage_is_named():
    lm = tiny_lm()
    token = lm.tokenizer.convert_tokens_to_ids("z")
    lm.model.model.embed_tokens.weight.data[token] = math.nan
    prompts = [("abcdefgh", (" A", " B")), ("abczefgh", (" A", " B"))]
    with pytest.raises(UserError, match=r"item second, got nan"):
        score_prompts(lm, prompts, names=["first", "second"])


def test_a_guard_whose_logits_are_no_numbers(model, data, tmp_path, monkeypatch, capsys):
    guard = save_guard(tmp_path / "guard")
    poison(monkeypatch, guard)
    out = tmp_path / "out"
    assert evaluate("harmbench", model, data, out, "--judge", str(guard)) == 2
    said = capsys.readouterr().err
    assert "judge pr" in said
    assert DAMAGED in said
    assert not (out / "metrics.json").exists()


def test_masked_tokens_are_no_damage():
    """-inf for tokens that must never come is sound, as long as one logit is finite."""
    lm = tiny_lm()
    head = lm.model.lm_head
    forward = head.forward

    def masked(hidden):
        logits = forward(hidden).clone()
        logits[..., 0] = -math.inf
        return logits

    head.forward = masked
    made = list(greedy(lm, [[1, 5, 6]], 4, 1, "answers"))
    assert made[0][1].n_new_tokens == 4
    assert score_prompts(lm, [("Who?", (" A", " B"))])[0].mass > 0


def test_what_is_refused_and_what_it_says():
    require_finite("x", [("a", [0.0, -1e300])])
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(UserError, match="for x, item b, got"):
            require_finite("x", [("a", [0.0]), ("b", [1.0, bad])])
    assert exp_loss(1.0) == math.exp(1.0)
    with pytest.raises(UserError, match="too large for a perplexity"):
        exp_loss(1000.0)


def test_nan_is_not_blamed_on_the_architecture(tmp_path):
    lm = tiny_lm()
    nan_everywhere(lm.model)
    with pytest.raises(UserError, match=DAMAGED):
        language_model._check_head(lm, tmp_path)


def test_a_bos_token_without_an_embedding(model, data, tmp_path, capsys):
    broken = shutil.copytree(model, tmp_path / "broken")
    (broken / "tokenizer_config.json").write_text(json.dumps({"bos_token": "unheard of"}))
    assert evaluate("stereoset", broken, data, tmp_path / "out") == 2
    assert "has no embedding" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


TEMPLATES = {
    "drops": ("{{ '[user]' }}", "same prompt"),
    "syntax": ("{% for m in messages %}{{ m.content }", "does not render"),
    "raises": ("{{ raise_exception('no such role') }}", "no such role"),
}


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("task", ["unqover", "mmlu", "harmbench"])
def test_a_bad_chat_template_is_one_sentence(task, template, data, tmp_path, capsys):
    text, message = TEMPLATES[template]
    folder = save_model(tmp_path / "model")
    (folder / "chat_template.jinja").write_text(text)
    assert evaluate(task, folder, data, tmp_path / "out", "--chat-template") == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()


def test_harmbench_without_the_chosen_subset(model, data, tmp_path, capsys):
    assert evaluate("harmbench", model, data, tmp_path / "out", "--split", "copyright") == 2
    assert "found only standard" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("slug", ["../../x", "/tmp/x", "..", "", "summary.json", "X"])
def test_a_benchmark_s_name_is_no_path(slug, model, data, tmp_path, capsys):
    wanted = {slug: {"task": "unqover", "data": str(data / "unqover")}}
    assert cli.main(checkpoint_command(model, tmp_path / "a/b/out", wanted)) == 2
    assert "name of a benchmark" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_benchmark_given_twice(model, data, tmp_path, capsys):
    one = json.dumps({"task": "unqover", "data": str(data / "unqover")})
    wanted = f'{{"u": {one}, "u": {one}}}'
    assert cli.main(checkpoint_command(model, tmp_path / "out", wanted)) == 2
    assert "'u' twice" in capsys.readouterr().err


class Full(io.FileIO):
    """A file on a disk that has room for some bytes more."""

    room = 700

    def write(self, data):
        if not self.room:
            raise OSError(28, "No space left on device")
        part = bytes(data)[: self.room]
        self.room -= len(part)
        return super().write(part)


def test_a_full_disk_ends_in_a_sentence_and_goes_on(model, data, tmp_path, monkeypatch, capsys):
    more = ["--batch-size", "2"]
    assert evaluate("unqover", model, data, tmp_path / "whole", *more) == 0
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:

        def full(path, mode, **options):
            if mode == "rb":
                return open(path, mode)
            raw = Full(path, mode)
            return raw if options.get("buffering") == 0 else io.BufferedRandom(raw)

        patch.setattr(journal_module, "open", full, raising=False)
        assert evaluate("unqover", model, data, out, *more) == 2
    assert "disk is full" in capsys.readouterr().err
    torn = (out / "partial.jsonl").read_bytes()
    assert len(torn) == 700
    assert not torn.endswith(b"\n")
    assert evaluate("unqover", model, data, out, *more) == 0
    assert contents(out) == contents(tmp_path / "whole")
