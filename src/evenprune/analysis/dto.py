"""The distance to the optimum of a run, a metric whose terms are MMLU and UnQover accuracy."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..config.run_sheet import RunSheet
from ..stats.measures import Measure
from ..stats.paired import Sums, joined
from .frames import Quantity

SLUG = "dto"  # the benchmark of the derived rows


def parts(run_sheet: RunSheet) -> tuple[Quantity, ...]:
    """Return the two accuracies, performance then fairness; () where the run lacks one."""
    slugs = [run_sheet.primary(task) for task in ("mmlu", "unqover")]
    return tuple(Quantity(str(slug), "acc") for slug in slugs) if all(slugs) else ()


def behind(run_sheet: RunSheet, slug: str) -> list[str]:
    """Return the benchmarks behind a number: its own, or those that a distance is made from."""
    if slug in run_sheet.config.benchmarks:
        return [slug]
    return [part.benchmark for part in parts(run_sheet)] if slug == SLUG else []


def distance(accuracies: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distances (...) of accuracies (..., 2)."""
    return np.sqrt(((1 - accuracies[..., 0]) ** 2 + (1 - accuracies[..., 1]) ** 2) / 2)


def joined_sums(sums: Sequence[Sums]) -> Sums:
    """Return a checkpoint's distance as sums over the items of its two accuracies."""
    terms = tuple(term for part in sums for term in part.measure.terms)
    return joined(Measure(terms, distance), sums)
