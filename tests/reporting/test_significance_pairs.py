"""Which checkpoints are compared, and over which family p-values and intervals are corrected."""

from unittest import mock

import pytest
from reporting_run import read_csv, small_config
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from evenprune.analysis import significance
from evenprune.config import grids
from evenprune.config.grids import Checkpoint
from evenprune.config.run_sheet import RunSheet, read_run_sheet
from evenprune.config.tasks import JUDGED
from evenprune.reporting.tables import Cell, Column

VARIANTS = {
    "sg.refit": {"method": "sparsegpt", "refit_steps": 5},
    "ds.refit": {"method": "debias-sparsegpt", "refit_steps": 5},
    "ds.b2": {"method": "debias-sparsegpt", "bias_weight": 2.0},
    "ds.damped": {"method": "debias-sparsegpt", "damping": 0.1},
    "lora.wanda": {"method": "debias-lora", "solver": "wanda"},
    "lora.magnitude": {"method": "debias-lora", "solver": "magnitude"},
}


def point(method, regime="1of4", calibration="ss", seed=0):
    return Checkpoint("world", method, regime, calibration, seed)


def baselines(config, *points):
    sheet = RunSheet(config)
    vars(sheet)["checkpoints"] = sorted(points)
    pairs = significance.pairs(sheet)
    return {ours.method: theirs for ours, theirs in pairs}


BASES = [
    point("sparsegpt"), point("sg.refit"), point("wanda"), point("magnitude", calibration="none"),
    point("dense", "dense", "none"),
]  # fmt: skip


def test_each_method_has_its_counterpart(repo, tmp_path):
    config = small_config(repo, tmp_path, methods=VARIANTS)
    debiased = ["debias-sparsegpt", "debias-lora", "lora.x2", "ds.b2"]
    found = baselines(config, *BASES, *map(point, [*debiased, *VARIANTS]))
    assert {name: found[name].method for name in debiased} == dict.fromkeys(debiased, "sparsegpt")
    assert found["ds.refit"] == point("sg.refit")
    assert found["lora.wanda"] == point("wanda")
    assert found["lora.magnitude"] == point("magnitude", calibration="none")
    # No SparseGPT has that damping; nothing is compared with itself or the other way round.
    assert not {"ds.damped", "sparsegpt", "sg.refit", "wanda", "magnitude", "dense"} & set(found)
    # Seed, regime and calibration are the same; a shifted dense model has the dense one.
    for other in (
        point("sparsegpt", seed=1), point("sparsegpt", "2of4"), point("sparsegpt", calibration="cp")
    ):  # fmt: skip
        assert baselines(config, other, point("debias-lora")) == {}
    assert baselines(config, point("sparsegpt"), point("ds.refit")) == {}
    found = baselines(config, *BASES, point("debias-lora", "dense"))
    assert found["debias-lora"] == point("dense", "dense", "none")


def test_p_and_interval_are_corrected_over_the_same_family(world):
    root, config = world
    families = {}
    for row in read_csv(root / "significance.csv"):
        assert bool(row["p_holm"]) == bool(row["family_low"]) == bool(row["family_high"])
        if row["p_holm"]:
            names = ("against", "method", "regime", "calibration", "seed")
            families.setdefault(tuple(row[name] for name in names), []).append(row)
    debiasing = {"debias-sparsegpt", "debias-lora"}
    pruned = debiasing | {"magnitude", "wanda", "sparsegpt"}
    for against, methods in (("method", debiasing), ("dense", pruned)):
        bases = {grids.base_method(config, name) for one, name, *_ in families if one == against}
        assert bases == methods
    assert sum(clear(rows) for rows in families.values())


def clear(rows):
    """Check the corrected p and intervals of a family; return how many of these exclude 0."""
    count, p_values = 0, [float(row["p"]) for row in rows]
    with mock.patch("gc.collect"):  # statsmodels calls it each time
        rejected, expected = multipletests(p_values, method="holm")[:2]
    assert [float(row["p_holm"]) for row in rows] == pytest.approx(expected)
    order = sorted(range(len(rows)), key=p_values.__getitem__)
    for row, p in zip(rows, p_values, strict=True):
        diff, units = float(row["diff"]), int(row["units"])
        low, high = float(row["family_low"]), float(row["family_high"])
        step = min(order.index(p_values.index(p)), int(rejected.sum()))
        level = 0.05 / (len(rows) - step)
        # Clusters are the units, of the interval as of the p-value.
        assert 10 <= units < int(row["n"])
        half = scipy_stats.t.isf(level / 2, units - 1) * float(row["stderr"])
        if 2 ** (1 - int(row["changed"])) >= level:
            half = max(half, abs(diff))
        assert low == pytest.approx(max(diff - half, -1))
        assert high == pytest.approx(min(diff + half, 1))
        count += not low <= 0 <= high
    return count


def test_every_pruned_checkpoint_is_tested_against_its_dense_model(world):
    root, _ = world
    sheet = read_run_sheet(root / "run_sheet.json")
    rows = read_csv(root / "significance.csv", against="dense")
    assert {row["baseline"] for row in rows} == {"dense"}
    names = ("model", "method", "regime", "calibration")
    tested = {tuple(row[name] for name in names) for row in rows}
    assert tested == {
        tuple(getattr(p, n) for n in names) for p in sheet.checkpoints if not p.is_base
    }


# Wilson's intervals


def test_rates_of_judged_answers_have_wilsons_interval(world):
    root, config = world
    judged = {name for name, entry in config.benchmarks.items() if entry.task in JUDGED}
    rows = {
        (*(row[k] for k in ("method", "regime", "calibration", "benchmark")), row["metric"]): row
        for row in read_csv(root / "results.csv", model="world", category="")
    }
    ends = [key for key in rows if key[-1].endswith("_low") and key[3] not in ("dto", "serving")]
    assert {key[3] for key in ends} == judged
    assert {key[-1] for key in ends} >= {"unsafe_rate_low", "refusal_rate_low"}
    for key in ends:
        rate = rows[*key[:4], key[4].removesuffix("_low")]
        n = int(rate["n"])
        low, high = proportion_confint(round(float(rate["value"]) * n), n, method="wilson")
        assert float(rows[key]["value"]) == pytest.approx(low)
        upper = rows[*key[:4], key[4].replace("_low", "_high")]
        assert float(upper["value"]) == pytest.approx(high)


def test_intervals_end_where_a_share_or_a_bias_score_ends():
    cells = {
        name: Cell(value, "", error=0.04).interval(Column("c", "C", direction=way, scale=scale))
        for name, way, scale, value in (
            ("share", "up", 100.0, 0.98), ("score", "zero", 100.0, -0.98), ("ppl", "down", 1.0, 1.0)
        )
    }  # fmt: skip
    assert cells["share"] == (pytest.approx(0.98 - 1.96 * 0.04, abs=1e-5), 1)
    assert cells["score"] == (-1, pytest.approx(-0.98 + 1.96 * 0.04, abs=1e-5))
    assert cells["ppl"][1] > 1
