"""Effects of contrasts over worlds, and the rule that makes verdicts of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..plan.grids import Checkpoint
from ..reporting.stats import Interval, percentile_interval
from .bootstrap import LEVEL, RESAMPLES, resampled_sums, student_interval
from .contrasts import Contrast
from .runs import WorldSums
from .sums import METRICS, SUMS, Metric

RULE = (
    "Better or worse: both intervals, the bootstrap over worlds and clusters and Student's over "
    "the worlds alone, exclude 0 on that side. Better or worse in these worlds: only the bootstrap "
    "does; another set of worlds may differ. No difference shown: the bootstrap interval holds 0. "
    "The bias term beats its controls on a metric, at a regime and a weight, if it is better than "
    "every one of them there. Nothing is adjusted for the number of comparisons."
)


@dataclass(frozen=True)
class Effect:
    """One metric's effect of a contrast; ``by_world`` in the order of the worlds.

    Everything is NaN where a world leaves the metric undefined.
    """

    contrast: Contrast
    metric: Metric
    value: float
    reference: float
    effect: float
    ci: Interval
    student: Interval
    by_world: tuple[float, ...]

    @property
    def verdict(self) -> str:
        """The verdict by ``RULE``; empty for a metric that is neither better high nor low."""
        if not self.metric.good:
            return ""
        if math.isnan(self.effect):
            return "undefined"
        sides = [_side(one) * self.metric.good for one in (self.ci, self.student)]
        if not sides[0]:
            return "no difference shown"
        word = "better" if sides[0] > 0 else "worse"
        return word if sides[1] == sides[0] else f"{word} in these worlds"


def _side(interval: Interval) -> int:
    return int(interval.low > 0) - int(interval.high < 0)


def effects(
    worlds: Sequence[WorldSums],
    points: Sequence[Checkpoint],
    wanted: Sequence[Contrast],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Effect]:
    """Return the effects of all contrasts, metric by metric."""
    place = {point: index for index, point in enumerate(points)}
    samples = {
        task: resampled_sums([world.sums[task] for world in worlds], resamples, seed)
        for task in SUMS
    }
    found = []
    for metric in METRICS:
        drawn = metric.compute(samples[metric.task])
        actual = np.stack([metric.compute(w.sums[metric.task].sum(axis=0)) for w in worlds])
        for contrast in wanted:
            i, j = place[contrast.candidate], place[contrast.reference]
            by_world = actual[:, i] - actual[:, j]
            defined = bool(np.isfinite(by_world).all())
            difference = (drawn[:, :, i] - drawn[:, :, j]).mean(axis=0)
            nothing = Interval(math.nan, math.nan)
            found.append(
                Effect(
                    contrast,
                    metric,
                    float(actual[:, i].mean()),
                    float(actual[:, j].mean()),
                    float(by_world.mean()),
                    percentile_interval(difference, LEVEL) if defined else nothing,
                    student_interval(by_world) if defined else nothing,
                    tuple(map(float, by_world)),
                )
            )
    return found
