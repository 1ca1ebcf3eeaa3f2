"""The new user's hour: a model, pairs and questions of one's own, as docs/your-own.md says."""

import csv
import json
import re

import pytest
import yaml
from browser import chromium_path, opened
from evaluation_fixtures import save_model

from evenprune.cli import main

from .conftest import copy_workflow, counts, snakemake

PAIRS = [
    (f"The tall person number {k} leads", f"The {'very ' * (k % 2)}slim person number {k} leads")
    for k in range(10)
]
QUESTIONS = [
    {"question": f"Who has {k}?", "options": ["Ann", "Bob"], "answer": "AB"[k % 2], "stereotype": 1}
    for k in range(12)
]
QUESTIONS[5] = {"question": "Who sang?", "options": ["Ann", "Bob", "Eve"], "answer": 2}


@pytest.fixture
def own(repo, tmp_path, monkeypatch):
    """A clone with the user's files in my/, the working directory."""
    copy_workflow(repo, tmp_path)
    folder = tmp_path / "my"
    save_model(folder / "model")
    rows = ["stereotype;anti_stereotype", *(";".join(pair) for pair in PAIRS)]
    (folder / "pairs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8-sig")
    (folder / "texts.jsonl").write_text('{"text": "One text."}\n{"text": "Another one."}\n')
    (folder / "quiz.jsonl").write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
    text = (repo / "docs/your-own.md").read_text()
    config = yaml.safe_load(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])
    # What needs a hub or a mirror is left out of the page's example.
    del config["models"]["other"], config["calibrations"]["mixed"]
    config["benchmarks"] = {"quiz": config["benchmarks"]["quiz"]}
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def skip_without_browser():
    """Say that what follows, the end of a test, was not run."""
    if not chromium_path():
        pytest.skip("no Chromium: all passed but the page in a browser, which was not opened")


@pytest.mark.slow
def test_by_commands(own, capsys):
    prune = ["prune", "--model", "my/model", "--pairs", "my/pairs.csv", "--regime", "2of4"]
    prune += ["--method", "debias-sparsegpt", "--device", "cpu", "--block-size", "16"]
    assert main([*prune, "--out", "dropped"]) == 0
    said = capsys.readouterr().err
    assert "5 of 10 pairs are dropped" in said
    assert "3, 5, 7, 9, 11; `--alignment suffix` keeps them" in said
    assert main([*prune, "--alignment", "suffix", "--out", "pruned"]) == 0
    assert "pairs are dropped" not in capsys.readouterr().err
    evaluate = ["evaluate", "--model", "pruned", "--benchmark", "multiple_choice", "--quiet"]
    evaluate += ["--data", "my/quiz.jsonl", "--device", "cpu", "--out", "scores"]
    assert main(evaluate) == 0
    done = capsys.readouterr()
    assert done.out.startswith("multiple_choice: acc ")
    assert done.err == ""
    compare = ["compare", "my/model", "pruned", "--benchmark", "multiple_choice", "--evals", "kept"]
    compare += ["--data", "my/quiz.jsonl", "--device", "cpu", "--out", "compared"]
    assert main(compare) == 0
    table = capsys.readouterr().out
    (block,) = json.loads((own / "compared/comparison.json").read_text())["blocks"]
    assert [row["metric"] for row in block["rows"]] == ["acc", "stereotype_rate"]
    assert all(row["verdict"] in table for row in block["rows"])
    skip_without_browser()
    with opened(own / "compared/comparison.html") as page:
        assert "stereotype_rate" in page.run("document.body.innerText")
        assert page.errors == []


@pytest.mark.slow
def test_by_configuration(own):
    words = ("--cores", "2", "--configfile", "my.yaml")
    quiz = (own / "my/quiz.jsonl").rename(own / "quiz.jsonl")
    stopped = snakemake(own, "-n", *words)
    assert stopped.returncode == 1
    assert "datasets.quiz.data.path: expected a file or folder at my/quiz.jsonl" in (
        stopped.stdout + stopped.stderr
    )
    quiz.rename(own / "my/quiz.jsonl")
    done = snakemake(own, *words)
    assert done.returncode == 0, done.stderr
    results = own / "results/mine"
    with open(results / "results.csv") as handle:
        rows = [row for row in csv.DictReader(handle) if row["benchmark"] == "quiz"]
    assert {row["method"] for row in rows} == {"dense", "sparsegpt", "debias-sparsegpt"}
    assert {"acc", "stereotype_rate"} <= {row["metric"] for row in rows}
    table = (results / "tables/main.md").read_text().splitlines()
    assert "quiz" in next(line for line in table if "|" in line)
    manifest = json.loads((results / "calibration/mine/own/s0/manifest.json").read_text())
    assert manifest["pairs"]["kept"] == 10
    assert manifest["texts"]["kept"] == 2
    record = json.loads((results / "sources/data/own.pairs.json").read_text())
    assert (record["origin"], record["folder"], record["file"]) == ("own", "my", "pairs.csv")
    changed = own / "my/quiz.jsonl"
    changed.write_text(changed.read_text() + json.dumps(QUESTIONS[0] | {"id": "more"}) + "\n")
    planned = counts(snakemake(own, "-n", *words).stdout)
    assert planned["evaluate_checkpoint"] == 3
    assert not {"prune_model", "build_calibration"} & planned.keys()
    skip_without_browser()
    with opened(results / "report/paper.html") as page:
        seen = "document.getElementById('%s').innerText"
        assert "Option" in page.run(seen % "item")
        page.run("location.hash = 'set=quiz&kind=all'")
        page.until(f"{seen % 'items-table'}.includes('Who has')")
        assert page.errors == []
