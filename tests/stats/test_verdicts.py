"""Verdicts: what is tested, the interval that goes with it, and the power that is stated."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evenprune.stats import verdicts
from evenprune.stats.measures import MEASURES
from evenprune.stats.paired import sums_of
from evenprune.stats.verdicts import judged, paired_test

QUIET = {verdicts.NOT_SHOWN, verdicts.SAME, verdicts.EQUALLY_FAIR, verdicts.MOVED}


def sums(task, metric, values, clusters=None):
    rows = [{"item_id": str(k), "correct": bool(one)} for k, one in enumerate(values)]
    for row, name in zip(rows, [] if clusters is None else clusters):
        row["cluster"] = str(name)
    return sums_of(MEASURES[task, metric], rows)


def paired(task, metric, after, before, clusters=None):
    both = [sums(task, metric, one, clusters) for one in (after, before)]
    return paired_test(task, metric, both[:1], both[1:])


def shares(after, before, clusters=None):
    """The test of two models' shares of stereotypes, True where the stereotype is preferred."""
    return paired("crows_pairs", "pct_stereotype", after, before, clusters)


def losses(nats):
    rows = [
        {"item_id": str(k), "nll": float(one), "n_tokens": 10 + k % 7} for k, one in enumerate(nats)
    ]
    return sums_of(MEASURES["perplexity", "ppl"], rows)


# Nearer to one half


def drawn(generator, share, other, agreement, clusters, size=5):
    """Two models' preferences that agree on a share of the items, by clusters that go together."""
    names = np.repeat(np.arange(clusters), size)
    lean = np.repeat(generator.random(clusters), size)
    common = generator.random(names.size)
    again = generator.random(names.size) > agreement
    latent = np.where(again, generator.random(names.size), common)
    first, second = (stats.beta.ppf(lean, 9 * one, 9 * (1 - one)) for one in (share, other))
    return common < first, latent < second, names


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [60, 240])
@pytest.mark.parametrize("agreement", [0.5, 0.7, 0.9])
def test_shares_as_far_from_half_on_both_sides_are_seldom_called_different(agreement, clusters):
    generator = np.random.default_rng(clusters + int(10 * agreement))
    wrong = 0
    for _ in range(300):
        before, after, names = drawn(generator, 0.55, 0.45, agreement, clusters)
        said = judged({0: shares(after, before, names)})[0]
        wrong += said.word not in QUIET
    assert wrong <= 0.07 * 300


@pytest.mark.slow
def test_equal_associations_are_seldom_called_different():
    """Both models tie groups to stereotypes equally, by clusters, with tails like a real one's."""
    generator = np.random.default_rng(0)
    wrong = 0
    for clusters in [60, 240] * 150:
        names = np.repeat(np.arange(clusters), generator.integers(1, 30, clusters))
        shared = 0.4 + generator.normal(0, 0.5, clusters)[names]
        models = []
        for _ in range(2):
            own = generator.normal(0, 0.4, clusters)[names]
            values = shared + own + generator.standard_t(4, names.size)
            rows = [
                {"item_id": str(k), "association": value, "cluster": str(name)}
                for k, (value, name) in enumerate(zip(values.tolist(), names))
            ]
            models.append([sums_of(MEASURES["stereoset", "association"], rows)])
        wrong += judged({0: paired_test("stereoset", "association", *models)})[0].word not in QUIET
    assert wrong <= 0.07 * 300


def test_no_single_item_decides():
    """400 pairs, of which 40 net turn to the stereotype; dense is at, or next to, one half.

    A jackknife of the distance to one half gave 0.03, 5e-5 and 6e-6.
    """
    values = []
    for start in (199, 200, 201):
        before = np.arange(400) < start
        after = before.copy()
        after[[*range(20), *range(300, 360)]] ^= True
        found = shares(after, before)
        assert found.difference == pytest.approx(0.1)
        values.append(found.p)
    assert 0.005 < min(values) <= max(values) < 2 * min(values)


def test_a_change_across_one_half_is_moved():
    generator = np.random.default_rng(1)
    before = generator.random(2000) < 0.56
    after = generator.random(2000) < 0.44
    said = judged({0: shares(after, before)}, bias_margin=0.0)[0]
    assert said.word == verdicts.MOVED
    assert said.interval.high < 0
    # From 60 to 50 is fairer, from 50 to 60 less fair.
    half, far = generator.random(2000) < 0.5, generator.random(2000) < 0.6
    assert judged({0: shares(half, far)})[0].word == verdicts.FAIRER
    assert judged({0: shares(far, half)})[0].word == verdicts.LESS_FAIR


def test_a_small_fall_that_ends_at_half_cannot_be_seen():
    """Dense at 52: nothing nearer to 50 is significantly off it; further away can be seen."""
    generator = np.random.default_rng(2)
    before = generator.permutation(np.arange(400) < 208)
    after = np.where(generator.random(400) < 0.2, generator.random(400) < 0.52, before)
    worse, better = shares(after, before).detectable()
    assert better is None
    assert 0.02 < worse < 0.2


# The interval goes with the verdict


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=8), st.integers(0, 99))
def test_an_interval_excludes_zero_exactly_where_a_change_is_shown(leans, seed):
    generator = np.random.default_rng(seed)
    tests = {}
    for k, lean in enumerate(leans):
        tests[k] = paired("mmlu", "acc", *(generator.random((2, 60)) < [[0.6 + lean / 8], [0.6]]))
    for one in judged(tests, margin=0.0).values():
        if one.word == verdicts.SAYS_NOTHING:
            continue
        excluded = not one.interval.low <= 0 <= one.interval.high
        assert excluded == (one.word in (verdicts.BETTER, verdicts.WORSE))
        assert excluded == (one.p_holm < 0.05)


# Perplexity


def test_a_perplexity_is_a_ratio_over_its_documents():
    generator = np.random.default_rng(3)
    before = generator.normal(30, 6, 40)
    after = before * 1.05 + generator.normal(0, 0.4, 40)
    found = paired_test("perplexity", "ppl", [losses(after)], [losses(before)])
    tokens = np.array([10 + k % 7 for k in range(40)])
    assert found.difference == pytest.approx(math.exp((after - before).sum() / tokens.sum()))
    said = judged({0: found})[0]
    assert said.word == verdicts.WORSE
    assert 1 < said.interval.low < found.difference < said.interval.high
    assert found.detectable()[0] > 1
    few = paired_test("perplexity", "ppl", [losses(after[:9])], [losses(before[:9])])
    assert judged({0: few})[0].word == verdicts.NOT_TESTED


# Power


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "metric", "way"),
    [
        ("mmlu", "acc", -1),
        ("crows_pairs", "pct_stereotype", 1),
        # Towards one half both factors have to be shown.
        ("crows_pairs", "pct_stereotype", -1),
        ("perplexity", "ppl", 1),
    ],
)
def test_a_change_of_the_stated_size_is_seen_in_four_of_five_runs(task, metric, way):
    """The size is that of one run; then runs are drawn with a change of that size."""
    generator = np.random.default_rng(4)
    fairer = task == "crows_pairs" and way < 0

    def draw(change):
        if task == "perplexity":
            before = generator.normal(30, 6, 120)
            after = before + generator.normal(0, 1, 120) + math.log1p(change) * 13
            return paired_test(task, metric, [losses(after)], [losses(before)])
        before = generator.random(1500) < 0.58
        anew = generator.random(1500) < 0.58 + way * change / 0.3
        after = np.where(generator.random(1500) < 0.3, anew, before)
        return paired(task, metric, after, before)

    stated = np.median([draw(0.0).detectable()[int(fairer)] for _ in range(20)])
    runs = [draw(stated - (task == "perplexity")) for _ in range(600)]
    seen = sum(one.p < 0.05 and (one.gain > 0) == fairer for one in runs) / 600
    assert 0.74 < seen < 0.87


def test_more_items_see_less():
    """As many items as are said to be needed show the change; half the error, half of it."""
    generator = np.random.default_rng(6)
    before = generator.random(400) < 0.6
    after = np.where(generator.random(400) < 0.3, generator.random(400) < 0.6, before)
    found = paired("mmlu", "acc", after, before)
    now = found.detectable()[0]
    assert found.detectable(0.5)[0] == pytest.approx(now / 2, rel=0.02)
    assert found.needed(now) == pytest.approx(400, rel=0.05)
    assert found.needed(now / 2) == pytest.approx(1600, rel=0.05)


def test_few_changes_state_no_power_that_they_have_not():
    """Two of 300 answers changed: the error is tiny, but six changes are the fewest that prove."""
    before = np.arange(300) < 150
    after = before.copy()
    after[:2] = False
    for other in (after, before):
        assert paired("mmlu", "acc", other, before).detectable()[0] > 6 / 300


def test_bias_within_its_margin_is_equally_fair():
    generator = np.random.default_rng(7)
    before = generator.random(4000) < 0.6
    after = np.where(generator.random(4000) < 0.02, ~before, before)
    assert judged({0: shares(after, before)})[0].word == verdicts.EQUALLY_FAIR
    said = judged({0: shares(after, before)}, bias_margin=0.001)[0].word
    assert said in QUIET - {verdicts.EQUALLY_FAIR}


# What says nothing


def lettered(preds, golds):
    return [
        {"item_id": str(k), "pred": int(pred), "gold": int(gold), "correct": bool(pred == gold)}
        for k, (pred, gold) in enumerate(zip(preds, golds))
    ]


def test_one_letter_for_everything_says_nothing():
    golds = np.arange(90) % 3
    always = lettered(np.zeros(90), golds)
    assert verdicts.constant_answer("unqover", "acc", always) == "picks A in 90 of 90"
    assert verdicts.constant_answer("unqover", "acc", lettered(golds, golds)) == ""
    # The right answer may always stand at the same place.
    assert not verdicts.constant_answer("multiple_choice", "acc", lettered(golds * 0, golds * 0))
    assert verdicts.constant_answer("crows_pairs", "pct_stereotype", always) == ""
    # What is computed without letters says something all the same.
    assert verdicts.constant_answer("unqover", "bias_names", always) == ""


def test_an_ability_at_chance_is_left_out_of_the_correction():
    """60 questions of which a third is right: neither a fall nor the correction would be honest."""
    generator = np.random.default_rng(8)
    weak, strong = generator.random((2, 60)) < [[0.3], [0.95]]
    tests = {
        "weak": paired("mmlu", "acc", generator.random(60) < 0.25, weak),
        "strong": paired("mmlu", "acc", strong & ~weak, strong),
    }
    said = judged(tests)
    assert said["weak"].word == verdicts.SAYS_NOTHING
    assert "chance" in said["weak"].reason
    assert said["weak"].p_holm is None
    assert said["strong"].p_holm == tests["strong"].p
    assert said["strong"].word == verdicts.WORSE
    letters = judged(tests, constant={"strong": "picks A in 60 of 60"})
    assert {one.word for one in letters.values()} == {verdicts.SAYS_NOTHING}


def test_these_seeds_alone_are_tested_by_their_items():
    """Both factors of a share's test leave the choice of seeds out."""
    generator = np.random.default_rng(9)
    before = generator.random(800) < 0.7
    after = [np.where(generator.random(800) < 0.4, generator.random(800) < s, before)
             for s in (0.2, 0.4, 0.6)]  # fmt: skip
    names = "crows_pairs", "pct_stereotype"
    found = paired_test(*names, [sums(*names, one) for one in after], [sums(*names, before)] * 3)
    assert found.p_fixed < found.p
    mean = np.mean(after, axis=0) + before - 1
    error = mean.std(ddof=1) / math.sqrt(800)
    assert found.fixed.total.stderr == pytest.approx(error, rel=1e-6)
    assert found.total.stderr > 2 * error
