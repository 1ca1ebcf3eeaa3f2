"""The distances to the optimum of a run and their bootstrap samples.

``dto`` is the paper's, from MMLU and UnQover accuracy; ``dto_chance`` rescales both so that
chance is 0; ``dto_bbq`` takes BBQ's disambiguated accuracy as performance and the ambiguous
one as fairness. Two benchmarks are resampled independently, MMLU within its subjects and
UnQover by clusters; BBQ's two parts share their clusters and are resampled together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..plan.grids import Checkpoint
from ..plan.run_sheet import RunSheet
from ..plan.tasks import FACTS
from ..stats import bootstrap
from ..stats.scores import Scores, read_scores, require_same_items

SLUG = "dto"  # the benchmark of the derived rows


class Component(NamedTuple):
    """One of the two accuracies, by benchmark and metric, and its level by chance (0: as is)."""

    benchmark: str
    metric: str
    chance: float = 0.0


@dataclass(frozen=True)
class Definition:
    """One distance: its metric in results.csv and its parts, performance then fairness."""

    name: str
    parts: tuple[Component, Component]

    def distance(self, accuracies: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distances (...) of accuracies (..., 2)."""
        columns = [
            np.maximum(0.0, (accuracies[..., k] - part.chance) / (1 - part.chance))
            if part.chance
            else accuracies[..., k]
            for k, part in enumerate(self.parts)
        ]
        return np.sqrt(((1 - columns[0]) ** 2 + (1 - columns[1]) ** 2) / 2)


def definitions(run_sheet: RunSheet) -> list[Definition]:
    """Return the distances that a run's benchmarks allow."""
    mmlu, unqover, bbq = (run_sheet.primary(task) for task in ("mmlu", "unqover", "bbq"))
    found = []
    if mmlu and unqover:
        plain = (Component(mmlu, "acc"), Component(unqover, "acc"))
        floors = (FACTS["mmlu"].chance or 0.0, FACTS["unqover"].chance or 0.0)
        above = (plain[0]._replace(chance=floors[0]), plain[1]._replace(chance=floors[1]))
        found += [Definition("dto", plain), Definition("dto_chance", above)]
    if bbq:
        found.append(Definition("dto_bbq", (Component(bbq, "acc_dis"), Component(bbq, "acc_amb"))))
    return found


def part_scores(run_sheet: RunSheet, point: Checkpoint, part: Component) -> Scores:
    """Return the item scores of one checkpoint for one part."""
    path = run_sheet.result_folder(point, part.benchmark) / "items.jsonl"
    return read_scores(path, run_sheet.config.benchmarks[part.benchmark].task, part.metric)


def accuracies(scores: Sequence[Scores]) -> NDArray[np.float64]:
    """Return the accuracies (2,) of a checkpoint's scores of both parts."""
    return np.array([one.values.mean() for one in scores])


def resampled(
    definition: Definition,
    checkpoints: Sequence[Sequence[Scores]],
    clustered: bool = True,
    resamples: int | None = None,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return each checkpoint's distance in bootstrap samples, (resamples, checkpoints).

    ``checkpoints`` holds the scores of both parts for each; a sample draws the same items for
    all of them, so that differences of columns are paired. Without ``clustered`` single items
    are drawn (MMLU within its subjects all the same). Raises UserError when items differ.
    """
    for scores in checkpoints[1:]:
        for one, other in zip(scores, checkpoints[0], strict=True):
            require_same_items(one, other)
    count = len(checkpoints)
    columns = [np.column_stack([c[k].values for c in checkpoints]) for k in range(2)]
    first, second = checkpoints[0]

    def draw(
        values: NDArray[np.float64],
        weights: NDArray[np.float64],
        clusters: Sequence[str] | None,
        strata: Sequence[str] | None,
        seed: int,
    ) -> NDArray[np.float64]:
        clusters = clusters if clustered else None
        strata = None if clusters is not None else strata
        return bootstrap.ratios(values, weights, clusters, strata, resamples, seed)

    if definition.parts[0].benchmark == definition.parts[1].benchmark:
        values = np.zeros((len(first.ids) + len(second.ids), 2 * count))
        values[: len(first.ids), :count], values[len(first.ids) :, count:] = columns
        weights = np.zeros_like(values)
        weights[: len(first.ids), :count], weights[len(first.ids) :, count:] = 1, 1
        clusters = None
        if first.clusters is not None and second.clusters is not None:
            clusters = (*first.clusters, *second.clusters)
        both = draw(values, weights, clusters, None, seed)
        means = [both[:, :count], both[:, count:]]
    else:
        means = [
            draw(column, np.ones_like(column), one.clusters, one.strata, seed + k)
            for k, (column, one) in enumerate(zip(columns, (first, second)))
        ]
    return definition.distance(np.stack(means, axis=-1))


def is_clustered(scores: Sequence[Scores]) -> bool:
    """Return whether the items of any part are clustered."""
    return any(one.clusters is not None for one in scores)
