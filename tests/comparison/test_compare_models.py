"""`evenprune compare` and `evaluate` with models: evaluated once, and what is printed."""

import pytest
from evaluation_fixtures import save_model, unqover_rows, write_jsonl

from evenprune.cli import main


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    write_jsonl(root / "data/unqover/datas_rebuilt.jsonl", unqover_rows(24))
    return root, save_model(root / "dense"), save_model(root / "other", seed=1)


def test_models_are_evaluated_once(ground, tmp_path, capsys):
    root, dense, other = ground
    words = ["compare", dense, other, dense, "--benchmark", "unqover", "--limit", "16"]
    words += ["--data", root / "data/unqover", "--evals", tmp_path / "evals"]
    assert main([*map(str, words)]) == 0
    first = capsys.readouterr()
    assert first.err.count("unqover: acc") == 2
    assert main([*map(str, words)]) == 0
    second = capsys.readouterr()
    assert second.err.count("done before, kept") == 2
    assert second.out == first.out
    # Another option is another evaluation; the first one stays.
    words[words.index("16")] = "20"
    assert main([*map(str, words)]) == 0
    assert capsys.readouterr().err.count("unqover: acc") == 2
    assert len(list((tmp_path / "evals").glob("*/unqover-*/metrics.json"))) == 4


def test_evaluate_says_what_is_good_and_the_difference_to_a_baseline(ground, tmp_path, capsys):
    root, dense, other = ground
    data = ["--benchmark", "unqover", "--data", str(root / "data/unqover")]
    out = tmp_path / "dense"
    assert main(["evaluate", "--model", str(dense), *data, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "0.333" in text
    assert text.endswith(f"wrote {out}/metrics.json and {out}/items.jsonl\n")
    more = ["--baseline", str(out), "--out", str(tmp_path / "other")]
    assert main(["evaluate", "--model", str(other), *data, *more]) == 0
    text = capsys.readouterr().out
    assert f"against {out}" in text
    assert text.endswith(f"{tmp_path}/other/items.jsonl\n")
    same = ["--baseline", str(out), "--out", str(out)]
    assert main(["evaluate", "--model", str(other), *data, *same]) == 2
    wrong = ["--baseline", str(tmp_path / "none"), "--out", str(tmp_path / "third")]
    assert main(["evaluate", "--model", str(other), *data, *wrong]) == 2
    assert not (tmp_path / "third").exists()


def test_another_benchmark_does_not_replace_a_result(ground, tmp_path, capsys):
    root, dense, _ = ground
    out = tmp_path / "out"

    own = tmp_path / "own.csv"
    own.write_text("question,option1,option2,answer\nWho sang?,Vel,Tor,A\nWho ran?,Vel,Tor,B\n")

    def evaluate(task, data):
        words = ["evaluate", "--model", str(dense), "--benchmark", task, "--data", str(data)]
        return main([*words, "--out", str(out), "--limit", "4"])

    assert evaluate("unqover", root / "data/unqover") == 0
    before = (out / "metrics.json").read_bytes()
    capsys.readouterr()
    assert evaluate("multiple_choice", own) == 2
    assert "found one of unqover; give each benchmark its own folder" in capsys.readouterr().err
    assert (out / "metrics.json").read_bytes() == before
