"""Ratios of throughput to the dense model: their statistics, verdicts and tables."""

import json
import math
import re

import numpy as np
import pytest
from reporting_run import collect, make_table, read_csv, small_config, write_run, write_sealed
from scipy import stats as scipy_stats

from evenprune.cli import main
from evenprune.reporting.efficiency import verdict
from evenprune.stats.inference import PairedRatio, paired_ratio

BOLD_SPEED = r"\*\*\d\d+\.\d+\*\*"  # tokens per second; distances and energies are below 10


# Statistics


def test_interval_and_test_are_the_textbook_s():
    logs = np.log([1.02, 0.97, 1.05, 1.01, 0.99])
    found, bound = paired_ratio(logs, 0.05), math.log(1.05)
    mean, error = logs.mean(), logs.std(ddof=1) / 5**0.5
    half = scipy_stats.t.isf(0.025, 4) * error
    assert found.value == pytest.approx(math.exp(mean))
    assert (found.n, found.log_stderr) == (5, pytest.approx(error))
    assert (found.low, found.high) == pytest.approx((math.exp(mean - half), math.exp(mean + half)))
    lower = scipy_stats.ttest_1samp(logs, -bound, alternative="greater").pvalue
    upper = scipy_stats.ttest_1samp(logs, bound, alternative="less").pvalue
    assert found.p_same == pytest.approx(max(lower, upper))


def test_intervals_and_verdicts_err_as_rarely_as_they_say():
    """2,000 measurements of 5 rounds: coverage of 95 %, "same" for a ratio at the margin in 5 %."""
    generator = np.random.default_rng(0)
    drawn = generator.normal(math.log(1.05), 0.02, (2000, 5))
    found = [paired_ratio(logs, 0.05) for logs in drawn]
    assert 0.935 < np.mean([one.low < 1.05 < one.high for one in found]) < 0.965
    assert np.mean([verdict(one, 0.05).startswith("same") for one in found]) < 0.065


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (PairedRatio(5, 1.02, 0.001, 1.01, 1.03, 0.0), "same within 5 %"),
        (PairedRatio(5, 1.2, 0.01, 1.1, 1.3, 0.9), "faster"),
        (PairedRatio(5, 0.8, 0.01, 0.7, 0.9, 0.9), "slower"),
        (PairedRatio(5, 1.2, 0.1, 0.9, 1.6, 0.9), "not shown"),
        (PairedRatio(1, 2.0), "not shown"),
        (None, "–"),
    ],
)
def test_verdicts_in_words(ratio, said):
    assert verdict(ratio, 0.05) == said


# Files


@pytest.fixture(scope="module")
def run(repo, tmp_path_factory):
    root = tmp_path_factory.mktemp("run")
    config = small_config(repo, root, only=["efficiency"], tables=["efficiency"])
    write_run(config, 4)
    collect(root)
    return root


def table(root, name):
    assert make_table(root, name) == 0
    return read_csv(root / f"tables/{name}.csv"), (root / f"tables/{name}.md").read_text()


def test_the_table_shows_ratio_interval_and_verdict(run):
    rows, text = table(run, "efficiency")
    key = "decode_tok_per_s_ratio"
    dense = next(row for row in rows if row["method"] == "dense")
    assert (dense[key], dense[f"{key}_verdict"]) == ("", "–")
    for row in rows:
        if row["method"] != "dense":
            low, high = float(row[f"{key}_low"]), float(row[f"{key}_high"])
            assert low < float(row[key]) < high
            assert row[f"{key}_verdict"] == "faster"
            assert f"{row[key]} [{row[f'{key}_low']}, {row[f'{key}_high']}]" in text
    assert "two one-sided tests at 5 %" in text
    # all ran on one dense kernel: what is faster there is bold in no table
    assert not re.search(BOLD_SPEED, text)


def test_another_kernel_is_a_merit(repo, tmp_path):
    write_run(small_config(repo, tmp_path, only=["efficiency"], tables=["efficiency"]), 4)
    for path in (tmp_path / "serving").rglob("efficiency.json"):
        content = json.loads(path.read_text())
        for name, part in content["checkpoints"].items():
            if "debias" in name:
                part["backend"]["kernel"] = "2:4 kernel (test)"
        write_sealed(path, content)
    collect(tmp_path)
    _, text = table(tmp_path, "efficiency")
    assert re.search(BOLD_SPEED, text)
    assert "transformers 5.0 on cpu, 2:4 kernel (test)" in text


def test_speed_ratio_and_verdict_are_one_estimate(run):
    """A pruned speed is the dense one times the ratio; assumed energy is no result of its own."""
    rows, text = table(run, "efficiency")
    dense = next(float(row["decode_tok_per_s"]) for row in rows if row["method"] == "dense")
    for row in rows:
        ratio = float(row["decode_tok_per_s_ratio"] or 1)
        assert float(row["decode_tok_per_s"]) == pytest.approx(dense * ratio, rel=2e-3)
    assert "kg_co2e_per_mtok" not in rows[0]
    assert "assumed power times the measured seconds" in text
    assert "Measured with transformers 5.0 on cpu, dense kernel." in text
    assert "0.033 kg/kWh" in text


def test_the_margin_decides_what_is_the_same(repo, tmp_path):
    changes = {"serving": {"margin": 0.9}, "tables": ["efficiency"]}
    write_run(small_config(repo, tmp_path, only=["efficiency"], **changes), 4)
    collect(tmp_path)
    rows, _ = table(tmp_path, "efficiency")
    found = {row["decode_tok_per_s_ratio_verdict"] for row in rows if row["method"] != "dense"}
    assert found == {"same within 90 %"}


def test_rounds_of_two_hosts_and_other_checkpoints_are_refused(repo, tmp_path, capsys):
    write_run(small_config(repo, tmp_path, only=["efficiency"], tables=["efficiency"]), 4)
    path = next((tmp_path / "serving").rglob("efficiency.json"))
    content = json.loads(path.read_text())
    words = ["--run-sheet", str(tmp_path / "run_sheet.json"), "--out", str(tmp_path / "r.csv")]
    parts = dict(list(content["checkpoints"].items())[:1])
    write_sealed(path, content | {"checkpoints": parts})
    assert main(["collect-results", *words]) == 2
    assert "measure again" in capsys.readouterr().err
