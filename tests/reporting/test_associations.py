"""The table of StereoSet's association by bias type, against naive means."""

import json
import random

import numpy as np
import pytest
from reporting_run import collect, make_table, read_csv, seal, small_config, write_jsonl, write_run

from evenprune.io.files import read_jsonl
from evenprune.stats.metrics import mean

DENSE, SEEDS = "dense/dense/none/s0", ["sparsegpt/2of4/ss/s0", "sparsegpt/2of4/ss/s1"]


def associated(evals, seed):
    """Give a made-up checkpoint's StereoSet items groups and associations; return these."""
    rng = random.Random(seed)
    path = evals / "stereoset"
    rows = read_jsonl(path / "items.jsonl")
    rows = [{**rows[k % len(rows)], "item_id": f"item {k}"} for k in range(240)]
    by_type = {}
    for k, row in enumerate(rows):
        row |= {"cluster": f"group {k % 30}", "category": ("gender", "race")[k % 2]}
        # One group has no other ones.
        row["association"] = round(rng.gauss(k % 30 / 10 - 1, 0.5), 6) if k % 30 < 29 else None
    for row in rows:
        if row["association"] is not None:
            by_type.setdefault(row["category"], []).append(row["association"])
    content = json.loads((path / "metrics.json").read_text())
    content["metrics"]["association"] = mean(np.concatenate(list(by_type.values())))
    content["categories"] = {name: {"association": mean(one)} for name, one in by_type.items()}
    (path / "metrics.json").write_text(json.dumps(content))
    write_jsonl(path / "items.jsonl", rows)
    return rows


@pytest.fixture(scope="module")
def run(repo, tmp_path_factory):
    root = tmp_path_factory.mktemp("associations")
    grid = {"methods": ["dense", "sparsegpt"], "regimes": ["2of4"], "calibrations": ["ss"]}
    grid |= {"seeds": [0, 1]}
    experiments = {"regimes": grid}
    benchmarks = {"stereoset": {"counterfactuals": 2}}
    config = small_config(repo, root, experiments=experiments, benchmarks=benchmarks)
    write_run(config)
    rows = {}
    for k, summary in enumerate(sorted((root / "evals").glob("**/summary.json"))):
        rows[str(summary.parent.relative_to(root / "evals/world"))] = associated(summary.parent, k)
        seal(summary.parent)
    assert collect(root) == 0
    return root, rows


def test_each_bias_type_has_a_column(run):
    root, rows = run
    assert make_table(root, "association") == 0
    lines = read_csv(root / "tables/association.csv")
    for points, line in zip(([DENSE], SEEDS), lines, strict=True):
        for name in ("gender", "race"):
            values = [r["association"] for p in points for r in rows[p] if r["category"] == name]
            values = [one for one in values if one is not None]
            assert float(line[f"stereoset_{name}"]) == pytest.approx(np.mean(values), abs=6e-4)
