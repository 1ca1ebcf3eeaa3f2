"""A guard model through the workflow: fetched as a model, judging some checkpoints only."""

import csv
import json
import shutil

import pytest
import yaml
from safety_models import save_guard

from .conftest import TINY, copy_workflow, counts, snakemake

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


def test_a_guard_model_judges_the_checkpoints_of_its_experiment(repo, tiny_mirror, tmp_path):
    mirror = tmp_path / "mirror"
    shutil.copytree(tiny_mirror, mirror)
    save_guard(mirror / "models/guard")
    main = TINY["experiments"]["main"]
    changes = {
        "mirror": str(mirror),
        "models": {**TINY["models"], "guard": {"label": "Guard"}},
        "benchmarks": {
            "mmlu": {"task": "mmlu", "dataset": "mmlu", "limit": 4},
            "harmbench": {
                "task": "harmbench",
                "dataset": "harmbench",
                "experiments": ["safety"],
                "judge": "guard",
                "judge_forms": ["pr", "paper"],
                "max_new_tokens": 6,
                "limit": 6,
            },
        },
        "experiments": {"main": main, "safety": {**main, "methods": ["dense", "sparsegpt"]}},
        "serving": {},
        "tables": ["main", "safety_details"],
        "figures": [],
    }
    run = tmp_path / "run"
    run.mkdir()
    folder = copy_workflow(repo, run)
    (folder / "tiny.yaml").write_text(yaml.safe_dump({**TINY, **changes}))
    done = snakemake(folder, "tables", "--cores", "2", "--configfile", "tiny.yaml")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert counts(done.stdout + done.stderr)["fetch_model"] == 2
    results = folder / "results/tiny"
    judged = sorted(results.glob("evals/tiny/*/*/*/s0/harmbench/metrics.json"))
    assert [path.parts[-6] for path in judged] == ["dense", "sparsegpt"]
    guard = json.loads((results / "sources/models/guard.json").read_text())
    assert guard["model"] == "guard"
    for path in judged:
        found = json.loads(path.read_text())
        assert found["spec"]["judge"].startswith("guard@")
        assert found["spec"]["protocol"]["judge"]["forms"] == ["pr", "paper"]
    with open(results / "tables/safety_details.csv", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["method"] for row in rows] == ["dense", "sparsegpt"]
    assert {row["judge"] for row in rows} == {"harmbench: Guard"}
    again = snakemake(folder, "tables", "--cores", "2", "--configfile", "tiny.yaml")
    assert "Nothing to be done" in again.stdout + again.stderr
