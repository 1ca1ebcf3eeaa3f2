"""A run as tables, figures and claims see it: its sheet, its numbers and its tests.

``Estimates`` are functions of a run's numbers with their errors: the one engine, for claims and
figures. All checkpoints on a benchmark share its items and clusters, so that their values are
paired, whatever their method, calibration or model. Benchmarks have items of their own, and are
independent. With several calibration seeds, values are means over seeds, and the error over seeds
is added.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.grids import Checkpoint
from ..config.run_sheet import RunSheet
from ..stats.inference import Estimate
from ..stats.paired import Sums, combined, jackknife, with_seeds
from .frames import Quantity
from .item_sums import ItemSums
from .results import Group, Results, Significance, experiment_of

OURS = "debias-sparsegpt"
WIDEST = ("regimes", "main", "*")  # experiments, the one with most regimes first
Compute = Callable[..., Any]  # of numbers, or of arrays of numbers


class Estimates:
    """Functions of the numbers of a run, each with its error."""

    def __init__(self, run_sheet: RunSheet, results: Results) -> None:
        self._results, self._sums = results, ItemSums(run_sheet)

    def of(self, compute: Compute, *wanted: tuple[Group, Quantity]) -> Estimate | None:
        """Return ``compute`` of so many numbers, None where results.csv lacks one.

        The error is None where a number is no function of the items.
        """
        measured = [each.value for pair in wanted if (each := self._results.of(*pair))]
        if len(measured) < len(wanted):
            return None
        value = float(compute(*measured))
        samples: dict[str, list[Sums | None]] = {}
        places: list[list[tuple[str, int]]] = []  # of each number's seeds among the samples
        for group, quantity in wanted:
            sample = samples.setdefault(quantity.benchmark, [])
            seeds = range(len(sample), len(sample) + len(group.seeds))
            places.append([(quantity.benchmark, k) for k in seeds])
            sample += [self._sums.of(point, quantity) for point in group.checkpoints()]
        if any(None in sample for sample in samples.values()):
            return Estimate(value)
        order = [(name, k) for name, sample in samples.items() for k in range(len(sample))]
        at = [list(map(order.index, seeds)) for seeds in places]

        def over_seeds(*values: Any) -> Any:
            return compute(*(sum(values[k] for k in seeds) / len(seeds) for seeds in at))

        parts = [jackknife(*filter(None, sample)) for sample in samples.values()]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return Estimate(value)
        values = [value for part in known for value in part.values]
        count = max(map(len, at))
        singles = [compute(*(values[seeds[k % len(seeds)]] for seeds in at)) for k in range(count)]
        return with_seeds(combined(over_seeds, *known), singles)


@dataclass(frozen=True, eq=False)
class Run:
    """What tables, figures and claims are made from."""

    sheet: RunSheet
    results: Results
    significance: Significance

    @functools.cached_property
    def estimates(self) -> Estimates:
        """Functions of the run's numbers with their errors; files of items are read once."""
        return Estimates(self.sheet, self.results)

    def points(self, names: Sequence[str], asked_by: str) -> list[Checkpoint]:
        """Return the checkpoints of the first of the named experiments that the run has.

        ``*`` is any of them. Raises UserError where it has none.
        """
        return self.sheet.experiment(experiment_of(self.sheet, names), asked_by)

    def dagger_test(self, group: Group, quantity: Quantity) -> tuple[float, float] | None:
        """Return (difference to SparseGPT, p) of the test that the paper's dagger stands for.

        Debias-SparseGPT's only; None for other methods and where nothing was tested.
        """
        if self.sheet.base_method(group.method) != OURS:
            return None
        return self.significance.of(group, quantity.benchmark, quantity.metric)


def read_run(sheet: RunSheet, results: Path, significance: Path) -> Run:
    """Return a run with what collect-results wrote of it."""
    return Run(sheet, Results(results), Significance(significance))
