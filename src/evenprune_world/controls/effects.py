"""Effects of contrasts over worlds, and the rule that makes verdicts of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenprune.plan.grids import Checkpoint
from evenprune.stats.bootstrap import RESAMPLES, interval, resampled_sums, two_sided_p
from evenprune.stats.inference import Interval, holm, student

from .contrasts import Contrast
from .measures import FIELDS, NUMBERS, Array, Number
from .runs import World


@dataclass(frozen=True)
class Effect:
    """One number's effect of a contrast; ``by_world`` in their order.

    ``p`` are the two-sided p-values of bootstrap and Student's test, ``adjusted`` the same after
    Holm where the effect is in the family. Everything is NaN where a world leaves the number
    undefined.
    """

    contrast: Contrast
    metric: Number
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


def _side(ends: Interval) -> int:
    return int(ends.low > 0) - int(ends.high < 0)


def adjust(found: Sequence[Effect]) -> list[Effect]:
    """Return the effects, those of a family with p-values after Holm; a kind is a family."""
    out = list(found)
    for kind in {one.contrast.kind for one in found}:
        family = [k for k, one in enumerate(found) if one.in_family and one.contrast.kind == kind]
        both = [holm({k: found[k].p[i] for k in family}) for i in (0, 1)]
        for k in family:
            out[k] = replace(found[k], adjusted=(both[0][k], both[1][k]))
    return out


def values_by_world(worlds: Sequence[World], metric: Number) -> Array:
    """Return a number of all items, (worlds, checkpoints)."""
    return np.stack([metric.compute(world.totals) for world in worlds])


def effects(
    worlds: Sequence[World],
    points: Sequence[Checkpoint],
    wanted: Sequence[Contrast],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Effect]:
    """Return the effects of all contrasts, number by number.

    A bootstrap sample draws the same worlds for all tasks, and the same clusters for all
    checkpoints.
    """
    samples = {
        task: resampled_sums([world.sums[task] for world in worlds], resamples, seed)
        for task in FIELDS
    }
    return adjust(
        [one for metric in NUMBERS for one in _of(metric, worlds, points, wanted, samples)]
    )


def _of(
    metric: Number,
    worlds: Sequence[World],
    points: Sequence[Checkpoint],
    wanted: Sequence[Contrast],
    samples: Mapping[str, Array],
) -> list[Effect]:
    drawn, actual = metric.compute(samples), values_by_world(worlds, metric)
    place = {point: index for index, point in enumerate(points)}
    found = []
    for contrast in wanted:
        i, j = place[contrast.candidate], place[contrast.reference]
        by_world = actual[:, i] - actual[:, j]
        value, reference, effect = np.stack([actual[:, i], actual[:, j], by_world]).mean(axis=1)
        nothing = Interval(math.nan, math.nan)
        one = Effect(
            contrast, metric, float(value), float(reference), float(effect), nothing, nothing,
            tuple(map(float, by_world)),
        )  # fmt: skip
        if np.isfinite(by_world).all():
            difference = (drawn[:, :, i] - drawn[:, :, j]).mean(axis=0)
            # A sample in which a ratio has nothing below it says nothing about the difference.
            difference = difference[np.isfinite(difference)]
            ends, p = student(by_world)
            both = two_sided_p(difference), p
            one = replace(one, ci=interval(difference), student=ends, p=both)
        found.append(one)
    return found
