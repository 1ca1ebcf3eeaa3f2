"""Effects of contrasts over worlds, and the rule that makes verdicts of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenprune.plan.grids import Checkpoint
from evenprune.stats.bootstrap import RESAMPLES, Interval, interval, resampled_sums, two_sided_p
from evenprune.stats.inference import holm, student

from .contrasts import Contrast
from .runs import WorldSums
from .sums import METRICS, SUMS, Array, Measure


@dataclass(frozen=True)
class Effect:
    """One metric's effect of a contrast (or of a line, frontier.py); ``by_world`` in their order.

    ``p`` are the two-sided p-values of bootstrap and Student's test, ``adjusted`` the same after
    Holm where the effect is in the family. Everything is NaN where a world leaves the metric
    undefined.
    """

    contrast: Any
    metric: Measure
    value: float
    reference: float
    effect: float
    ci: Interval
    student: Interval
    by_world: tuple[float, ...]
    p: tuple[float, float] = (math.nan, math.nan)
    adjusted: tuple[float, float] | None = None

    @property
    def in_family(self) -> bool:
        """Whether this is one of the comparisons that are adjusted together."""
        judged = self.metric.good != 0 and self.metric.kind == "bias"
        return judged and self.contrast.kind != "dense" and not math.isnan(self.effect)

    @property
    def verdict(self) -> str:
        """The verdict by the rule in words.yaml; empty where neither high nor low is better."""
        if not self.metric.good:
            return ""
        if math.isnan(self.effect):
            return "undefined"
        sides = [_side(one) * self.metric.good for one in (self.ci, self.student)]
        if self.adjusted is not None:
            sides = [side if p <= 0.05 + 1e-12 else 0 for side, p in zip(sides, self.adjusted)]
        if not sides[0]:
            return "no difference shown"
        word = "better" if sides[0] > 0 else "worse"
        return word if sides[1] == sides[0] else f"{word} in these worlds"

    @property
    def relative(self) -> float:
        """The effect as a share of the reference; NaN where that is 0."""
        return self.effect / self.reference if self.reference else math.nan


def _side(interval: Interval) -> int:
    return int(interval.low > 0) - int(interval.high < 0)


def adjust(found: Sequence[Effect]) -> list[Effect]:
    """Return the effects, those of a family with p-values after Holm; a kind is a family."""
    out = list(found)
    for kind in {one.contrast.kind for one in found}:
        family = [k for k, one in enumerate(found) if one.in_family and one.contrast.kind == kind]
        both = [holm({k: found[k].p[i] for k in family}) for i in (0, 1)]
        for k in family:
            out[k] = replace(found[k], adjusted=(both[0][k], both[1][k]))
    return out


def resampled(
    worlds: Sequence[WorldSums], resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Array]:
    """Return task -> sums of every sample, (worlds, resamples, checkpoints, columns).

    A sample draws the same worlds for all tasks.
    """
    return {
        task: resampled_sums([world.sums[task] for world in worlds], resamples, seed)
        for task in SUMS
    }


def values_by_world(worlds: Sequence[WorldSums], metric: Measure) -> Array:
    """Return a metric of all items, (worlds, checkpoints)."""
    return np.stack([metric.compute(world.totals) for world in worlds])


def effects(
    worlds: Sequence[WorldSums],
    points: Sequence[Checkpoint],
    wanted: Sequence[Contrast],
    samples: dict[str, Array],
) -> list[Effect]:
    """Return the effects of all contrasts, metric by metric; ``samples`` as of ``resampled``."""
    place = {point: index for index, point in enumerate(points)}
    found = []
    for metric in METRICS:
        drawn = metric.compute(samples)
        actual = values_by_world(worlds, metric)
        for contrast in wanted:
            i, j = place[contrast.candidate], place[contrast.reference]
            found.append(
                effect(contrast, metric, actual[:, i], actual[:, j], drawn[:, :, i], drawn[:, :, j])
            )
    return adjust(found)


def effect(
    contrast: Any, metric: Measure, value: Array, reference: Array, drawn: Array, other: Array
) -> Effect:
    """Return an effect of values by world (worlds,) and of samples (worlds, resamples)."""
    by_world = value - reference
    means = float(value.mean()), float(reference.mean()), float(by_world.mean())
    listed = tuple(map(float, by_world))
    if not np.isfinite(by_world).all():
        nothing = Interval(math.nan, math.nan)
        return Effect(contrast, metric, *means, nothing, nothing, listed)
    difference = (drawn - other).mean(axis=0)
    # A sample in which a ratio has nothing below it says nothing about the difference.
    difference = difference[np.isfinite(difference)]
    ends, p = student(by_world)
    both = interval(difference), ends
    return Effect(contrast, metric, *means, *both, listed, (two_sided_p(difference), p))
