"""Statistics of paired evaluations and the distance-to-optimum, as pure functions.

Differences are candidate minus baseline, one entry an item. All probabilities are
two-sided. Sources: paired t-test and DTO of the paper; Holm, kappa and the test of equivalence are
statsmodels', exact McNemar is scipy's binomial test; the bootstrap is the textbook form.
"""

import gc
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.stats.inter_rater import cohens_kappa, to_table
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

LEAST_P = 0.001  # smaller p-values are not written out
RESAMPLES = 10_000  # samples of a bootstrap where none are asked for


@dataclass(frozen=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float


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


def bootstrap_ratios(
    values: ArrayLike,
    weights: ArrayLike,
    clusters: Sequence[str] | None = None,
    strata: Sequence[str] | None = None,
    resamples: int | None = None,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return sum(values) / sum(weights) of bootstrap samples by column, (resamples, columns).

    ``values`` and ``weights`` are (n, columns); a sample draws rows, the same ones for all
    columns. With ``clusters`` (n labels) whole clusters are drawn; with ``strata`` (n labels)
    rows are drawn within each stratum, whose sizes stay fixed. Units with the same sums are
    exchangeable, so their multiplicities are drawn at once from a multinomial: the same
    distribution as drawing units one by one, at the cost of the distinct units only. A
    sample without weight in a column is NaN there. ``resamples`` is ``RESAMPLES`` by
    default. Raises ValueError when there are no values, or both clusters and strata.
    """
    resamples = RESAMPLES if resamples is None else resamples
    both = np.concatenate((np.asarray(values, float), np.asarray(weights, float)), axis=1)
    if both.size == 0:
        raise ValueError("expected at least one value to resample")
    if clusters is not None and strata is not None:
        raise ValueError("expected clusters or strata, not both")
    if clusters is not None:
        _, index = np.unique(np.asarray(clusters), return_inverse=True)
        both = np.column_stack([np.bincount(index, column) for column in both.T])
    if strata is None:
        groups = [np.arange(len(both))]
    else:
        _, index = np.unique(np.asarray(strata), return_inverse=True)
        groups = [np.flatnonzero(index == k) for k in range(index.max() + 1)]
    generator = np.random.default_rng(seed)
    total = np.zeros((resamples, both.shape[1]))
    for group in groups:
        units, repeats = np.unique(both[group], axis=0, return_counts=True)
        # 2**22 counts at a time bounds the memory at 32 MB.
        chunk = max(1, 2**22 // len(units))
        for start in range(0, resamples, chunk):
            stop = min(start + chunk, resamples)
            drawn = generator.multinomial(group.size, repeats / group.size, size=stop - start)
            total[start:stop] += drawn @ units
    sums, counts = np.hsplit(total, 2)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def bootstrap_means(
    values: ArrayLike,
    clusters: Sequence[str] | None = None,
    strata: Sequence[str] | None = None,
    resamples: int | None = None,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return the means of ``resamples`` bootstrap samples of ``values`` (n,), shape (resamples,).

    Clusters, strata, the default and errors as for ``bootstrap_ratios``.
    """
    column = np.asarray(values, float)[:, None]
    options = (clusters, strata, resamples, seed)
    return bootstrap_ratios(column, np.ones_like(column), *options)[:, 0]


def percentile_interval(samples: ArrayLike, level: float = 0.95) -> Interval:
    """Return the percentile interval of bootstrap samples; undefined ones (NaN) are left out."""
    tail = (1 - level) / 2
    values = np.asarray(samples, float)
    low, high = np.quantile(values[np.isfinite(values)], [tail, 1 - tail])
    return Interval(float(low), float(high))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's step-down adjusted p-values, in the order given."""
    # multipletests collects garbage at every call, 0.1 to 0.4 s beside loaded libraries: what
    # lives now is kept out of that.
    gc.freeze()
    try:
        return multipletests(p_values, method="holm")[1].tolist()
    finally:
        gc.unfreeze()


def wilcoxon_signed_rank(differences: ArrayLike) -> float:
    """Return the p-value of Wilcoxon's signed-rank test over configurations; ties (0) dropped."""
    values = np.asarray(differences, float)
    values = values[values != 0]
    return float(stats.wilcoxon(values).pvalue) if values.size else 1.0


def sign_test(differences: ArrayLike) -> tuple[int, int, int, float]:
    """Return (wins, ties, losses, p) of the exact sign test over configurations."""
    values = np.asarray(differences, float)
    wins, losses = int((values > 0).sum()), int((values < 0).sum())
    return wins, int((values == 0).sum()), losses, mcnemar_exact(wins, losses)


def cohen_kappa(first: ArrayLike, second: ArrayLike) -> tuple[float | None, float | None]:
    """Return Cohen's kappa of two answers an item, shape (n,), and its standard error.

    kappa = (p_o - p_e) / (1 - p_e) with p_o the share of equal answers and p_e the share
    expected of independent ones; the error is Cohen's (1960) large-sample
    sqrt(p_o (1 - p_o) / n) / (1 - p_e). Both None where p_e is 1 (always one same answer)
    or there are no items.
    """
    a, b = np.asarray(first), np.asarray(second)
    # All answers one and the same: both shares are 1.
    if a.size == 0 or ((a == a[0]) & (b == a[0])).all():
        return None, None
    counts, _ = to_table(np.column_stack((a, b)))
    observed = float((a == b).mean())
    kappa = float(cohens_kappa(counts, return_results=False))
    # statsmodels has the error of Fleiss, Cohen and Everitt (1969) instead.
    expected = sum((counts.sum(axis=0) / a.size * (counts.sum(axis=1) / a.size)).tolist())
    return kappa, math.sqrt(observed * (1 - observed) / a.size) / (1 - expected)


def js_divergence(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Return the Jensen-Shannon divergence in bits of the rows of two (n, options) arrays, (n,).

    Rows are probabilities; 0 for equal rows, 1 for rows without a common option.
    """
    p, q = np.asarray(first, float), np.asarray(second, float)
    parts = (stats.entropy(p, base=2, axis=1) + stats.entropy(q, base=2, axis=1)) / 2
    # Not scipy's jensenshannon: for nearly equal rows it takes the root of a rounding error
    # below 0, which is not a number.
    return np.maximum(stats.entropy((p + q) / 2, base=2, axis=1) - parts, 0.0)


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
