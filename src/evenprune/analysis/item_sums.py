"""The numbers of checkpoints as sums over their items, from which every error and test follows.

One is of two benchmarks: the distance to the optimum, whose terms are MMLU and UnQover accuracy.
"""

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..config.finished import ITEMS, METRICS, read_result
from ..config.grids import Checkpoint
from ..config.run_sheet import RunSheet
from ..config.tasks import FACTS
from ..io.errors import UserError
from ..io.reading import expected_form
from ..stats.measures import MEASURES, OTHERWISE, Measure
from ..stats.paired import Sums, fitting, joined, sums_of
from ..stats.records import Record, first_part, read_records
from .frames import Quantity, metric_values

DTO = Quantity("dto", "dto")  # the distance to the optimum, a benchmark of its own


def dto_parts(run_sheet: RunSheet) -> tuple[Quantity, ...]:
    """Return the two accuracies, performance then fairness; () where the run lacks one."""
    slugs = [run_sheet.primary(task) for task in ("mmlu", "unqover")]
    return tuple(Quantity(str(slug), "acc") for slug in slugs) if all(slugs) else ()


def benchmarks_behind(run_sheet: RunSheet, slug: str) -> list[str]:
    """Return the benchmarks behind a number: its own, or those that a distance is made from."""
    if slug in run_sheet.config.benchmarks:
        return [slug]
    return [part.benchmark for part in dto_parts(run_sheet)] if slug == DTO.benchmark else []


def distance(accuracies: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distances (...) of accuracies (..., 2)."""
    return np.sqrt(((1 - accuracies[..., 0]) ** 2 + (1 - accuracies[..., 1]) ** 2) / 2)


class ItemSums:
    """The numbers of a run's checkpoints as sums over items, each file read once in a while."""

    def __init__(self, run_sheet: RunSheet) -> None:
        self.run_sheet = run_sheet
        # A dense model is the other half of many pairs, and comes again and again.
        self.of = functools.lru_cache(maxsize=256)(self._read)
        self.rows = functools.lru_cache(maxsize=2)(
            lambda point, slug: read_records(run_sheet.result_folder(point, slug) / ITEMS)
        )

    def records(self, point: Checkpoint, quantity: Quantity) -> Sequence[Record]:
        """Return the records that a number of a benchmark is of: its category, or first part."""
        rows: Sequence[Record] = self.rows(point, quantity.benchmark)
        if quantity.category:
            return [row for row in rows if row.get("category") == quantity.category]
        task = self.run_sheet.config.benchmarks[quantity.benchmark].task
        return first_part(rows) if task == "perplexity" else rows

    def _read(self, point: Checkpoint, quantity: Quantity) -> Sums | None:
        """Return a checkpoint's number as sums over items, None where it is no function of them.

        Of several definitions of its metric it is the one that gives what was recorded.
        """
        slug, metric, _ = quantity
        if quantity == DTO:
            pair = dto_parts(self.run_sheet)
            both = [one for part in pair if (one := self.scored(point, part)) is not None]
            terms = tuple(term for one in both for term in one.measure.terms)
            return joined(Measure(terms, distance), both) if len(both) == 2 else None
        entry = self.run_sheet.config.benchmarks.get(slug)
        key = (entry.task if entry else "", metric)
        if key not in MEASURES:
            return None
        rows, folder = self.records(point, quantity), self.run_sheet.result_folder(point, slug)
        with expected_form(f"records with a score for {metric}", folder / ITEMS, "evaluate again"):
            if key not in OTHERWISE:
                return sums_of(MEASURES[key], rows)
            recorded = metric_values(slug, read_result(folder), folder / METRICS)
            return fitting(*key, rows, recorded[quantity].value)

    def scored(self, point: Checkpoint, quantity: Quantity) -> Sums | None:
        """Return ``of``, None also where no item has a score of a metric that an option adds.

        Raises UserError where none has a score of another metric.
        """
        sums, (slug, metric, _) = self.of(point, quantity), quantity
        if sums is None or sums.parts[:, 1].any():
            return sums
        if metric in FACTS[self.run_sheet.config.benchmarks[slug].task].optional:
            return None
        path = self.run_sheet.result_folder(point, slug) / ITEMS
        raise UserError(f"expected scores for {metric} in {path}, found none; evaluate again")
