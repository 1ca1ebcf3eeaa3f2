"""The statistics against closed forms, other routes to the same number, and printed values."""

import itertools
import math

import closed_forms
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar

from evenprune.reporting.printed import printed_rows, printed_values
from evenprune.stats import bootstrap, inference

PRINTED_BENCHMARKS = ("perplexity", "hellaswag", "mmlu", "unqover", "bbq", "crows_pairs")


def scores(wins, losses, both, neither):
    """Return two 0/1 vectors with the given counts of each outcome."""
    ours = [1] * wins + [0] * losses + [1] * both + [0] * neither
    theirs = [0] * wins + [1] * losses + [1] * both + [0] * neither
    return np.array(ours), np.array(theirs)


@given(*(st.integers(0, 40) for _ in range(4)))
def test_the_t_test_equals_its_closed_form(wins, losses, both, neither):
    n = wins + losses + both + neither
    if n < 2:
        return
    t, p = inference.paired_t(*scores(wins, losses, both, neither))
    closed_t, closed_p = closed_forms.paired_t_counts(wins, losses, n)
    assert t == pytest.approx(closed_t)
    assert p == pytest.approx(closed_p, abs=1e-12)


def test_the_t_test_without_variance():
    assert inference.paired_t([1, 0, 1], [1, 0, 1]) == (0.0, 1.0)
    assert inference.paired_t([1, 1], [0, 0]) == (math.inf, 0.0)
    assert inference.paired_t([0, 0], [1, 1]) == (-math.inf, 0.0)
    assert closed_forms.paired_t_counts(2, 0, 2) == (math.inf, 0.0)
    with pytest.raises(ValueError, match="one length"):
        inference.paired_t([1], [0])


def test_mcnemar_by_summing_the_binomial():
    for wins, losses in ((0, 0), (5, 0), (7, 3), (3, 7), (12, 12)):
        n = wins + losses
        weights = [math.comb(n, k) / 2**n for k in range(n + 1)]
        expected = sum(w for w in weights if w <= weights[wins] * (1 + 1e-9))
        assert inference.mcnemar_exact(wins, losses) == pytest.approx(min(1.0, expected))


def test_mcnemar_is_that_of_statsmodels():
    for wins, losses in itertools.product(range(25), repeat=2):
        expected = mcnemar([[0, wins], [losses, 0]], exact=True).pvalue if wins + losses else 1.0
        assert inference.mcnemar_exact(wins, losses) == pytest.approx(expected, rel=1e-12)


def test_the_bootstrap_matches_resampling_item_by_item():
    generator = np.random.default_rng(1)
    values = generator.choice([-1, 0, 0, 1, 1], size=80).astype(float)
    fast = bootstrap.means(values, resamples=20_000)
    slow = generator.choice(values, size=(20_000, 80)).mean(axis=1)
    assert fast.mean() == pytest.approx(slow.mean(), abs=0.005)
    assert fast.std() == pytest.approx(slow.std(), rel=0.03)
    assert np.array_equal(fast, bootstrap.means(values, resamples=20_000))
    assert not np.array_equal(fast, bootstrap.means(values, resamples=20_000, seed=1))


def test_the_cluster_bootstrap_draws_whole_clusters():
    # Ten clusters of ten equal items: as uncertain as ten items, not as a hundred.
    values = np.repeat(np.arange(10.0), 10)
    clusters = [str(k // 10) for k in range(100)]
    clustered = bootstrap.means(values, clusters=clusters, resamples=20_000)
    ten_items = bootstrap.means(np.arange(10.0), resamples=20_000)
    assert clustered.std() == pytest.approx(ten_items.std(), rel=0.03)
    assert clustered.std() > 2.5 * bootstrap.means(values).std()
    unequal = bootstrap.means([1.0, 1.0, 0.0], clusters=["a", "a", "b"], resamples=2000)
    assert sorted(set(np.round(unequal, 3))) == [0.0, 0.667, 1.0]


def test_ratios_draw_the_same_rows_for_all_columns():
    generator = np.random.default_rng(3)
    values = generator.integers(0, 2, (60, 1)).astype(float)
    twice = np.column_stack((values, 1 - values))
    found = bootstrap.ratios(twice, np.ones_like(twice), resamples=500)
    assert found.sum(axis=1) == pytest.approx(1)
    assert np.array_equal(found[:, 0], bootstrap.means(values[:, 0], resamples=500))


def test_ratios_weigh_rows_and_mark_undefined_samples():
    values, weights = [[3.0, 0.0], [5.0, 1.0]], [[1.0, 0.0], [1.0, 1.0]]
    found = bootstrap.ratios(values, weights, resamples=400)
    assert set(found[:, 0]) == {3.0, 4.0, 5.0}
    # The second column has weight in one row only: undefined where that is not drawn.
    assert np.array_equal(np.isnan(found[:, 1]), found[:, 0] == 3.0)
    assert set(found[~np.isnan(found[:, 1]), 1]) == {1.0}
    interval = bootstrap.interval(found[:, 1])
    assert (interval.low, interval.high) == (1.0, 1.0)


def test_strata_keep_their_sizes():
    values = [0.0] * 10 + [1.0] * 30
    strata = ["a"] * 10 + ["b"] * 30
    assert set(bootstrap.means(values, strata=strata, resamples=100)) == {0.75}


def test_the_bootstrap_interval_covers_its_mean():
    """Over 200 samples of a known mean the 95 % interval holds it in about 95 %."""
    generator = np.random.default_rng(0)
    hits = 0
    for seed in range(200):
        sample = generator.binomial(1, 0.6, size=150)
        interval = bootstrap.interval(bootstrap.means(sample, resamples=1000, seed=seed))
        hits += interval.low <= 0.6 <= interval.high
    assert 180 <= hits <= 199


def test_holm_by_hand():
    found = inference.holm({"a": 0.01, "b": 0.04, "none": None, "c": 0.03})
    assert found == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    assert inference.holm({}) == {}


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_what_the_step_down_rule_rejects(p_values):
    adjusted = inference.holm(dict(enumerate(p_values)))
    ordered = sorted(range(len(p_values)), key=lambda i: p_values[i])
    stopped = False
    for rank, index in enumerate(ordered):
        stopped = stopped or (len(p_values) - rank) * p_values[index] > 0.05
        assert (adjusted[index] <= 0.05) == (not stopped)


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


def test_dto_vectors():
    for mmlu, unqover, expected in (
        (63.17, 30.10, 0.5587),
        (54.17, 47.26, 0.4941),
        (33.19, 74.03, 0.5069),
    ):
        assert closed_forms.dto(mmlu / 100, unqover / 100) == pytest.approx(expected, abs=5e-5)
    assert closed_forms.dto(1, 1) == 0
    assert closed_forms.dto(0, 0) == 1
    assert closed_forms.dto(0.25, 1 / 3) == pytest.approx(0.710, abs=5e-4)
    assert closed_forms.above_chance(0.2, 0.25) == 0
    assert closed_forms.above_chance(1.0, 0.25) == 1


def test_a_number_printed_twice_is_printed_the_same():
    seen = {}
    for row in printed_rows():
        key = tuple(row[name] for name in ("model", "method", "regime", "calibration", "metric"))
        seen.setdefault(key, set()).add(round(float(row["value"]), 1))
    assert len(printed_rows()) == 719  # of which three are of no model
    for key, values in seen.items():
        assert len(values) == 1, key


def test_the_printed_differences_are_those_of_the_printed_values():
    checked = 0
    for row in printed_rows():
        if row["calibration"] != "diff":
            continue
        head = ("qwen2.5-7b-it", row["method"], "2of4")
        with_texts, _ = printed_values()[*head, "ss-uc256", row["metric"]]
        without, _ = printed_values()[*head, "ss", row["metric"]]
        expected = float(row["value"]) / (1 if row["metric"] == "dto" else 100)
        assert with_texts - without == pytest.approx(expected, abs=1e-9)
        checked += 1
    assert checked == 6


def test_the_sign_test():
    assert inference.sign_test([1, 2, 0, -1]) == (2, 1, 1, 1.0)
