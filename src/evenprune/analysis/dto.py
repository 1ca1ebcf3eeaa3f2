"""The distances to the optimum of a run, as metrics whose terms are two accuracies.

``dto`` is the paper's, from MMLU and UnQover accuracy; ``dto_bbq`` takes BBQ's disambiguated
accuracy as performance and the ambiguous one as fairness. Two benchmarks have items of their own;
BBQ's two parts share items and clusters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..config.finished import ITEMS
from ..config.grids import Checkpoint
from ..config.run_sheet import RunSheet
from ..stats.measures import Measure
from ..stats.paired import Sums, joined, read_sums

SLUG = "dto"  # the benchmark of the derived rows


class Component(NamedTuple):
    """One of the two accuracies, by benchmark and metric."""

    benchmark: str
    metric: str


@dataclass(frozen=True)
class Definition:
    """One distance: its metric in results.csv and its parts, performance then fairness."""

    name: str
    parts: tuple[Component, ...]

    def distance(self, accuracies: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distances (...) of accuracies (..., 2)."""
        return np.sqrt(((1 - accuracies[..., 0]) ** 2 + (1 - accuracies[..., 1]) ** 2) / 2)

    def joined(self, parts: Sequence[Sums]) -> Sums:
        """Return a checkpoint's distance as sums over the items of its two accuracies."""
        terms = tuple(term for part in parts for term in part.measure.terms)
        return joined(Measure(terms, self.distance), parts)


def definitions(run_sheet: RunSheet) -> list[Definition]:
    """Return the distances that a run's benchmarks allow."""
    parts = {
        "dto": (("mmlu", "acc"), ("unqover", "acc")),
        "dto_bbq": (("bbq", "acc_dis"), ("bbq", "acc_amb")),
    }
    slugs = {task: run_sheet.primary(task) for task in ("mmlu", "unqover", "bbq")}
    return [
        Definition(name, tuple(Component(str(slugs[task]), metric) for task, metric in both))
        for name, both in parts.items()
        if all(slugs[task] for task, _ in both)
    ]


def distance_sums(run_sheet: RunSheet, point: Checkpoint, definition: Definition) -> Sums:
    """Return the distance of a checkpoint as sums over the items of both parts."""
    benchmarks = run_sheet.config.benchmarks
    return definition.joined(
        [
            read_sums(run_sheet.result_folder(point, slug) / ITEMS, benchmarks[slug].task, metric)
            for slug, metric in definition.parts
        ]
    )
