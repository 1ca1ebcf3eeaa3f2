"""`evenprune compare` and `evaluate` with models: evaluated once, and what is printed."""

import json
import math
import shutil

import numpy as np
import pytest
from both import refused
from evaluation_fixtures import save_model, unqover_rows, write_jsonl

from evenprune.cli import main
from evenprune.comparison.evaluate import Result


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    write_jsonl(root / "data/unqover/datas_rebuilt.jsonl", unqover_rows(24))
    return root, save_model(root / "dense"), save_model(root / "other", seed=1)


def test_models_are_evaluated_once(ground, tmp_path, capsys):
    root, dense, other = ground
    words = ["compare", dense, other, dense, "--benchmark", "unqover", "--data",
             root / "data/unqover", "--evals", tmp_path / "evals", "--limit"]  # fmt: skip
    said = []
    # Another option is another evaluation; the first one stays.
    for limit, word in (("16", "unqover: acc"), ("16", "done before, kept"), ("20", ": acc")):
        assert main([*map(str, words), limit]) == 0
        said.append(capsys.readouterr())
        assert said[-1].err.count(word) == 2
    assert said[1].out == said[0].out
    assert len(list((tmp_path / "evals").glob("*/unqover-*/metrics.json"))) == 4


def test_evaluate_says_what_is_good_and_compare_takes_its_folders(ground, tmp_path, capsys):
    root, dense, other = ground
    data = ["--benchmark", "unqover", "--data", str(root / "data/unqover")]
    out = tmp_path / "dense"
    assert main(["evaluate", "--model", str(dense), *data, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "0.333" in text
    assert text.endswith(f"wrote {out}/metrics.json and {out}/items.jsonl\n")
    assert main(["evaluate", "--model", str(other), *data, "--out", str(tmp_path / "other")]) == 0
    capsys.readouterr()
    assert main(["compare", str(out), str(tmp_path / "other")]) == 0
    assert f"against {out}" in capsys.readouterr().out


def test_printed_errors_are_over_clusters(tmp_path):
    correct = np.random.default_rng(2).integers(0, 2, (12, 3)) * np.arange(12)[:, None] % 2
    rows = [
        {"item_id": f"{k}-{j}", "cluster": f"c{k}", "correct": int(correct[k, j])}
        for k in range(12) for j in range(3)
    ]  # fmt: skip
    write_jsonl(tmp_path / "items.jsonl", rows)
    value = correct.mean().item()
    content = {"benchmark": "unqover", "task": "unqover", "headline": "acc",
               "metrics": {"acc": {"value": value, "stderr": 9.0, "n": 36}}}  # fmt: skip
    means = correct.mean(axis=1)
    expected = means.std(ddof=1) / math.sqrt(12)
    result = Result(tmp_path, content)
    assert result.errors()["acc"] == pytest.approx(expected)
    assert f"± {expected:.4f}" in str(result)
    assert result.to_frame().loc["acc", "stderr"] == pytest.approx(expected)
    write_jsonl(tmp_path / "items.jsonl", [{**row, "cluster": None} for row in rows])
    assert result.errors() == {"acc": 9.0}


def test_another_benchmark_does_not_replace_a_result(ground, tmp_path, capsys):
    root, dense, _ = ground
    own = tmp_path / "own.csv"
    own.write_text("question,option1,option2,answer\nWho sang?,Vel,Tor,A\nWho ran?,Vel,Tor,B\n")
    words = ["evaluate", "--model", dense, "--limit", "4", "--out", tmp_path / "out"]
    words = [*map(str, words), "--benchmark"]
    assert main([*words, "unqover", "--data", str(root / "data/unqover")]) == 0
    before = (tmp_path / "out/metrics.json").read_bytes()
    message = "found one of unqover; give each benchmark its own folder"
    refused(capsys, [*words, "multiple_choice", "--data", own], message)
    assert (tmp_path / "out/metrics.json").read_bytes() == before


def test_all_models_are_looked_at_before_the_first_is_evaluated(ground, tmp_path, capsys):
    root, dense, other = ground
    broken = tmp_path / "broken"
    shutil.copytree(other, broken)
    words = ["compare", dense, broken, "--benchmark", "unqover", "--limit", "8", "--data",
             root / "data/unqover", "--evals", tmp_path / "evals"]  # fmt: skip
    config = json.loads((broken / "config.json").read_text())
    larger = config | {"intermediate_size": 2 * config["intermediate_size"]}
    (broken / "config.json").write_text(json.dumps(larger))
    refused(capsys, words, f"the weights in {broken} do not belong to its config.json")
    assert not (tmp_path / "evals").exists()  # nothing was evaluated
    (broken / "config.json").write_text(json.dumps(config))
    assert main([*map(str, words)]) == 0
    said = capsys.readouterr().err
    assert "unqover: 8 to do" in said
    assert said.index(f"model 1 of 2: {dense}") < said.index(f"model 2 of 2: {broken}")
