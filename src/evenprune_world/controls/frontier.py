"""Bias against perplexity: lines of one method over its strength, compared at equal perplexity.

A line starts at what the method is without what it does against bias (SparseGPT, in the regime
``dense`` the dense model) and joins its checkpoints by strength; between two of them both numbers
are interpolated linearly. What a line reaches within a budget is its smallest bias where perplexity
is at most so much above that of its start.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evenprune.plan.config import Config
from evenprune.plan.grids import Checkpoint, base_method

from .contrasts import STRENGTH, control_kind, control_of, plain_of, strength, used
from .effects import Effect, adjust, effect, values_by_world
from .runs import WorldSums
from .sums import BY_NAME, Array

BUDGETS = (0.01, 0.02)  # relative rise of perplexity
COMPARED = ("slope_stereoset", "slope_crows_pairs", "r_bbq", "r_unqover")


@dataclass(frozen=True)
class Line:
    """A method's checkpoints by strength, the first one without the method.

    ``control`` is "" for a candidate, else what makes it a negative control: ``reversed``,
    ``text``, or the calibration's control.
    """

    method: str
    calibration: str
    control: str
    points: tuple[Checkpoint, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class Matched:
    """A line against one of its controls, or against its own start, within a budget."""

    candidate: Line
    reference: Line
    budget: float
    kind: str = "matched"


def lines(config: Config, points: Iterable[Checkpoint]) -> list[Line]:
    """Return the lines of the checkpoints; one whose start is not among them is left out."""
    known = dict.fromkeys(points)
    found: dict[tuple[Checkpoint, str, str, str, str], list[Checkpoint]] = {}
    for point in known:
        start = plain_of(config, point)
        if start not in known or start is None:
            continue
        base = base_method(config, point.method)
        options = {k: v for k, v in used(config, point.method).items() if k != STRENGTH[base]}
        kind = control_kind(config, point.method) or ""
        key = (start, base, point.calibration, kind, repr(options))
        found.setdefault(key, []).append(point)
    out = []
    for (start, base, calibration, kind, _), members in found.items():
        # b = 0 is the start itself.
        sizes = {point: abs(strength(config, point.method) or 0.0) for point in members}
        ordered = sorted((p for p in members if sizes[p]), key=lambda p: (sizes[p], p))
        control = config.calibrations[calibration].control
        name = kind or ("" if control == "none" else control)
        if ordered:
            weights = (0.0, *(sizes[point] for point in ordered))
            out.append(Line(base, calibration, name, (start, *ordered), weights))
    return sorted(out, key=lambda line: (line.points, line.control))


def controls_of_line(config: Config, line: Line, among: Sequence[Line]) -> list[Line]:
    """Return the control lines of a candidate: of its method and start, on its calibration."""
    if line.control:
        return []
    return [
        other
        for other in among
        if other.control
        and (other.method, other.points[0]) == (line.method, line.points[0])
        and line.calibration in (other.calibration, control_of(config, other.calibration))
    ]


def least(costs: Array, bias: Array, budget: float) -> Array:
    """Return the smallest |bias| of lines where the cost is at most ``budget``.

    Both are (..., points), the first point of cost 0; between points both are linear. So are
    ``budget`` >= 0 and the result (...) always defined where the numbers are.
    """
    within = np.where(costs <= budget, np.abs(bias), np.inf).min(axis=-1)
    for k in range(costs.shape[-1] - 1):
        x0, x1, y0, y1 = costs[..., k], costs[..., k + 1], bias[..., k], bias[..., k + 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            cut = np.clip((budget - x0) / (x1 - x0), 0, 1)
            zero = y0 / (y0 - y1)
        cut = np.where(np.isfinite(cut), cut, 1.0)
        low = np.where(x0 <= budget, 0.0, cut)
        high = np.where(x1 <= budget, 1.0, cut)
        reached = (x0 <= budget) | (x1 <= budget)
        ends = np.minimum(np.abs(y0 + low * (y1 - y0)), np.abs(y0 + high * (y1 - y0)))
        ends = np.where((y0 * y1 < 0) & (low <= zero) & (zero <= high), 0.0, ends)
        within = np.where(reached, np.minimum(within, ends), within)
    return np.where(np.isnan(costs).any(axis=-1) | np.isnan(bias).any(axis=-1), math.nan, within)


def _reached(loss: Array, bias: Array, at: list[int], budget: float) -> Array:
    """Return ``least`` of one line, whose checkpoints have these places in the last dimension."""
    return least(np.expm1(loss[..., at] - loss[..., at[:1]]), bias[..., at], budget)


def matched(
    config: Config,
    worlds: Sequence[WorldSums],
    points: Sequence[Checkpoint],
    samples: dict[str, Array],
) -> list[Effect]:
    """Return every line within every budget against its start and its control lines."""
    place = {point: index for index, point in enumerate(points)}
    every = lines(config, points)
    loss = BY_NAME["nll"]
    costs = values_by_world(worlds, loss), loss.compute(samples)
    found = []
    for name in COMPARED:
        metric, signed = BY_NAME[f"abs_{name}"], BY_NAME[name]
        bias = values_by_world(worlds, signed), signed.compute(samples)
        for line in every:
            if line.control:
                continue
            start = Line(line.method, line.calibration, "", line.points[:1], (0.0,))
            for other in (start, *controls_of_line(config, line, every)):
                for budget in BUDGETS:
                    reached = [
                        _reached(cost, size, [place[point] for point in one.points], budget)
                        for cost, size in zip(costs, bias, strict=True)
                        for one in (line, other)
                    ]
                    pair = Matched(line, other, budget)
                    found.append(effect(pair, metric, *reached))
    return adjust(found)
