"""Broken models, chat templates and disks: one sentence, exit status 2, and never a score."""

import math
import re

import pytest
import torch
from both import refused
from evaluation_fixtures import char_tokenizer, command, save_model

from evenprune import cli
from evenprune.language_models import language_model, templates
from evenprune.tasks import judges

# task and part -> further options
TASKS = {
    **dict.fromkeys(("unqover", "hellaswag", "stereoset", "perplexity"), ()),
    "perplexity lmeval": ("--split", "lmeval"),
    "perplexity documents": (),
    "realtoxicityprompts": ("--max-new-tokens", "4"),
    "harmbench": ("--max-new-tokens", "4"),
}
LOOP = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


def words(task, model, data, out, *more):
    name = task.split()[0]
    given = ["--data", str(data / "tinystories")] if task.endswith("documents") else []
    return [*command(name, model, data, out, *TASKS.get(task, ())), *given, *more]


@pytest.mark.parametrize("task", TASKS)
def test_no_benchmark_scores_logits_that_are_no_numbers(
    task, model, data, tmp_path, monkeypatch, capsys
):
    """Weights that are damaged behind all that loading checks."""
    real = language_model.load_language_model

    def load(path, *rest):
        lm = real(path, *rest)
        with torch.no_grad():
            lm.model.model.norm.weight[0] = math.nan
        return lm

    monkeypatch.setattr(language_model, "load_language_model", load)
    monkeypatch.setattr(judges, "load_language_model", load)
    assert cli.main(words(task, model, data, tmp_path / "out")) == 2
    said = capsys.readouterr().err
    assert re.search(r"error: expected finite .*item.*weights are damaged", said, re.DOTALL), said
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()  # nothing recorded, nothing kept


@pytest.mark.parametrize(
    ("task", "text", "message"),
    [
        ("unqover", "{{ '[user]' }}", "drops or changes"),
        ("unqover", "{{ 'x' * 10**10 }}", "MemoryError"),
        ("unqover", LOOP, "does not come to an end"),
        ("mmlu", "{% for m in messages %}{{ m.content }", "does not render"),
        ("harmbench", "{{ raise_exception('no such role') }}", "no such role"),
        ("unqover", "{{ 'ab' | random }}{{ messages[0].content }}", "draws at random"),
        ("mmlu", "{{ lipsum() }}{{ messages[0].content }}", "draws at random"),
    ],
)
def test_a_bad_chat_template_is_one_sentence(
    task, text, message, data, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(templates, "SECONDS", 3)
    folder = save_model(tmp_path / "model")
    (folder / "chat_template.jinja").write_text(text)
    refused(capsys, words(task, folder, data, tmp_path / "out", "--chat-template"), message)
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_had_or_recorded_is_said_before_anything_is_scored(data, tmp_path, capsys):
    folder = save_model(tmp_path / "model")
    argv = words("stereoset", folder, data, tmp_path / "out")
    refused(capsys, [*argv, "--gpus", "0"], "expected --gpus to be at least 1, got 0")
    (folder / "source.json").write_text("{")
    assert "to do" not in refused(capsys, argv, "source.json")


def test_a_chat_template_sees_one_day_for_ever():
    tokenizer = char_tokenizer()
    tokenizer.chat_template = "{{ strftime_now('%d %b %Y') }}: {{ messages[0].content }}"
    assert templates.user_turns(tokenizer, ["Who?"]) == ["26 Jul 2024: Who?"]
