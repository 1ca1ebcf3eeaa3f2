"""Intervals and corrections against closed forms, and the paper's printed values."""

from unittest import mock

import closed_forms
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from evenprune.analysis.printed import printed_rows
from evenprune.stats import inference
from evenprune.stats.inference import Estimate


def test_p_and_interval_of_an_estimate_agree():
    """The interval excludes 0 where p is below 1 - level, also for several tests at once."""
    for value, df in ((0.5, None), (2.0, None), (2.0, 5), (2.6, 5), (3.1, 20)):
        one = Estimate(value, 1.0, df=df)
        spread = stats.norm if df is None else stats.t(df)
        assert one.p() == pytest.approx(2 * spread.sf(value))
        assert (one.half_width() < value) == (one.p() < 0.05)
        assert (one.half_width(tests=4) < value) == (4 * one.p() < 0.05)
    assert Estimate(0.0, 0.0).p() == 1
    assert Estimate(0.1, 0.0).p() == 0
    assert Estimate(0.1).p() is Estimate(0.1).half_width() is None


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_that_of_statsmodels(p_values):
    adjusted = inference.holm({"none": None, **dict(enumerate(p_values))})
    assert list(adjusted) == list(range(len(p_values)))
    with mock.patch("gc.collect"):  # statsmodels calls it each time
        assert list(adjusted.values()) == multipletests(p_values, method="holm")[1].tolist()


def test_the_sign_test():
    assert inference.sign_test([1, 2, 0, -1]) == (2, 1, 1, 1.0)
    assert inference.sign_test([1, 2, 3]) == (3, 0, 0, 0.25)
    assert inference.sign_test([0]) == (0, 1, 0, 1.0)


# The paper's numbers


def test_every_printed_dto_is_reproduced():
    """All 65 DTO cells of the tables with MMLU and UnQover, to less than 0.0005."""
    tables = {}
    for row in printed_rows():
        key = (row["table"], row["model"], row["method"], row["regime"], row["calibration"])
        if row["calibration"] != "diff":
            tables.setdefault(key, {})[row["metric"]] = float(row["value"])
    cells = [t for t in tables.values() if {"dto", "mmlu", "unqover"} <= set(t)]
    assert len(cells) == 65
    for cell in cells:
        ours = closed_forms.dto(cell["mmlu"] / 100, cell["unqover"] / 100)
        assert abs(ours - cell["dto"]) < 0.0005
