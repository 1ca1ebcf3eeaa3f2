"""Tests, intervals and the correction for their number, as pure functions.

Differences are candidate minus baseline, one entry an item. All probabilities are two-sided.
Sources: the paired t-test is the paper's; Holm and the test of equivalence are statsmodels', exact
McNemar is scipy's binomial test.
"""

import gc
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from .bootstrap import Interval

Key = TypeVar("Key", bound=Hashable)

LEAST_P = 0.001  # smaller p-values are not written out


def paired_t(candidate: ArrayLike, baseline: ArrayLike) -> tuple[float, float]:
    """Return (t, p) of the paired t-test on two score vectors of shape (n,), n >= 2.

    The test that the paper's dagger stands for. Without any variance in the differences
    the statistic is 0 (all equal, p = 1) or infinite (one constant difference, p = 0).
    Raises ValueError on unequal lengths or fewer than two items.
    """
    a, b = np.asarray(candidate, float), np.asarray(baseline, float)
    if a.shape != b.shape or a.ndim != 1 or a.size < 2:
        raise ValueError(f"expected two vectors of one length >= 2, got {a.shape} and {b.shape}")
    difference = a - b
    if np.all(difference == difference[0]):
        if difference[0] == 0:
            return 0.0, 1.0
        return math.copysign(math.inf, difference[0]), 0.0
    result = stats.ttest_rel(a, b)
    return float(result.statistic), float(result.pvalue)


def standard_error(differences: ArrayLike) -> float:
    """Return the standard error of the mean of paired differences, shape (n,), n >= 2."""
    values = np.asarray(differences, float)
    return float(values.std(ddof=1) / math.sqrt(values.size))


def family_half_width(
    stderr: ArrayLike, n: ArrayLike, tests: int, level: float = 0.95
) -> NDArray[np.float64]:
    """Return half the widths of t intervals that together hold with at least ``level``.

    ``stderr`` and ``n`` are of paired differences, (k,); Bonferroni over ``tests`` tests.
    """
    tail = (1 - level) / tests / 2
    return np.asarray(stats.t.isf(tail, np.asarray(n, float) - 1)) * np.asarray(stderr, float)


def mcnemar_exact(wins: int, losses: int) -> float:
    """Return the p-value of the exact McNemar test: binomial(b + c, 1/2) on the wins."""
    if wins + losses == 0:
        return 1.0
    return float(stats.binomtest(wins, wins + losses, 0.5).pvalue)


def holm(p_values: Mapping[Key, float | None]) -> dict[Key, float]:
    """Return Holm's step-down adjusted p-values of what has one."""
    known = {key: p for key, p in p_values.items() if p is not None}
    # multipletests collects garbage at every call, 0.1 to 0.4 s beside loaded libraries: what
    # lives now is kept out of that.
    gc.freeze()
    try:
        return dict(zip(known, multipletests([*known.values()], method="holm")[1].tolist()))
    finally:
        gc.unfreeze()


def student(values: ArrayLike) -> tuple[Interval, float]:
    """Return Student's 95 % interval and p-value of the mean of independent values (n,), n >= 2."""
    array = np.asarray(values, float)
    mean, error = float(array.mean()), float(stats.sem(array))
    half = float(stats.t.ppf(0.975, array.size - 1)) * error
    p = 2 * stats.t.sf(abs(mean) / error, array.size - 1) if error else float(not array.any())
    return Interval(mean - half, mean + half), float(p)


def sign_test(differences: ArrayLike) -> tuple[int, int, int, float]:
    """Return (wins, ties, losses, p) of the exact sign test over configurations."""
    values = np.asarray(differences, float)
    wins, losses = int((values > 0).sum()), int((values < 0).sum())
    return wins, int((values == 0).sum()), losses, mcnemar_exact(wins, losses)


def wilson(count: int, n: int, level: float = 0.95) -> Interval:
    """Return Wilson's score interval of the rate ``count`` / ``n``; ValueError for n < 1."""
    if n < 1:
        raise ValueError(f"expected at least one item, got {n}")
    low, high = proportion_confint(count, n, alpha=1 - level, method="wilson")
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


def paired_ratio(log_ratios: ArrayLike, margin: float, level: float = 0.95) -> PairedRatio:
    """Return the ratio that logarithms of paired ratios, shape (n,), stand for, with its tests.

    ``p_same`` is the larger one of two one-sided t tests (TOST): against a ratio of at most
    1 / (1 + ``margin``) and of at least 1 + ``margin``, so that two things are as equal as the
    same two the other way round. Raises ValueError without any pair.
    """
    logs = np.asarray(log_ratios, float)
    if not logs.size:
        raise ValueError("expected at least one pair")
    if logs.size < 2:
        return PairedRatio(1, math.exp(logs[0]))
    described = DescrStatsW(logs)
    low, high = described.tconfint_mean(1 - level)
    bound = math.log1p(margin)
    with np.errstate(divide="ignore"):  # no spread at all: infinite t
        p_same = described.ttost_mean(-bound, bound)[0]
    return PairedRatio(
        logs.size,
        math.exp(described.mean),
        float(described.std_mean),
        math.exp(low),
        math.exp(high),
        float(p_same),
    )


def p_text(p: float) -> str:
    """Return a p-value as text, with two significant digits down to 0.001."""
    if p < LEAST_P:
        return f"p < {LEAST_P:g}"
    return f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"
