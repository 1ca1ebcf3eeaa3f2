"""How often two models that do not differ are called different: by compare, and by a dagger.

Pairs of models agree on most items, as pruned ones do.
"""

from pathlib import Path

import numpy as np
import pytest

from evenprune.analysis.results import ALPHA
from evenprune.comparison import differences
from evenprune.stats import verdicts
from evenprune.stats.measures import MEASURES
from evenprune.stats.paired import sums_of

RUNS = 300
METRICS = {
    "mmlu": ("acc",), "crows_pairs": ("pct_stereotype",),
    "bbq": ("acc_amb", "acc_dis", "s_amb", "s_dis"),
}  # fmt: skip


def rows(values, **more):
    return [
        {"item_id": str(k), "correct": bool(value)} | {name: of[k] for name, of in more.items()}
        for k, value in enumerate(values)
    ]


def accuracy(generator):
    """Both answer an item anew with a chance of a quarter."""
    again = generator.random((2, 300)) < 0.25
    drawn = generator.random((3, 300)) < 0.5
    return [rows(np.where(again[k], drawn[k], drawn[2])) for k in (0, 1)]


def mmlu(generator):
    """One item a subject, whose difficulties differ."""
    both = generator.random((2, 57)) < generator.random(57)
    return [rows(one, category=[f"s{k}" for k in range(57)]) for one in both]


def crows_pairs(generator):
    """True 56 % against true 44 %: as far from one half."""
    return [rows(generator.random(400) < share) for share in (0.56, 0.44)]


def bbq(generator):
    """40 clusters of six whose answers go together, half of each ambiguous."""
    lean = np.repeat(generator.beta(2, 2, 40), 6)
    common = np.repeat(generator.random(40), 6)
    ambiguous = np.arange(240) % 2 == 0
    fields = {
        "condition": np.where(ambiguous, "ambig", "disambig").tolist(),
        "cluster": [f"c{k // 6}" for k in range(240)],
        "biased_idx": [0] * 240, "unknown_idx": [2] * 240,
    }  # fmt: skip
    found = []
    for _ in range(2):
        shared = np.repeat(generator.random(40) < 0.5, 6)
        draw = np.where(shared, common, generator.random(240))
        pred = np.where(draw < lean * 0.5, 0, np.where(draw < 0.5, 1, 2))
        found.append(rows(pred == np.where(ambiguous, 2, 1), pred=pred.tolist(), **fields))
    return found


def records(task, found):
    values = {name: MEASURES[task, name].value(found) for name in METRICS[task]}
    metrics = {name: {"value": value, "n": len(found)} for name, value in values.items()}
    result = {"task": task, "headline": METRICS[task][0], "metrics": metrics}
    return differences.Records(Path("folder"), found, values, result=result)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "task"),
    [(accuracy, "mmlu"), (mmlu, "mmlu"), (crows_pairs, "crows_pairs"), (bbq, "bbq")],
)
def test_at_most_seven_percent_are_called_different(draw, task):
    generator = np.random.default_rng(1)
    wrong, judged, daggers, least = 0, 0, 0, 1.0
    quiet = {verdicts.NOT_SHOWN, verdicts.SAME, verdicts.EQUALLY_FAIR, verdicts.SAYS_NOTHING}
    if draw is crows_pairs:  # shares on opposite sides of one half differ
        quiet.add(verdicts.MOVED)
    for _ in range(RUNS):
        both = draw(generator)
        found = differences.differences(task, *(records(task, one) for one in both))
        found = differences.judged(found)
        assert verdicts.NOT_TESTED not in {row.verdict for row in found}
        wrong += any(row.verdict not in quiet for row in found)
        judged += any(row.verdict != verdicts.SAYS_NOTHING for row in found)
        sums = [sums_of(MEASURES[task, METRICS[task][0]], one) for one in both]
        p = verdicts.paired_test(task, METRICS[task][0], sums[:1], sums[1:]).p
        daggers += p < ALPHA
        least = min(least, p)
    assert judged > 0.7 * RUNS
    assert wrong <= 0.07 * judged
    assert daggers <= 0.07 * RUNS
    assert least < 0.05  # it can call models different
