"""Functions of a run's numbers with their errors: the one engine, for claims and figures.

All checkpoints on a benchmark share its items and clusters, so that their values are paired,
whatever their method, calibration or model. Benchmarks have items of their own, and are
independent. With several calibration seeds, values are means over seeds, and the error over seeds
is added.
"""

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..config.finished import ITEMS
from ..config.grids import Checkpoint
from ..config.run_sheet import RunSheet
from ..io.reading import expected_form
from ..stats.inference import Estimate
from ..stats.measures import MEASURES, OTHERWISE
from ..stats.paired import Sums, combined, jackknife, sums_of, with_seeds
from ..stats.records import Record, first_part, read_records
from . import dto
from .results import Group, Quantity, Results

Reader = Callable[[Path], Sequence[Record]]
Compute = Callable[..., Any]  # of numbers, or of arrays of numbers


def checkpoint_sums(
    run_sheet: RunSheet, point: Checkpoint, quantity: Quantity, read: Reader = read_records
) -> list[Sums]:
    """Return a checkpoint's number as sums over items, once for each definition of its metric."""
    slug, metric, category = quantity
    if slug == dto.SLUG:
        definitions = [each for each in dto.definitions(run_sheet) if each.name == metric]
        return [dto.distance_sums(run_sheet, point, each) for each in definitions]
    entry = run_sheet.config.benchmarks.get(slug)
    key = (entry.task if entry else "", metric)
    measures = [table[key] for table in (MEASURES, OTHERWISE) if key in table]
    if not measures:
        return []
    path = run_sheet.result_folder(point, slug) / ITEMS
    rows = read(path)
    if category:
        rows = [row for row in rows if row.get("category") == category]
    elif key[0] == "perplexity":
        rows = first_part(rows)
    with expected_form(f"records with a score for {metric}", path, "evaluate again"):
        return [sums_of(measure, rows) for measure in measures if rows]


class Estimates:
    """Functions of the numbers of a run, each with its error."""

    def __init__(self, run_sheet: RunSheet, results: Results) -> None:
        self._run_sheet, self._results = run_sheet, results
        self._sums = functools.lru_cache(maxsize=64)(self._read)

    def _read(self, point: Checkpoint, quantity: Quantity) -> Sums | None:
        """Return a number as sums, None where it is no function of the items.

        Of several definitions it is the one that gives the number of results.csv.
        """
        measured = self._results.one(point, quantity)
        defined = checkpoint_sums(self._run_sheet, point, quantity)
        for sums in defined:
            value = sums.value
            fits = value and measured and math.isclose(value, measured.value, rel_tol=1e-6)
            if fits or len(defined) == 1:
                return sums
        return None

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
            sample += [self._sums(point, quantity) for point in group.checkpoints()]
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
