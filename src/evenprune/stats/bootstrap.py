"""The bootstrap: items or clusters within strata, and worlds with their clusters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
RESAMPLES = 10_000  # samples where none are asked for


@dataclass(frozen=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float


def ratios(
    values: ArrayLike,
    weights: ArrayLike,
    clusters: Sequence[str] | None = None,
    strata: Sequence[str] | None = None,
    resamples: int | None = None,
    seed: int = 0,
) -> Array:
    """Return sum(values) / sum(weights) of bootstrap samples by column, (resamples, columns).

    ``values`` and ``weights`` are (n, columns); a sample draws rows, the same ones for all
    columns. With ``clusters`` (n labels) whole clusters are drawn; with ``strata`` (n labels)
    rows are drawn within each stratum, whose sizes stay fixed. Units with the same sums are
    exchangeable, so their multiplicities are drawn at once from a multinomial: the same
    distribution as drawing units one by one, at the cost of the distinct units only. A
    sample without weight in a column is NaN there. ``resamples`` is ``RESAMPLES`` by
    default. Clusters or strata, not both.
    """
    resamples = RESAMPLES if resamples is None else resamples
    both = np.concatenate((np.asarray(values, float), np.asarray(weights, float)), axis=1)
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


def means(
    values: ArrayLike,
    clusters: Sequence[str] | None = None,
    strata: Sequence[str] | None = None,
    resamples: int | None = None,
    seed: int = 0,
) -> Array:
    """Return the means of ``resamples`` bootstrap samples of ``values`` (n,), shape (resamples,).

    Clusters, strata and the default are as for ``ratios``.
    """
    column = np.asarray(values, float)[:, None]
    options = (clusters, strata, resamples, seed)
    return ratios(column, np.ones_like(column), *options)[:, 0]


def interval(samples: ArrayLike, level: float = 0.95) -> Interval:
    """Return the percentile interval of bootstrap samples; undefined ones (NaN) are left out."""
    tail = (1 - level) / 2
    values = np.asarray(samples, float)
    low, high = np.quantile(values[np.isfinite(values)], [tail, 1 - tail])
    return Interval(float(low), float(high))


def two_sided_p(samples: ArrayLike) -> float:
    """Return the two-sided p-value of a bootstrap distribution (n,) for the value 0.

    Twice the smaller tail, the estimate itself counted as one sample, so that it is never 0; 1
    where all samples are 0.
    """
    values = np.asarray(samples)
    tail = min(int((values >= 0).sum()), int((values <= 0).sum()))
    return min(1.0, 2 * (tail + 1) / (len(values) + 1))


def draws(
    clusters: Sequence[int], resamples: int, seed: int
) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield what a hierarchical bootstrap draws from worlds of so many clusters.

    A sample has as many slots as there are worlds. Yielded are (slot, world, samples (m,),
    counts (m, clusters of the world)): in these samples the slot holds that world, with each
    cluster so many times. Every slot of every sample is yielded once.
    """
    generator = np.random.default_rng(seed)
    chosen = generator.integers(len(clusters), size=(len(clusters), resamples))
    for slot, worlds in enumerate(chosen):
        for world, size in enumerate(clusters):
            samples = np.flatnonzero(worlds == world)
            counts = generator.multinomial(size, np.full(size, 1 / size), size=len(samples))
            yield slot, world, samples, counts


def resampled_sums(sums: Sequence[Array], resamples: int = RESAMPLES, seed: int = 0) -> Array:
    """Return sums over drawn clusters, (worlds, resamples, checkpoints, columns).

    ``sums`` has one array (clusters, checkpoints, columns) a world; see ``draws``.
    """
    out = np.empty((len(sums), resamples, *sums[0].shape[1:]))
    for slot, world, samples, counts in draws([len(one) for one in sums], resamples, seed):
        out[slot, samples] = np.tensordot(counts.astype(np.float64), sums[world], axes=1)
    return out
