"""The engine of paired differences: against closed forms."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evenprune.analysis.frames import Quantity
from evenprune.analysis.item_sums import ItemSums
from evenprune.io.errors import UserError
from evenprune.stats.inference import Estimate
from evenprune.stats.measures import Measure
from evenprune.stats.paired import LEAST, Sums, combined, jackknife, joined, with_seeds

MEAN = Measure((lambda row: (row["value"], 1.0),))


def scores(values, clusters=None, prefix="i"):
    values = np.asarray(values, float)
    parts = np.stack([values[:, None], np.ones((len(values), 1))], axis=1)
    ids = tuple(f"{prefix}{k}" for k in range(len(values)))
    return Sums(MEAN, ids, parts, None if clusters is None else tuple(map(str, clusters)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=LEAST, max_size=60))
def test_without_clusters_it_is_the_papers_paired_t_test(both):
    ours, theirs = np.round(np.array(both), 3).T
    found = jackknife(scores(ours), scores(theirs))
    estimate = combined(np.subtract, found)
    assert estimate.value == pytest.approx((ours - theirs).mean(), abs=1e-9)
    assert estimate.stderr == pytest.approx(stats.sem(ours - theirs), abs=1e-6)
    if (ours - theirs).std() > 0.1:
        p = max(stats.ttest_rel(ours, theirs).pvalue, min(1, 2.0 ** (1 - found.changed)))
        assert estimate.p() == pytest.approx(p, abs=1e-6)


def test_clusters_are_the_units():
    """Ten clusters of ten equal items are as uncertain as ten items, not as a hundred."""
    values = np.repeat(np.arange(10.0), 10)
    clustered = jackknife(scores(values, np.arange(100) // 10), scores(np.zeros(100), range(100)))
    assert (clustered.n, clustered.units, clustered.clustered) == (100, 10, True)
    items = jackknife(scores(np.arange(10.0)), scores(np.zeros(10)))
    stderr = combined(np.subtract, clustered).stderr
    assert stderr == pytest.approx(combined(np.subtract, items).stderr)
    alone = jackknife(scores(values), scores(np.zeros(100)))
    assert stderr > 2.5 * combined(np.subtract, alone).stderr


def test_few_units_are_not_tested():
    """Also where there are many items in them."""
    ones, zeros = np.ones(90), np.zeros(90)
    few, enough = (np.arange(90) % count for count in (LEAST - 1, LEAST))
    found = jackknife(scores(ones, few), scores(zeros, few))
    assert combined(np.subtract, found).stderr is combined(np.subtract, found).p() is None
    assert combined(np.subtract, jackknife(scores(ones, enough), scores(zeros, enough))).p() < 0.01


def test_few_units_that_differ_are_no_proof():
    """Four answers of 200 that all changed one way: no exact test would call that clear."""
    after = np.r_[np.ones(4), np.zeros(196)]
    found = jackknife(scores(after), scores(np.zeros(200)))
    estimate = combined(np.subtract, found)
    assert estimate.p() == 1 / 8
    # The interval says the same: it reaches to 0 where the p-value is as large as its level.
    assert estimate.half_width() == estimate.value
    assert estimate.half_width(1 - 0.2) < estimate.value
    assert combined(np.subtract, jackknife(scores(after), scores(after))).p() == 1


def test_changes_that_cancel_within_a_cluster_count():
    """Twenty clusters of two items that exchange their answers: each has changed."""
    before = np.tile([1.0, 0.0], 20)
    found = jackknife(scores(1 - before, np.arange(40) // 2), scores(before, np.arange(40) // 2))
    assert (found.changed, combined(np.subtract, found).value) == (20, 0)
    same = jackknife(scores(before, np.arange(40) // 2), scores(before, np.arange(40) // 2))
    assert same.changed == 0


def test_seeds_are_a_sample_too():
    """Between equal seeds the error is that of the items; else Satterthwaite's."""
    items = Estimate(1.0, 0.3, 100, 99)
    assert with_seeds(items, [1.0]) == items
    assert with_seeds(items, [1.0, 1.0, 1.0]) == items
    found = with_seeds(items, [0.0, 1.0, 2.0])
    assert found.stderr == pytest.approx(math.hypot(0.3, 1 / math.sqrt(3)))
    assert 2 < found.df < 4
    generator = np.random.default_rng(0)
    missed = 0
    for _ in range(400):  # true mean 0, seeds spread by 1, items by 0.3
        common, seeds = generator.normal(0, 0.3), generator.normal(0, 1, 5)
        half = with_seeds(Estimate(common + seeds.mean(), 0.3, 100, 99), common + seeds)
        missed += abs(half.value) > half.half_width()
    assert 0.02 < missed / 400 < 0.08


def test_undecided_items_are_left_out_of_both_and_of_every_seed():
    first, second = [1.0, math.nan, *[1.0] * 10], [0.0, 1.0, *[1.0] * 10]
    found = jackknife(scores(first), scores(second))
    assert (found.n, found.values) == (11, (1.0, 10 / 11))
    assert jackknife(scores([math.nan]), scores([1.0])) is None


def test_other_items_are_refused():
    with pytest.raises(UserError, match="same items"):
        jackknife(scores([1, 0]), scores([1, 0], prefix="j"))
    with pytest.raises(UserError, match="same items"):
        jackknife(scores([1, 0]), scores([1]))


def test_a_file_without_the_metric_is_refused(tmp_path):
    path = tmp_path / "items.jsonl"
    config = SimpleNamespace(benchmarks={"b": SimpleNamespace(task="bbq")})
    sheet = SimpleNamespace(config=config, result_folder=lambda *_: tmp_path)
    for right, metric, words in (
        ("true", "acc_dis", "found none"), ("[]", "acc_amb", "other form"), ("", "acc_amb", "none")
    ):  # fmt: skip
        path.write_text(right and f'{{"item_id": "a", "condition": "ambig", "correct": {right}}}')
        with pytest.raises(UserError, match=words):
            ItemSums(sheet).scored(None, Quantity("b", metric))


def test_a_metric_of_two_files_has_the_error_of_the_delta_method():
    generator = np.random.default_rng(0)
    parts = [flips(generator, 300, 0.6), flips(generator, 200, 0.4)]
    distance = Measure(MEAN.terms * 2, lambda r: np.hypot(1 - r[..., 0], 1 - r[..., 1]))
    found = jackknife(joined(distance, [scores(parts[0]), scores(parts[1], prefix="u")]))
    gaps, errors = [1 - one.mean() for one in parts], [stats.sem(one) for one in parts]
    value = math.hypot(*gaps)
    estimate = combined(lambda only: only, found)
    assert (estimate.value, estimate.n) == (pytest.approx(value), 500)
    delta = math.hypot(*(g * e for g, e in zip(gaps, errors))) / value
    assert estimate.stderr == pytest.approx(delta, rel=0.01)


def flips(generator, n, p):
    return (generator.random(n) < p).astype(float)
