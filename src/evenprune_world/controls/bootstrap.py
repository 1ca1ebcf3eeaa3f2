"""Intervals of means over worlds: a hierarchical bootstrap, and Student's."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats as distributions

from evenprune.reporting.stats import RESAMPLES, Interval

from .sums import Array

LEVEL = 0.95


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


def student_interval(values: Array, level: float = LEVEL) -> Interval:
    """Return Student's interval of the mean of independent values (n,), n >= 2."""
    half = distributions.t.ppf((1 + level) / 2, values.size - 1) * distributions.sem(values)
    return Interval(float(values.mean() - half), float(values.mean() + half))
