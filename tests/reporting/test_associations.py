"""The tables of StereoSet's association by bias type and by group, against naive means."""

import json
import random

import numpy as np
import pytest
from reporting_run import collect, made_table, seal, small_config, write_jsonl, write_run
from scipy import stats

from evenprune.io.files import read_jsonl
from evenprune.stats.metrics import mean

GROUPS = [f"group {k}" for k in range(30)]
DENSE, SEEDS = "dense/dense/none/s0", ["sparsegpt/2of4/ss/s0", "sparsegpt/2of4/ss/s1"]


def known(rows, **wanted):
    """The associations of the items that have one, of those with these fields."""
    rows = [row for row in rows if wanted.items() <= row.items()]
    return [row["association"] for row in rows if row["association"] is not None]


def associated(evals, seed):
    """Give a made-up checkpoint's StereoSet items groups and associations; return these."""
    rng = random.Random(seed)
    path = evals / "stereoset"
    rows = read_jsonl(path / "items.jsonl")
    rows = [{**rows[k % len(rows)], "item_id": f"item {k}"} for k in range(240)]
    for k, row in enumerate(rows):
        number = k % len(GROUPS)
        row |= {"cluster": GROUPS[number], "category": ("gender", "race")[number % 2]}
        # The last group has too few items for a row, and one has no other groups.
        row["association"] = round(rng.gauss(number / 10 - 1, 0.5), 6)
        if number == len(GROUPS) - 1 and k > 100:
            row["association"] = None
    by_type = {name: known(rows, category=name) for name in ("gender", "race")}
    content = json.loads((path / "metrics.json").read_text())
    content["metrics"]["association"] = mean(known(rows))
    content["categories"] = {name: {"association": mean(one)} for name, one in by_type.items()}
    (path / "metrics.json").write_text(json.dumps(content))
    write_jsonl(path / "items.jsonl", rows)
    return rows


@pytest.fixture(scope="module")
def run(repo, tmp_path_factory):
    root = tmp_path_factory.mktemp("associations")
    grid = {"methods": ["dense", "sparsegpt"], "regimes": ["2of4"], "seeds": [0, 1]}
    changes = {
        "experiments": {"regimes": grid},
        "benchmarks": {"stereoset": {"counterfactuals": 2}},
    }
    write_run(small_config(repo, root, only=["regimes"], **changes))
    rows = {}
    for k, summary in enumerate(sorted((root / "evals").glob("**/summary.json"))):
        rows[str(summary.parent.relative_to(root / "evals/world"))] = associated(summary.parent, k)
        seal(summary.parent)
    assert collect(root) == 0
    return root, rows


def test_the_largest_groups_with_their_intervals(run):
    root, rows = run
    found, text = made_table(root, "groups"), (root / "tables/groups.md").read_text()
    means = {name: known(rows[DENSE], cluster=name) for name in GROUPS}
    means = {name: values for name, values in means.items() if len(values) >= 5}
    assert len(means) == len(GROUPS) - 1
    largest = sorted(means, key=lambda name: -abs(np.mean(means[name])))[:20]
    assert [row["group"] for row in found] == largest
    for row in found:
        values = means[row["group"]]
        assert float(row["value0"]) == pytest.approx(np.mean(values), abs=6e-4)
        width = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
        low, high = np.mean(values) - width, np.mean(values) + width
        assert f"{np.mean(values):.3f} [{low:.3f}, {high:.3f}]".replace("-", "−") in text
        pruned = [one for seed in SEEDS for one in known(rows[seed], cluster=row["group"])]
        assert float(row["value1"]) == pytest.approx(np.mean(pruned), abs=6e-4)


def test_each_bias_type_has_a_column(run):
    root, rows = run
    lines = made_table(root, "association")
    for points, line in zip(([DENSE], SEEDS), lines, strict=True):
        for name in ("gender", "race"):
            values = [one for point in points for one in known(rows[point], category=name)]
            assert float(line[f"stereoset_{name}"]) == pytest.approx(np.mean(values), abs=6e-4)
