"""`release-evaluations` and `release`: exactly our own files are deleted."""

import json

import pytest

from evenprune.base.checksums import sealed
from evenprune.base.files import sha256_file, write_json
from evenprune.base.marks import PRUNED, mark_folder
from evenprune.cli import main


@pytest.fixture
def evaluation(tmp_path):
    """A finished evaluation of two benchmarks, as it is written."""
    evals = tmp_path / "evals/m"
    summary = {}
    for slug in ("one", "two"):
        folder = evals / slug
        folder.mkdir(parents=True)
        (folder / "items.jsonl").write_text("{}\n")
        records = {"n": 1, "sha256": sha256_file(folder / "items.jsonl")}
        write_json(folder / "metrics.json", sealed({"metrics": {}, "records": records}))
        write_json(folder / "provenance.json", {"seconds": 1.0, "cpu_seconds": 1.0, "n": 1})
        summary[slug] = {"metrics_sha256": sha256_file(folder / "metrics.json")}
    write_json(evals / "summary.json", sealed({"model_sha256": "0", "benchmarks": summary}))
    return evals


def test_what_an_evaluation_lists_is_deleted_and_nothing_else(evaluation, tmp_path):
    mine = evaluation / "two/notes.txt"
    mine.write_text("mine")
    out = tmp_path / "released.json"
    assert main(["release-evaluations", "--evals", str(evaluation), "--out", str(out)]) == 0
    assert [path for path in evaluation.rglob("*") if path.is_file()] == [mine]
    assert json.loads(out.read_text())["released"] == [str(evaluation)]
    # Again: there is nothing left to delete.
    assert main(["release-evaluations", "--evals", str(evaluation), "--out", str(out)]) == 0


def test_a_changed_evaluation_is_not_deleted(evaluation, tmp_path, capsys):
    (evaluation / "one/items.jsonl").write_text('{"mine": 1}\n')
    words = ["--evals", str(evaluation), "--out", str(tmp_path / "released.json")]
    assert main(["release-evaluations", *words]) == 2
    assert "has changed" in capsys.readouterr().err
    assert (evaluation / "two/items.jsonl").exists()


@pytest.fixture
def checkpoint(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    mark_folder(model, PRUNED)
    write_json(tmp_path / "check.json", sealed({"model_sha256": "abc"}))
    return model


def test_a_checkpoint_is_deleted_once_and_is_known_by_its_check(checkpoint, tmp_path):
    out = tmp_path / "released.json"
    for _ in range(2):
        assert main(["release", "--model", str(checkpoint), "--out", str(out)]) == 0
        assert not checkpoint.exists()
        assert json.loads(out.read_text())["released"] == "abc"


@pytest.mark.parametrize("fault", ["no mark", "added", "no check"])
def test_a_checkpoint_that_is_not_ours_alone_stays(checkpoint, tmp_path, capsys, fault):
    if fault == "no mark":
        (checkpoint / ".evenprune.json").unlink()
    elif fault == "added":
        (checkpoint / "notes.txt").write_text("mine")
    else:
        (tmp_path / "check.json").unlink()
    out = tmp_path / "released.json"
    assert main(["release", "--model", str(checkpoint), "--out", str(out)]) == 2
    assert (checkpoint / "config.json").exists()
    assert not out.exists()
