"""One comparison of a claim: a difference that is positive where the claim holds."""

import math
from dataclasses import dataclass, replace
from typing import Any

from scipy import stats as scipy_stats

from ...plan.config import JUDGED
from ...plan.tasks import FACTS, Direction
from ...stats import directions
from ..labels import DTO_LABEL, REGIME_LABELS, TASK_LABELS, THROUGHPUT_LABEL
from .numbers import Estimate, Numbers, Point

ACCURACY_MARGIN, RELATIVE_MARGIN, DTO_MARGIN = 0.01, 0.05, 0.01
CHANCE_BAND = 0.05
Z_LIMIT = 8.2  # further out the normal distribution says nothing: p is 2e-16
Key = tuple[str, float, float]  # of a comparison: label, margin, difference


def _spread(estimate: Estimate) -> Any:
    """Return the distribution of an estimate in units of its standard error."""
    return scipy_stats.norm if estimate.df is None else scipy_stats.t(estimate.df)


@dataclass(frozen=True)
class Comparison:
    """One test of a claim. ``difference`` + ``margin`` above 0 is as claimed.

    ``unit``: ``points`` (a fraction, shown times 100), ``dto`` (as it is) or ``relative`` (the
    natural logarithm of a ratio, shown as a change in percent). ``exact_p`` is the p-value of a
    test that has no standard error.
    """

    label: str
    difference: Estimate
    unit: str = "points"
    margin: float = 0.0
    exact_p: float | None = None

    @property
    def key(self) -> Key:
        """What makes two comparisons the same test."""
        return self.label, self.margin, self.difference.value

    @property
    def lead(self) -> float:
        """By how much the claim is met; noise of binary fractions is rounded away."""
        return round(self.difference.value + self.margin, 9)

    @property
    def p_value(self) -> float | None:
        """Two-sided p against ``lead`` = 0, None without a standard error or an exact test."""
        if self.exact_p is not None:
            return self.exact_p
        stderr = self.difference.stderr
        if stderr is None:
            return None
        if stderr == 0:
            return 1.0 if self.lead == 0 else 0.0
        return float(2 * _spread(self.difference).sf(abs(self.lead) / stderr))

    def half_width(self, tail: float) -> float | None:
        """Return half the interval that leaves ``tail`` out on each side, None without an error."""
        stderr = self.difference.stderr
        return None if stderr is None else float(_spread(self.difference).isf(tail)) * stderr

    @property
    def z_score(self) -> float | None:
        """``lead`` in standard errors, or what ``exact_p`` stands for; within ``Z_LIMIT``."""
        p = self.p_value
        if p is None:
            return None
        size = min(float(scipy_stats.norm.isf(p / 2)), Z_LIMIT)
        return math.copysign(size, self.lead) if self.lead else 0.0

    def show(self, value: float) -> str:
        """Return a number of this comparison in its unit, with its sign."""
        if self.unit == "relative":
            value = 100 * math.expm1(value)
        digits = {"points": 2, "dto": 3, "relative": 1}[self.unit]
        # Adding 0 makes a positive zero of a negative one.
        rounded = round(value * (100 if self.unit == "points" else 1), digits) + 0.0
        text = f"{rounded:+.{digits}f}".replace("-", "−")
        return text + (" %" if self.unit == "relative" else "")


# What a guard model says of the response alone, as the paper prints it. A run whose guard does
# not judge in that form has its own headline in place of it.
UNSAFE = tuple(f"{task}:says_unsafe_paper" for task in JUDGED)
LABELS = (
    TASK_LABELS
    | {"dto": DTO_LABEL, "serving:decode_tok_per_s": THROUGHPUT_LABEL}
    | {name: f"{TASK_LABELS[task]} unsafe" for task, name in zip(JUDGED, UNSAFE, strict=True)}
)
RELATIVE = ("perplexity", "serving:decode_tok_per_s")


def direction_of(name: str) -> Direction:
    """Return which values are good of a name of printed.csv: task, task/category, task:metric."""
    task, _, metric = name.partition("/")[0].partition(":")
    return directions.direction(task, metric or (FACTS[task].headline if task in FACTS else task))


def unit_of(name: str) -> str:
    """Return the unit in which two values of a name are compared."""
    return "relative" if name in RELATIVE else "dto" if name == "dto" else "points"


def minus(first: Estimate, second: Estimate) -> Estimate:
    """Return first - second of two independent estimates."""
    stderr = None
    if first.stderr is not None and second.stderr is not None:
        stderr = math.hypot(first.stderr, second.stderr)
    return Estimate(first.value - second.value, stderr, first.n)


def scaled(estimate: Estimate, name: str) -> Estimate:
    """Return an estimate on the scale on which it is compared: ln for ratios."""
    if name not in RELATIVE:
        return estimate
    stderr = None if estimate.stderr is None else estimate.stderr / estimate.value
    return Estimate(math.log(estimate.value), stderr, estimate.n)


def closer(ours: Estimate, base: Estimate, target: Estimate, paired: Estimate | None) -> Estimate:
    """Return by how much ours is closer to a target than the baseline.

    On one side of the target that is the difference of the two, whose paired error is taken.
    On different sides the errors are added: the bound for fully dependent estimates.
    """
    left, right = ours.value - target.value, base.value - target.value
    value = abs(right) - abs(left)
    if left * right >= 0 and paired is not None:
        return Estimate(value, paired.stderr, paired.n)
    if ours.stderr is None or base.stderr is None or target.stderr is None:
        return Estimate(value, None, ours.n)
    # Between the two, the target counts twice; on one side of both it cancels.
    return Estimate(value, ours.stderr + base.stderr + 2 * target.stderr, ours.n)


def better(numbers: Numbers, ours: Point, base: Point, name: str) -> Estimate | None:
    """Return how much better ``ours`` is than ``base``, None where a value is missing."""
    a, b = numbers.value(ours, name), numbers.value(base, name)
    if a is None or b is None:
        return None
    paired = numbers.paired(ours, base, name)
    way = direction_of(name)
    if way == "half":
        return closer(a, b, Estimate(0.5, 0.0), paired)
    found = paired or minus(scaled(a, name), scaled(b, name))
    return replace(found, value=-found.value) if way == "down" else found


def name_label(name: str) -> str:
    """Return the words for a name of printed.csv."""
    task, _, category = name.partition("/")
    return f"{LABELS.get(task, task)} {category}".strip()


def point_label(numbers: Numbers, point: Point) -> str:
    """Return model and regime, with the calibration where it is not StereoSet alone."""
    model, _, regime, calibration = point
    words = [numbers.label(model), REGIME_LABELS[regime]]
    return ", ".join(
        [*words, *([numbers.calibration(calibration)] if calibration not in ("ss", "none") else [])]
    )


def compare(
    numbers: Numbers, ours: Point, base: Point, name: str, against: str, margin: float = 0.0
) -> list[Comparison]:
    """Return the one comparison "ours is better than base", none where a value is missing."""
    found = better(numbers, ours, base, name)
    label = f"{point_label(numbers, ours)}: {name_label(name)} {against}"
    return [] if found is None else [Comparison(label, found, unit_of(name), margin)]


MARGINS = {"relative": RELATIVE_MARGIN, "dto": DTO_MARGIN, "points": ACCURACY_MARGIN}
