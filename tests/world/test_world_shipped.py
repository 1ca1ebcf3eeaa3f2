"""The shipped model of the invented world: it belongs to that world and has learned its tasks."""

import json
import os

import pytest

from evenprune.base.errors import UserError
from evenprune.base.files import read_json, write_json
from evenprune.cli import main
from evenprune.world.shipped_world_model import WEIGHTS, unpack

# Chance level and the metric of each task that the dense model must have learned.
TASKS = {
    ("unqover", "acc"): 1 / 3,
    ("bbq", "acc_amb"): 1 / 3,
    ("bbq", "acc_dis"): 1 / 3,
    ("mmlu", "acc"): 1 / 4,
    ("hellaswag", "acc"): 1 / 4,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    assert main(["generate-world", "--seed", "0", "--out", str(folder)]) == 0
    return folder


def scores(model, world, out):
    """Evaluate a model on the world's benchmarks; return (task, metric) -> value."""
    benchmarks = {task: {"task": task, "data": str(world / "data" / task)} for task, _ in TASKS}
    words = ["--model", str(model), "--benchmarks", json.dumps(benchmarks), "--out", str(out)]
    assert main(["evaluate-checkpoint", *words]) == 0
    found = read_json(out / "summary.json")["benchmarks"]
    return {(task, metric): found[task]["metrics"][metric]["value"] for task, metric in TASKS}


@pytest.fixture(scope="module")
def shipped_scores(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shipped")
    unpack(world, folder / "model")
    return scores(folder / "model", world, folder / "evals")


def test_the_shipped_files_are_small():
    assert sum(file.stat().st_size for file in WEIGHTS.iterdir()) <= 8_000_000


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids="-".join)
def test_the_dense_model_is_25_points_above_chance(shipped_scores, task):
    assert shipped_scores[task] >= TASKS[task] + 0.25


def test_a_model_of_another_world_is_refused(world, tmp_path):
    record = read_json(world / "world.json")
    name = next(iter(record["files"]))
    record["files"][name]["sha256"] = "0" * 64
    write_json(tmp_path / "world.json", record)
    with pytest.raises(UserError, match=r"another world .*1 files differ.*retrain: true"):
        unpack(tmp_path, tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
@pytest.mark.skipif(
    "EVENPRUNE_RETRAIN" not in os.environ, reason="training takes minutes; set EVENPRUNE_RETRAIN=1"
)
def test_retraining_reaches_the_shipped_scores(shipped_scores, world, tmp_path):
    assert main(["train-world", "--world", str(world), "--out", str(tmp_path / "model")]) == 0
    again = scores(tmp_path / "model", world, tmp_path / "evals")
    for task, value in again.items():
        assert value >= TASKS[task] + 0.25
        assert value == pytest.approx(shipped_scores[task], abs=0.05)
