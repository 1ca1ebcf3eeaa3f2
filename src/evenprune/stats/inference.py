"""Intervals, tests and the correction for their number, as pure functions.

All probabilities are two-sided. The test of equivalence and Wilson's interval are statsmodels'.
That and SciPy take half a second to import, so only what needs them does it.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

Key = TypeVar("Key", bound=Hashable)

LEAST_P = 0.001  # smaller p-values are not written out


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error and number of items, None where unknown.

    ``df`` are the error's degrees of freedom, None for as many as make it normal. ``least`` is the
    smallest p-value that so few changes can give.
    """

    value: float
    stderr: float | None = None
    n: int | None = None
    df: float | None = None
    least: float = 0.0

    def p(self, margin: float = 0.0) -> float | None:
        """Return the two-sided p-value of ``value`` against -``margin``, None where unknown."""
        lead = round(self.value + margin, 12)
        if self.stderr is None:
            return None
        least = self.least if margin == 0 else 0.0
        if self.stderr == 0:
            return max(least, float(lead == 0))
        return max(least, 2 * t_tail(abs(lead) / self.stderr, self.df))

    def interval(self, low: float = -math.inf, high: float = math.inf) -> Interval | None:
        """Return the 95 % interval within bounds, None where no error is known."""
        half = self.half_width()
        if half is None:
            return None
        return Interval(max(self.value - half, low), min(self.value + half, high))

    def half_width(self, level: float = 0.95, tests: int = 1) -> float | None:
        """Return half the interval that holds with ``level`` for all of so many tests at once.

        Where too few changes are known for a p-value of that size, it reaches to 0.
        """
        if self.stderr is None:
            return None
        outside = (1 - level) / tests
        half = t_quantile(1 - outside / 2, self.df) * self.stderr
        return max(half, abs(self.value)) if self.stderr and self.least >= outside else half


def t_quantile(share: float, df: float | None = None) -> float:
    """Return the quantile of Student's t with ``df`` degrees of freedom; None: the normal's."""
    from scipy.special import ndtri, stdtrit

    return float(stdtrit(df, share) if df else ndtri(share))


def t_tail(size: float, df: float | None = None) -> float:
    """Return P(T > size) of Student's t with ``df`` degrees of freedom; None: of the normal law."""
    from scipy.special import ndtr, stdtr

    return float(stdtr(df, -size) if df else ndtr(-size))


def holm(p_values: Mapping[Key, float | None]) -> dict[Key, float]:
    """Return Holm's step-down adjusted p-values of what has one."""
    known = {key: p for key, p in p_values.items() if p is not None}
    order = sorted(known, key=known.__getitem__)
    steps = np.arange(len(order), 0, -1)
    adjusted = np.maximum.accumulate(np.array([known[key] for key in order]) * steps)
    found = dict(zip(order, np.minimum(adjusted, 1.0).tolist()))
    return {key: found[key] for key in known}


def holm_levels(p_values: Mapping[Key, float | None], level: float) -> dict[Key, float]:
    """Return the level at which Holm's step-down procedure tests each p-value.

    A test is significant by ``holm`` where its p is below this, so that an interval of this level
    excludes 0 exactly then. All that the procedure does not reach have that of its last step.
    """
    adjusted = holm(p_values)
    order = sorted(adjusted, key=lambda key: p_values[key] or 0.0)
    rejected = sum(one < level for one in adjusted.values())
    steps = (min(place, rejected) for place in range(len(order)))
    return {key: level / (len(order) - step) for key, step in zip(order, steps, strict=True)}


def sign_test(differences: ArrayLike) -> tuple[int, int, int, float]:
    """Return (wins, ties, losses, p) of the exact sign test over configurations."""
    from scipy.stats import binomtest

    values = np.asarray(differences, float)
    wins, losses = int((values > 0).sum()), int((values < 0).sum())
    p = float(binomtest(wins, wins + losses, 0.5).pvalue) if wins + losses else 1.0
    return wins, int((values == 0).sum()), losses, p


def wilson(count: int, n: int) -> Interval:
    """Return Wilson's 95 % score interval of the rate ``count`` / ``n``."""
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(count, n, method="wilson")
    return Interval(float(low), float(high))


@dataclass(frozen=True)
class PairedRatio:
    """A ratio of two quantities that were measured side by side ``n`` times.

    ``value`` is the geometric mean, ``low`` and ``high`` the ends of its 95 % t interval,
    ``log_stderr`` the standard error of its logarithm. ``p_same`` is the p-value of the test that
    the ratio lies outside of the margin. All but ``value`` are None for fewer than two pairs.
    """

    n: int
    value: float
    log_stderr: float | None = None
    low: float | None = None
    high: float | None = None
    p_same: float | None = None


def paired_ratio(log_ratios: ArrayLike, margin: float) -> PairedRatio:
    """Return the ratio that logarithms of paired ratios, shape (n,), stand for, with its tests.

    ``p_same`` is the larger one of two one-sided t tests (TOST): against a ratio of at most
    1 / (1 + ``margin``) and of at least 1 + ``margin``, so that two things are as equal as the
    same two the other way round.
    """
    from statsmodels.stats.weightstats import DescrStatsW

    logs = np.asarray(log_ratios, float)
    if logs.size < 2:
        return PairedRatio(1, math.exp(logs[0]))
    described = DescrStatsW(logs)
    low, high = described.tconfint_mean()
    bound = math.log1p(margin)
    with np.errstate(divide="ignore"):  # no spread at all: infinite t
        p_same = described.ttost_mean(-bound, bound)[0]
    value, error = math.exp(described.mean), float(described.std_mean)
    return PairedRatio(logs.size, value, error, math.exp(low), math.exp(high), float(p_same))


def p_text(p: float) -> str:
    """Return a p-value as text, with two significant digits down to 0.001."""
    if p < LEAST_P:
        return f"p < {LEAST_P:g}"
    return f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"
