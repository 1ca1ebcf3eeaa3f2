"""The bootstrap over worlds and the clusters within them."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .inference import Interval

Array = NDArray[np.float64]
RESAMPLES = 10_000  # samples where none are asked for


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
