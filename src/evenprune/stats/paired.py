"""The one engine behind every printed difference: a metric on the same items, and its error.

Units are clusters of items where the records have clusters, else items. The error of any number
that follows from sums over items is the delete-one jackknife's over units: the number is computed
again without each unit. Of a mean over items without clusters that is the standard error of the
mean, so that the test is the paired t-test that the paper names. p-values and intervals are of
Student's t with a degree of freedom less than there are units.

With fewer than ``LEAST`` units nothing is tested. Units that do not differ between two checkpoints
say nothing about the sign of a difference: of k that differ no exact test could give a p-value
below 2^(1-k), and none is reported.
"""

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..io.errors import UserError
from .inference import Estimate
from .measures import MEASURES, OTHERWISE, Measure
from .records import Record, clusters

Array = NDArray[np.float64]
LEAST = 10  # units
ROUNDING = 1e-12
FITS = 1e-6  # relative; a recorded value and the same from the records


@dataclass(frozen=True)
class Sums:
    """A metric of one checkpoint as sums over items, in file order: all that the engine needs.

    ``parts`` (items, 2, terms) are values and weights. A value that is no number: this checkpoint
    leaves the item undecided.
    """

    measure: Measure
    ids: tuple[str, ...]
    parts: Array
    clusters: tuple[str, ...] | None = None

    @property
    def value(self) -> float | None:
        """The metric of the decided items, None where it is undefined."""
        return self.measure.value_of(self.parts[:, 0], self.parts[:, 1])


def sums_of(measure: Measure, rows: Sequence[Record]) -> Sums:
    """Return a metric of records as sums over items."""
    ids = tuple(str(row["item_id"]) for row in rows)
    return Sums(measure, ids, np.stack(measure.columns(rows), axis=1), clusters(rows))


def fitting(task: str, metric: str, rows: Sequence[Record], recorded: float | None) -> Sums | None:
    """Return a metric of records as sums over items, by the definition that gives ``recorded``.

    None where no definition does.
    """
    for measure in (table.get((task, metric)) for table in (MEASURES, OTHERWISE)):
        if measure:
            sums = sums_of(measure, rows)
            value, other = np.array([sums.value, recorded], float)  # undefined is near nothing
            if np.isclose(value, other, rtol=FITS, atol=FITS):
                return sums
    return None


def some(sums: Sums, places: Sequence[int]) -> Sums:
    """Return a metric of some of the items."""
    own = sums.clusters and tuple(sums.clusters[k] for k in places)
    return Sums(sums.measure, tuple(sums.ids[k] for k in places), sums.parts[list(places)], own)


def joined(measure: Measure, parts: Sequence[Sums]) -> Sums:
    """Return a metric whose terms are those of metrics of other benchmarks, item after item."""
    from scipy.linalg import block_diag

    blocks = [block_diag(*(one.parts[:, k] for one in parts)) for k in (0, 1)]

    def named(names: Iterable[Sequence[str]]) -> tuple[str, ...]:
        return tuple(f"{k} {name}" for k, part in enumerate(names) for name in part)

    ids, units = named(one.ids for one in parts), named(one.clusters or one.ids for one in parts)
    return Sums(measure, ids, np.stack(blocks, axis=1), units)


@dataclass(frozen=True)
class Jackknife:
    """A metric of checkpoints on the same ``n`` items, and the same without each unit.

    ``values`` has one number a checkpoint, ``without`` (checkpoints, units) the numbers without
    each unit; ``changed`` units have an item that is not the same in all checkpoints (all units,
    of one checkpoint); ``bounds`` are the metric's.
    """

    n: int
    clustered: bool
    changed: int
    bounds: tuple[float, float]
    values: tuple[float, ...]
    without: Array

    @property
    def units(self) -> int:
        """How many clusters, or items, there are."""
        return self.without.shape[1]


def combined(compute: Callable[..., Any], *samples: Jackknife) -> Estimate:
    """Return a function of all values, in their order, with its error.

    Samples have items of their own and are independent: their variances add, and the fewest units
    give the degrees of freedom. No error where one has too few units.
    """
    values = [value for one in samples for value in one.values]
    value, variance, start = _exact(float(compute(*values))), 0.0, 0
    for one in samples:
        end = start + len(one.values)
        found = np.asarray(compute(*values[:start], *one.without, *values[end:]), float)
        start = end
        if one.units < LEAST or not np.isfinite(found).all():
            return Estimate(value, n=samples[0].n)
        variance += (one.units - 1) * found.var()
    units, changed = min(one.units for one in samples), sum(one.changed for one in samples)
    stderr = _exact(math.sqrt(variance))
    least = min(1.0, 2.0 ** (1 - changed))  # p of units of which so many differ
    return Estimate(value, stderr, samples[0].n, units - 1, least)


def with_seeds(estimate: Estimate, singles: Sequence[float]) -> Estimate:
    """Return a mean over seeds whose error covers the choice of the seeds too, not of items alone.

    ``singles`` are its values for each seed. The variance of their mean is added; the degrees of
    freedom are Satterthwaite's.
    """
    if len(singles) < 2 or estimate.stderr is None:
        return estimate
    items, seeds = estimate.stderr**2, statistics.variance(singles) / len(singles)
    total = items + seeds
    spread = seeds**2 / (len(singles) - 1) + (items**2 / estimate.df if estimate.df else 0.0)
    df = total**2 / spread if spread else estimate.df
    return dataclasses.replace(estimate, stderr=_exact(math.sqrt(total)), df=df)


def estimate_of(sums: Sums | None) -> Estimate | None:
    """Return a metric of one checkpoint with its error, None where it is undefined."""
    sample = jackknife(sums) if sums else None
    return combined(lambda value: value, sample) if sample else None


def _exact(number: float) -> float:
    return 0.0 if abs(number) < ROUNDING else number


def jackknife(*several: Sums) -> Jackknife | None:
    """Return a metric of checkpoints with what its error follows from.

    An item that one of them leaves undecided is left out for all. None where the metric is
    undefined. Raises UserError where the items differ.
    """
    if other := next((one for one in several if one.ids != several[0].ids), None):
        raise UserError(
            "expected checkpoints with the same items in the same order, got "
            f"{len(several[0].ids)} and {len(other.ids)} items that differ; evaluate all again "
            "with the same data and options"
        )
    measure, ids = several[0].measure, several[0].clusters or several[0].ids
    parts = np.stack([one.parts for one in several], axis=1)  # items, checkpoints, 2, terms
    used = np.isfinite(parts).all(axis=(1, 2, 3)) & parts[:, :, 1].any(axis=(1, 2))
    if not used.any():
        return None
    _, index = np.unique(np.asarray(ids)[used], return_inverse=True)
    flat = parts[used].reshape(int(used.sum()), -1)
    by_unit = np.column_stack([np.bincount(index, column) for column in flat.T])
    by_unit = by_unit.reshape(-1, *parts.shape[1:])
    total = by_unit.sum(axis=0)
    values = measure.of(total[:, 0], total[:, 1])
    if not np.isfinite(values).all():
        return None
    rest = total - by_unit
    # Of one checkpoint alone nothing could have stayed as it was.
    moved = (parts[used] != parts[used][:, :1]).any(axis=(1, 2, 3)) | (len(several) == 1)
    return Jackknife(
        int(used.sum()),
        several[0].clusters is not None,
        len(np.unique(index[moved])),
        measure.bounds,
        tuple(values.tolist()),
        measure.of(rest[:, :, 0], rest[:, :, 1]).T,
    )
