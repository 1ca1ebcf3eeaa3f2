"""Ratios of throughput to the dense model: their statistics, verdicts and tables."""

import json
import math
import re

import numpy as np
import pytest
from reporting_run import collect, make_tables, prepare, read_csv, write_sealed
from scipy import stats as scipy_stats

from evenprune.reporting.analyses import verdict
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


def table(root, **shown):
    assert make_tables(root, tables=["efficiency"], **shown) == 0
    return read_csv(root / "tables/efficiency.csv"), (root / "tables/efficiency.md").read_text()


def test_the_table_shows_ratio_interval_and_verdict(repo, tmp_path):
    """A pruned speed is the dense one times the ratio; assumed energy is no result of its own."""
    _, config = prepare(repo, tmp_path, items=4, only=["efficiency"])
    rows, text = table(tmp_path)
    key = "decode_tok_per_s_ratio"
    dense = next(row for row in rows if row["method"] == "dense")
    assert (dense[key], dense[f"{key}_verdict"]) == ("", "–")
    for row in rows:
        speed = float(dense["decode_tok_per_s"]) * float(row[key] or 1)
        assert float(row["decode_tok_per_s"]) == pytest.approx(speed, rel=2e-3)
        if row["method"] != "dense":
            low, high = float(row[f"{key}_low"]), float(row[f"{key}_high"])
            assert low < float(row[key]) < high
            assert row[f"{key}_verdict"] == "faster"
            assert f"{row[key]} [{row[f'{key}_low']}, {row[f'{key}_high']}]" in text
    assert "two one-sided tests at 5 %" in text
    # all ran on one dense kernel: what is faster there is bold in no table
    assert not re.search(BOLD_SPEED, text)
    assert "kg_co2e_per_mtok" not in rows[0]
    assert "assumed power times the measured seconds" in text
    assert "Measured with transformers 5.0 on cpu, dense kernel." in text
    # What is the same follows the margin.
    rows, _ = table(tmp_path, serving=config.serving.model_dump(mode="json") | {"margin": 0.9})
    found = {row[f"{key}_verdict"] for row in rows if row["method"] != "dense"}
    assert found == {"same within 90 %"}


def test_another_kernel_is_a_merit_and_checkpoints_that_lack_are_refused(repo, tmp_path, capsys):
    prepare(repo, tmp_path, items=4, only=["efficiency"])
    path = next((tmp_path / "serving").rglob("efficiency.json"))
    content = json.loads(path.read_text())
    for name, part in content["checkpoints"].items():
        if "debias" in name:
            part["backend"]["kernel"] = "2:4 kernel (test)"
    write_sealed(path, content)
    assert collect(tmp_path) == 0
    _, text = table(tmp_path)
    assert re.search(BOLD_SPEED, text)
    parts = dict(list(content["checkpoints"].items())[:1])
    write_sealed(path, content | {"checkpoints": parts})
    assert collect(tmp_path) == 2
    assert "measure again" in capsys.readouterr().err
