"""The whole chain on a tiny mirror with ``keep: evals``; reruns are in test_job_lists.py."""

import copy
import json
import re

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
    "keep": "evals",
    "models": {**TINY["models"], "guard": {"label": "Guard"}},
    "benchmarks": {**TINY["benchmarks"], "harmbench": SAFETY},
    "experiments": {"main": MAIN, "safety": {**MAIN, "methods": ["dense", "sparsegpt"]}},
    "tables": [*TINY["tables"], "safety_details"],
}
SPARSE, DEBIAS = (
    f"results/tiny/pruned/tiny/{method}/2of4/ss-uc4/s0"
    for method in ("sparsegpt", "debias-sparsegpt")
)


def run(folder, *words, **config):
    (folder / "tiny.yaml").write_text(yaml.safe_dump(config))
    done = snakemake(folder, *words, "--cores", "2", "--configfile", "tiny.yaml")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def ran(repo, tiny_mirror, tmp_path_factory):
    """A checkout in which the tiny configuration has run to the end, and what it said."""
    save_guard(tiny_mirror / "models/guard")
    folder = copy_workflow(repo, tmp_path_factory.mktemp("run"))
    return folder, run(folder, **RUN, mirror=str(tiny_mirror))


@pytest.fixture(scope="module")
def finished(ran):
    return ran[0]


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
        assert found["spec"]["judge_forms"] == ["pr", "paper"]
    rows = pd.read_csv(results / "tables/safety_details.csv")
    assert list(rows.method) == ["dense", "sparsegpt"]
    assert set(rows.judge) == {"harmbench: Guard"}


def test_every_step_says_one_line(ran):
    """Without any option, and all of Snakemake's own words are in a file."""
    folder, said = ran
    lines = said.splitlines()
    assert max(map(len, lines)) <= 120
    steps = [line for line in lines if re.match(r"\[ ?\d+/\d+\] ", line)]
    assert len(lines) < len(steps) + 10
    pattern = r"\[ ?\d+/\d+\] {}  \d+ s  eta \d+ (s|min)"
    for words in ("prune tiny sparsegpt 2of4 ss-uc4", "tables"):
        assert [line for line in steps if re.fullmatch(pattern.format(words), line)], said
    log = min((folder / ".snakemake/log").glob("*.log"))
    assert "Finished jobid: " in log.read_text()


def test_checkpoints_are_gone_and_the_next_run_makes_the_report_alone(finished):
    for place in (SPARSE, DEBIAS):
        assert not (finished / place / "model").exists()
        assert (finished / place / "check.json").exists()
    words = ("--configfile", "tiny.yaml", "--report", "report.html")
    done = snakemake(finished, "--cores", "1", "all", *words)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "Adding efficiency.html" in done.stdout


def test_a_new_benchmark_prunes_again_exactly_what_it_needs(finished, tiny_mirror):
    config = copy.deepcopy(RUN) | {"mirror": str(tiny_mirror)}
    more = {"task": "crows_pairs", "dataset": "crows_pairs", "limit": 6}
    config["benchmarks"]["crows_pairs"] = more
    before = (finished / SPARSE / "check.json").read_bytes()
    target = f"{SPARSE.replace('pruned', 'evals')}/summary.json"
    assert run(finished, target, **config).count("] prune ") == 1
    assert (finished / SPARSE / "check.json").read_bytes() == before
    evals = finished / "results/tiny/evals/tiny"
    assert (evals / "sparsegpt/2of4/ss-uc4/s0/crows_pairs/metrics.json").exists()
    assert not (evals / "debias-sparsegpt/2of4/ss-uc4/s0/crows_pairs").exists()
    assert not (finished / SPARSE / "model").exists()
