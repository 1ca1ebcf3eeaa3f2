"""The new user's hour by commands, as docs/your-own.md says; by configuration: test_run.py."""

import json

import pytest
from browser import chromium_path, opened

from evenprune.cli import main

from .conftest import own_files


@pytest.mark.slow
def test_by_commands(tmp_path, monkeypatch, capsys):
    own_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    prune = "prune --model my/model --pairs my/pairs.csv --regime 2of4 --method debias-sparsegpt"
    prune = [*prune.split(), "--device", "cpu", "--block-size", "16"]
    assert main([*prune, "--out", "dropped"]) == 0
    said = capsys.readouterr().err
    assert "5 of 10 pairs are dropped" in said
    assert "3, 5, 7, 9, 11; `--alignment suffix` keeps them" in said
    assert main([*prune, "--alignment", "suffix", "--out", "pruned"]) == 0
    assert "pairs are dropped" not in capsys.readouterr().err
    quiz = ["--benchmark", "multiple_choice", "--data", "my/quiz.jsonl", "--device", "cpu"]
    assert main(["evaluate", "--model", "pruned", *quiz, "--quiet", "--out", "scores"]) == 0
    done = capsys.readouterr()
    assert done.out.startswith("multiple_choice: acc ")
    assert done.err == ""
    compare = ["compare", "my/model", "pruned", *quiz, "--evals", "kept", "--out", "compared"]
    assert main(compare) == 0
    table = capsys.readouterr().out
    (block,) = json.loads((tmp_path / "compared/comparison.json").read_text())["blocks"]
    assert [row["metric"] for row in block["rows"]] == ["acc", "stereotype_rate"]
    assert all(row["verdict"] in table for row in block["rows"])
    if not chromium_path():
        pytest.skip("no Chromium, or no playwright: the page was not opened")
    with opened(tmp_path / "compared/comparison.html") as page:
        assert "stereotype_rate" in page.run("document.body.innerText")
        assert page.errors == []
