"""Paired differences between two evaluations, their intervals, tests and verdicts.

Items are those that both models answered. Intervals and p-values are of one bootstrap over
items, by cluster where items are clustered, MMLU's within its subjects: the same items are drawn
for both models. The 95 % interval is the percentile one. What is tested is the ``gain``: how much
better the pruned model's value is, for a metric that is best at 0.5 or 0 how much nearer to it; p
is twice the share of bootstrap samples on the other side of no gain. ``p_holm`` is corrected by
Holm over all rows of one pruned model.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import UserError
from ..base.reading import expected_form
from ..plan.finished import ITEMS, METRICS
from ..plan.tasks import Direction
from ..stats import bootstrap, inference, records
from ..stats.bootstrap import RESAMPLES, Array
from ..stats.directions import chance, direction, gain
from ..stats.measures import MEASURES, OTHERWISE, Measure
from ..stats.records import Record as Row
from ..stats.scores import LEAST, units
from .measures import STATES, Kind, States, kind, metrics_of

LEVEL = 0.05
FITS = 1e-6  # relative; a recorded value and the same from the records

FAIRER, LESS_FAIR = "fairer", "less fair"
BETTER, WORSE, SAME = "better", "worse", "same within margin"
NOT_SHOWN, NOT_TESTED = "not shown", "not tested"


@dataclass(frozen=True)
class Flips:
    """Of ``n`` items how many were unbiased and became stereotyped, and the reverse."""

    n: int
    to_stereotyped: int
    to_unbiased: int


@dataclass(frozen=True)
class Difference:
    """One metric of one benchmark in two models.

    ``low`` and ``high`` are the 95 % interval of ``difference`` (pruned less dense); ``same``:
    its 90 % interval lies within the margin. None: not known.
    """

    benchmark: str
    task: str
    metric: str
    kind: Kind
    direction: Direction
    chance: float | None
    n: int
    clustered: bool
    dense: float | None
    pruned: float | None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    gain: float | None = None
    p: float | None = None
    p_holm: float | None = None
    same: bool = False
    in_calibration: bool = False
    verdict: str = NOT_TESTED
    flips: Flips | None = None


@dataclass(frozen=True)
class Records:
    """The records of one evaluation in the data's own order of options, and what it recorded."""

    folder: Path
    result: Mapping[str, Any]
    rows: Sequence[Row]

    @property
    def ids(self) -> list[str]:
        """The items, in their order."""
        return [str(row["item_id"]) for row in self.rows]

    def value(self, metric: str) -> float | None:
        """Return a metric's recorded value, None where it is undefined or not there."""
        found = self.result["metrics"].get(metric)
        return None if found is None else found["value"]


def read_records(folder: Path, result: Mapping[str, Any]) -> Records:
    """Return the records of a finished benchmark; perplexity's of its first protocol only."""
    rows = records.read_records(folder / ITEMS)
    return Records(
        folder, result, records.first_part(rows) if result["task"] == "perplexity" else rows
    )


def differences(
    slug: str,
    dense: Records,
    pruned: Records,
    margin: float,
    in_calibration: bool = False,
    resamples: int = RESAMPLES,
) -> list[Difference]:
    """Return the rows of one benchmark, without the correction for their number.

    Those of calibration data (``in_calibration``) are shown and not tested. Raises UserError where
    the two have not the same items.
    """
    task = dense.result["task"]
    if dense.ids != pruned.ids:
        raise UserError(
            f"expected the same items of {slug} in {dense.folder} and {pruned.folder}, got "
            f"{len(dense.rows)} and {len(pruned.rows)} that differ; evaluate both again with the "
            "same data and options"
        )
    found = []
    for metric in metrics_of(task, dense.result["headline"]):
        both = [one.result["metrics"].get(metric) for one in (dense, pruned)]
        # Of no item at all: your own questions need name no stereotype.
        if metric != dense.result["headline"] and not any(one and one["n"] for one in both):
            continue
        row = _difference(slug, metric, dense, pruned, margin, 0 if in_calibration else resamples)
        row = dataclasses.replace(row, in_calibration=in_calibration)
        states = STATES.get(task)
        if states and states.beside == metric:
            with expected_form("records of answers", dense.folder / ITEMS, "evaluate again"):
                row = dataclasses.replace(row, flips=_flips(states, dense.rows, pruned.rows))
        found.append(row)
    return found


def _difference(
    slug: str, metric: str, dense: Records, pruned: Records, margin: float, resamples: int
) -> Difference:
    task = dense.result["task"]
    way = direction(task, metric)
    values = [one.value(metric) for one in (dense, pruned)]
    known = dense.result["metrics"].get(metric, {})
    row = Difference(
        *(slug, task, metric, kind(task, metric), way, chance(task, metric)),
        n=int(known.get("n") or 0),
        clustered=False,
        dense=values[0],
        pruned=values[1],
    )
    if values[0] is None or values[1] is None:
        return row
    row = dataclasses.replace(row, difference=values[1] - values[0])
    columns = _columns(task, metric, dense, pruned)
    if columns is None or not way or not resamples:
        return row
    measure, sums, weights = columns
    counted = np.asarray(weights.any(axis=1))
    rows = list(itertools.compress(dense.rows, counted.tolist()))
    clusters, strata = units(task, rows)
    row = dataclasses.replace(row, n=len(rows), clustered=clusters is not None)
    if len(set(clusters) if clusters else rows) < LEAST:
        return row
    drawn = bootstrap.ratios(sums[counted], weights[counted], clusters, strata, resamples=resamples)
    half = len(measure.terms)
    with np.errstate(invalid="ignore"):
        before, after = measure.combine(drawn[:, :half]), measure.combine(drawn[:, half:])
    return _tested(row, before, after, margin)


def _tested(row: Difference, dense: Array, pruned: Array, margin: float) -> Difference:
    """Return a row with interval, gain, p and ``same``, from both models' bootstrap samples."""
    use = np.isfinite(dense) & np.isfinite(pruned)
    dense, pruned = dense[use], pruned[use]
    if not use.any() or row.dense is None or row.pruned is None:
        return row
    interval = bootstrap.interval(pruned - dense)
    gains = gain(row.task, row.metric, pruned, dense)
    # Values that are equal but for rounding are no gain.
    gains = np.where(np.abs(gains) < 1e-12, 0.0, gains)
    effect = np.log(pruned / dense) if row.task == "perplexity" else pruned - dense
    bound = math.log1p(margin) if row.task == "perplexity" else margin
    middle = bootstrap.interval(effect, 0.9)
    return dataclasses.replace(
        row,
        low=interval.low,
        high=interval.high,
        gain=float(gain(row.task, row.metric, row.pruned, row.dense)),
        p=bootstrap.two_sided_p(gains),
        same=-bound <= middle.low and middle.high <= bound,
    )


def _columns(
    task: str, metric: str, dense: Records, pruned: Records
) -> tuple[Measure, Array, Array] | None:
    """Return a metric's measure, and its sums and weights in both models, (n, 2 · terms).

    An item that either model leaves undecided has no weight. None where the metric is not one of
    its records; UserError where the records do not give the value that was recorded.
    """
    tried = [table[task, metric] for table in (MEASURES, OTHERWISE) if (task, metric) in table]
    for measure in tried:
        parts = []
        for one in (dense, pruned):
            with expected_form(f"records of {metric}", one.folder / ITEMS, "evaluate again"):
                parts.append(measure.columns(one.rows))
        if all(
            _fits(measure, *part, one.value(metric)) for part, one in zip(parts, (dense, pruned))
        ):
            sums, weights = (np.concatenate(both, axis=1) for both in zip(*parts))
            undecided = np.isnan(sums).any(axis=1)
            sums[undecided], weights[undecided] = 0, 0
            return measure, sums, weights
    if tried and (task, metric) not in OTHERWISE:
        raise UserError(
            f"expected {metric} in {dense.folder / METRICS} and {pruned.folder / METRICS} to be "
            "what the records beside them give, which is another number; evaluate both again"
        )
    return None


def _fits(measure: Measure, sums: Array, weights: Array, value: float | None) -> bool:
    """Return whether the records give a recorded value."""
    found = measure.value_of(sums, weights)
    if value is None or found is None:
        return value is None
    return math.isclose(found, value, rel_tol=FITS, abs_tol=FITS)


def _flips(states: States, dense: Sequence[Row], pruned: Sequence[Row]) -> Flips:
    both = [(states.of(a), states.of(b)) for a, b in zip(dense, pruned) if states.counts(a)]
    return Flips(len(both), both.count((False, True)), both.count((True, False)))


def judged(rows: Sequence[Difference]) -> list[Difference]:
    """Return the rows of one pruned model with p corrected over all of them, and verdicts."""
    corrected = inference.holm({k: row.p for k, row in enumerate(rows)})
    return [
        dataclasses.replace(row, p_holm=corrected.get(k), verdict=_verdict(row, corrected.get(k)))
        for k, row in enumerate(rows)
    ]


def _verdict(row: Difference, p_holm: float | None) -> str:
    """Return a verdict in words; a difference within the margin is *same*, however certain."""
    if p_holm is None or row.gain is None:
        return NOT_TESTED
    if row.kind == "ability" and row.same:
        return SAME
    if p_holm >= LEVEL:
        return NOT_SHOWN
    good = row.gain > 0
    if row.kind == "bias":
        return FAIRER if good else LESS_FAIR
    return BETTER if good else WORSE
