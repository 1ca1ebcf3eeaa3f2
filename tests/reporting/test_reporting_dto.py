"""Distances to the optimum with their bootstrap."""

import csv
import math

import closed_forms
import numpy as np
import pytest
from reporting_run import small_config, write_run

from evenprune.base.errors import UserError
from evenprune.cli import main
from evenprune.reporting import dto
from evenprune.stats import bootstrap
from evenprune.stats.scores import Scores

PLAIN = dto.Definition("dto", (dto.Component("mmlu", "acc"), dto.Component("unqover", "acc")))
CHANCE = dto.Definition(
    "dto_chance", (dto.Component("mmlu", "acc", 0.25), dto.Component("unqover", "acc", 1 / 3))
)
BBQ = dto.Definition("dto_bbq", (dto.Component("bbq", "acc_dis"), dto.Component("bbq", "acc_amb")))


def scores(values, clusters=None, strata=None, prefix="i"):
    return Scores(
        tuple(f"{prefix}{k}" for k in range(len(values))),
        np.asarray(values, float),
        clusters,
        strata,
    )


def flips(generator, n, p):
    return (generator.random(n) < p).astype(float)


@pytest.mark.parametrize("definition", [PLAIN, CHANCE])
def test_the_distance_is_that_of_stats(definition):
    for mmlu, unqover in ((0.6317, 0.3010), (0.2, 0.2), (1.0, 1.0), (0.0, 0.0)):
        parts = [
            closed_forms.above_chance(value, part.chance) if part.chance else value
            for value, part in zip((mmlu, unqover), definition.parts)
        ]
        found = float(definition.distance(np.array([mmlu, unqover])))
        assert found == pytest.approx(closed_forms.dto(*parts))


def test_samples_spread_as_those_of_resampling_item_by_item():
    generator = np.random.default_rng(0)
    mmlu, unqover = flips(generator, 300, 0.6), flips(generator, 200, 0.4)
    fast = dto.resampled(PLAIN, [[scores(mmlu), scores(unqover)]], resamples=20_000)[:, 0]
    slow = PLAIN.distance(
        np.column_stack(
            [generator.choice(one, size=(20_000, len(one))).mean(axis=1) for one in (mmlu, unqover)]
        )
    )
    assert fast.mean() == pytest.approx(slow.mean(), abs=0.001)
    assert fast.std() == pytest.approx(slow.std(), rel=0.03)
    # The delta method, for two independent accuracies.
    errors = [one.std() / math.sqrt(len(one)) for one in (mmlu, unqover)]
    gaps = [1 - mmlu.mean(), 1 - unqover.mean()]
    delta = math.hypot(*(g * e for g, e in zip(gaps, errors))) / (2 * fast.mean())
    assert fast.std() == pytest.approx(delta, rel=0.05)


def test_pairing_takes_out_what_both_checkpoints_share():
    generator = np.random.default_rng(1)
    base = [scores(flips(generator, 400, 0.5)), scores(flips(generator, 400, 0.5), prefix="u")]
    ours = [
        scores(np.where(np.arange(400) < 20, 1.0, one.values), prefix=one.ids[0][0]) for one in base
    ]
    samples = dto.resampled(PLAIN, [ours, base])
    paired = (samples[:, 0] - samples[:, 1]).std()
    assert paired < 0.5 * math.hypot(samples[:, 0].std(), samples[:, 1].std())
    same = dto.resampled(PLAIN, [base, base])
    assert np.array_equal(same[:, 0], same[:, 1])


def test_clusters_widen_and_strata_narrow():
    values = np.repeat([0.0, 1.0], 100)
    clusters = tuple(str(k // 20) for k in range(200))
    subjects = tuple("ab"[k // 100] for k in range(200))
    free = [scores(values), scores(values, clusters)]
    single = dto.resampled(PLAIN, [free], clustered=False).std()
    clustered = dto.resampled(PLAIN, [free]).std()
    assert clustered > 2 * single
    # Accuracies that are constant within subjects do not vary at all.
    fixed = [scores(values, None, subjects), scores(np.ones(200))]
    assert dto.resampled(PLAIN, [fixed]).std() == pytest.approx(0, abs=1e-12)


def test_both_parts_of_bbq_are_drawn_with_their_clusters():
    # A cluster's disambiguated and ambiguous items are right or wrong together, in opposite
    # ways: drawn together, the sum of both accuracies is always 1.
    right = np.repeat([0.0, 1.0], 10)
    clusters = tuple(str(k) for k in range(20))
    parts = [scores(right, clusters, prefix="d"), scores(1 - right, clusters, prefix="a")]
    samples = dto.resampled(BBQ, [parts], resamples=2000)[:, 0]
    # With x and 1 - x the distance is at least that of one half each.
    assert samples.min() == pytest.approx(0.5)
    apart = dto.resampled(PLAIN, [parts], resamples=2000)[:, 0]
    assert apart.min() < 0.49


def test_the_interval_covers_the_true_distance():
    generator = np.random.default_rng(5)
    truth = float(PLAIN.distance(np.array([0.6, 0.3])))
    hits = 0
    for seed in range(200):
        drawn = [scores(flips(generator, 150, 0.6)), scores(flips(generator, 150, 0.3))]
        samples = dto.resampled(PLAIN, [drawn], resamples=500, seed=seed)
        interval = bootstrap.interval(samples)
        hits += interval.low <= truth <= interval.high
    assert 180 <= hits <= 199


def test_other_items_are_refused():
    one = [scores([1, 0]), scores([1, 0])]
    other = [scores([1, 0]), scores([1, 0, 1])]
    with pytest.raises(UserError, match="same items"):
        dto.resampled(PLAIN, [one, other])


@pytest.fixture(scope="module")
def world(repo, tmp_path_factory):
    root = tmp_path_factory.mktemp("dto")
    run_sheet = write_run(small_config(repo, root))
    files = ["--out", str(root / "results.csv"), "--significance", str(root / "significance.csv")]
    assert main(["collect-results", "--run-sheet", str(run_sheet), *files]) == 0
    return root


def read_csv(path):
    with open(path, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_every_distance_has_its_interval(world):
    rows = {
        (row["method"], row["regime"], row["calibration"], row["metric"]): row
        for row in read_csv(world / "results.csv")
        if row["benchmark"] == "dto"
    }
    # main has one grid point a method; 50 % and 2:4; UltraChat, of the frontier too; CrowS-Pairs.
    assert len(rows) == (7 + 2 * 3 + 4 + 2) * 9
    for key, row in rows.items():
        if key[3] in ("dto", "dto_chance", "dto_bbq"):
            low, high = (
                float(rows[*key[:3], f"{key[3]}_{end}"]["value"]) for end in ("low", "high")
            )
            assert low < float(row["value"]) < high
            width = 2 * 1.96 * float(row["stderr"])
            assert high - low == pytest.approx(width, rel=0.2)


def test_paired_differences_of_distances(world):
    tests = {
        (row["regime"], row["calibration"], row["metric"]): row
        for row in read_csv(world / "significance.csv")
        if (row["benchmark"], row["model"]) == ("dto", "world")
        and row["method"] == "debias-sparsegpt"
    }
    assert len(tests) == 5 * 3
    values = {
        (row["method"], row["metric"]): float(row["value"])
        for row in read_csv(world / "results.csv")
        if (row["benchmark"], row["regime"], row["calibration"]) == ("dto", "2of4", "ss")
    }
    for name in ("dto", "dto_chance", "dto_bbq"):
        row = tests["2of4", "ss", name]
        expected = values["debias-sparsegpt", name] - values["sparsegpt", name]
        assert float(row["diff"]) == pytest.approx(expected)
        assert float(row["ci_low"]) < expected < float(row["ci_high"])
        assert float(row["cluster_low"]) < expected < float(row["cluster_high"])
        assert row["p_t"] == row["p_holm"] == ""
