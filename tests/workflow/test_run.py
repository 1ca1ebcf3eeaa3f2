"""The whole chain on a tiny mirror; what a change makes again is in test_job_lists.py."""

import json
import re
import shutil

import pandas as pd
import pytest
import yaml
from safety_models import save_guard

from .conftest import TINY, copy_workflow, snakemake

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


# A guard model judges the checkpoints of one experiment.
SAFETY = {
    **{"task": "harmbench", "dataset": "harmbench", "experiments": ["safety"], "limit": 6},
    **{"judge": "guard", "judge_forms": ["pr", "paper"], "max_new_tokens": 6},
}
MAIN = TINY["experiments"]["main"]
RUN = {
    **TINY,
    "models": {**TINY["models"], "guard": {"label": "Guard"}},
    "benchmarks": {**TINY["benchmarks"], "harmbench": SAFETY},
    "experiments": {"main": MAIN, "safety": {**MAIN, "methods": ["dense", "sparsegpt"]}},
    "tables": [*TINY["tables"], "safety_details"],
}


@pytest.fixture(scope="module")
def finished(repo, tiny_mirror, tmp_path_factory):
    """A checkout in which the tiny configuration has run to the end."""
    save_guard(tiny_mirror / "models/guard")
    folder = copy_workflow(repo, tmp_path_factory.mktemp("run"))
    (folder / "tiny.yaml").write_text(yaml.safe_dump({**RUN, "mirror": str(tiny_mirror)}))
    done = snakemake(folder, "--cores", "2", "--configfile", "tiny.yaml")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder


def test_every_stage_left_its_output(finished):
    results = finished / "results/tiny"
    table = pd.read_csv(results / "results.csv")
    assert set(table.columns) >= {
        *("model", "method", "regime", "calibration", "seed", "benchmark", "metric"),
        *("category", "value", "n", "stderr", "printed"),
    }
    assert {"dense", "sparsegpt", "debias-sparsegpt"} == set(table.method.dropna())
    assert {"mmlu", "unqover", "dto", "calibration"} <= set(table.benchmark)
    for name in ("main", "calibration", "efficiency"):
        for suffix in ("tex", "csv", "md"):
            assert (results / f"tables/{name}.{suffix}").stat().st_size > 0
    assert (results / "figures/unqover_heatmap.pdf").read_bytes().startswith(b"%PDF")
    assert "Tiny \\& co\\_1" in (results / "tables/main.tex").read_text()
    assert not list((results / ".partial").glob("*"))
    checkpoint = results / "pruned/tiny/debias-sparsegpt/2of4/ss-uc4/s0"
    assert json.loads((checkpoint / "check.json").read_text())["model_sha256"]
    masks = pd.read_csv(checkpoint / "masks.csv")
    assert len(masks) == 2 * 7
    assert (masks["zeros"] * 2 == masks["rows"] * masks["columns"]).all()
    listed = table[(table.benchmark == "masks") & (table.metric == "pattern_disagreement")]
    assert len(listed) == 2 * 7 + 1


def test_a_guard_model_judges_the_checkpoints_of_its_experiment(finished):
    results = finished / "results/tiny"
    judged = sorted(results.glob("evals/tiny/*/*/*/s0/harmbench/metrics.json"))
    assert [path.parts[-6] for path in judged] == ["dense", "sparsegpt"]
    assert json.loads((results / "sources/models/guard.json").read_text())["model"] == "guard"
    for path in judged:
        found = json.loads(path.read_text())
        assert found["spec"]["judge"].startswith("guard@")
        assert found["spec"]["protocol"]["judge"]["forms"] == ["pr", "paper"]
    rows = pd.read_csv(results / "tables/safety_details.csv")
    assert list(rows.method) == ["dense", "sparsegpt"]
    assert set(rows.judge) == {"harmbench: Guard"}


def test_the_report_has_the_tables(finished):
    words = ("--configfile", "tiny.yaml", "--report", "report.html")
    done = snakemake(finished, "--cores", "1", "all", *words)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "Adding efficiency.html" in done.stdout


def test_a_moved_mirror_is_read_where_it_is_now(finished, write_config, tiny_mirror, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(tiny_mirror, moved)
    changes = {**RUN, "pruning": {"bias_weight": 2.0}}
    path = write_config(finished, moved, **changes)
    target = "results/tiny/pruned/tiny/debias-sparsegpt/2of4/ss-uc4/s0/check.json"
    records = sorted((finished / "results/tiny/sources").glob("*/*.json"))
    before = [(record.read_bytes(), record.stat().st_mtime_ns) for record in records]
    assert not [text for text, _ in before if str(tiny_mirror).encode() in text]
    hidden = tiny_mirror.rename(tiny_mirror.with_name("hidden"))
    try:
        done = snakemake(finished, target, "--cores", "2", "--configfile", path)
    finally:
        hidden.rename(tiny_mirror)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.findall(r"\] (\w+) ", done.stdout) == ["prune"]
    assert before == [(record.read_bytes(), record.stat().st_mtime_ns) for record in records]
