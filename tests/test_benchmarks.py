"""The scripts of benchmarks/ for speed run at their smallest; others take minutes, or a peer."""

import json
import subprocess
import sys

import pytest
from evaluation_fixtures import save_model
from pruning_models import random_pairs, write_rows

CROWS = """sent_more,sent_less,stereo_antistereo,bias_type
Vel men are slow.,Tor men are slow.,stereo,tribe
Kesh lie.,Lumo never lie.,stereo,tribe
"""
SMALL = ("--threads", "1", "--hidden", "256", "--layers", "1", "--count", "4")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bench_pruning.py speed", "bench_scoring.py"])
def test_a_script_runs(name, repo, tmp_path):
    script, *words = name.split()
    pairs = write_rows(tmp_path / "pairs.jsonl", random_pairs(12))
    if script == "bench_scoring.py":
        (tmp_path / "crows_pairs").mkdir()
        (tmp_path / "crows_pairs/crows_pairs_anonymized.csv").write_text(CROWS)
        model = save_model(tmp_path / "model")
        words += ["--model", str(model), "--data", str(tmp_path), "--tasks", "crows_pairs"]
        words += ["--threads", "1", "--peer-batches", "1"]
    else:
        words += ["--pairs", str(pairs), *SMALL, "--runs", "1"]
    done = subprocess.run(
        [sys.executable, str(repo / "benchmarks" / script), *words, "--out", str(tmp_path / "out")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [json.loads(line) for line in done.stdout.splitlines()] == rows
    assert len(rows) == (3 if "speed" in words else 2)
    if script == "bench_scoring.py":
        assert [row["equal"] for row in rows] == [1, 1]
