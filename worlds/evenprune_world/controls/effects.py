"""Effects of contrasts over worlds, and the rule that makes verdicts of them.

In these worlds: the mean over them has the delete-one jackknife's error over clusters of items, as
every printed difference (``evenprune.stats.paired``). In any such world: every world's effect is
one observation of Student's t.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenprune.config.grids import Checkpoint
from evenprune.stats.inference import Estimate, holm
from evenprune.stats.paired import least_p

from .contrasts import Contrast
from .measures import NUMBERS, Array, Number
from .runs import World


@dataclass(frozen=True)
class Effect:
    """One number's effect of a contrast, the mean of ``by_world``.

    ``within`` is of these worlds, ``across`` of any; ``adjusted`` are their p-values after Holm
    where the effect is in the family. NaN and no errors where a world leaves the number undefined.
    """

    contrast: Contrast
    metric: Number
    value: float
    reference: float
    by_world: tuple[float, ...]
    within: Estimate
    across: Estimate
    adjusted: tuple[float, float] | None = None

    @property
    def effect(self) -> float:
        """The mean over worlds of candidate minus reference."""
        return self.within.value

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
        sides = [_side(one) * self.metric.good for one in (self.within, self.across)]
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


def _side(one: Estimate) -> int:
    ends = one.interval()
    return 0 if ends is None else int(ends.low > 0) - int(ends.high < 0)


def adjust(found: Sequence[Effect]) -> list[Effect]:
    """Return the effects, those of a family with p-values after Holm; a kind is a family."""
    out = list(found)
    for kind in {one.contrast.kind for one in found}:
        family = [k for k, one in enumerate(found) if one.in_family and one.contrast.kind == kind]
        first = holm({k: found[k].within.p() for k in family})
        second = holm({k: found[k].across.p() for k in family})
        for k in first:
            out[k] = replace(found[k], adjusted=(first[k], second[k]))
    return out


def effects(
    worlds: Sequence[World], points: Sequence[Checkpoint], wanted: Sequence[Contrast]
) -> list[Effect]:
    """Return the effects of all contrasts, number by number."""
    place = {point: index for index, point in enumerate(points)}
    pairs = [(one, place[one.candidate], place[one.reference]) for one in wanted]
    return adjust([one for metric in NUMBERS for one in _of(metric, worlds, pairs)])


def _of(
    metric: Number, worlds: Sequence[World], pairs: Sequence[tuple[Contrast, int, int]]
) -> Iterator[Effect]:
    actual = np.stack([metric.compute(world.totals) for world in worlds])  # worlds, checkpoints
    parts = [part for world in worlds for part in _without(metric, world)]
    count = len(worlds)
    for contrast, i, j in pairs:
        by_world = actual[:, i] - actual[:, j]
        value, reference, effect = np.stack([actual[:, i], actual[:, j], by_world]).mean(axis=1)
        within = across = Estimate(float(effect))
        if np.isfinite(by_world).all():
            units = sum(len(rest) - 1 for _, rest in parts)
            variance = sum((len(r) - 1) * (r[:, i] - r[:, j]).var() for _, r in parts)
            changed = sum(int((s[:, i] != s[:, j]).any(axis=1).sum()) for s, _ in parts)
            error = math.sqrt(variance) / count
            within = replace(within, stderr=error, df=units, least=least_p(changed))
            error = float(by_world.std(ddof=1)) / math.sqrt(count)
            across = replace(across, stderr=error, df=count - 1)
        listed = tuple(map(float, by_world))
        yield Effect(contrast, metric, float(value), float(reference), listed, within, across)


def _without(metric: Number, world: World) -> Iterator[tuple[Array, Array]]:
    """Yield of each task its clusters' sums and the number without each cluster.

    Both are (clusters, checkpoints, ...).
    """
    totals = world.totals
    for task in dict.fromkeys(task for task, _ in metric.terms):
        sums = world.sums[task]
        yield sums, metric.compute(totals | {task: totals[task] - sums})
