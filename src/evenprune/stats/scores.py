"""Scores of single items under one metric, and what a bootstrap draws of them."""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..base.errors import UserError
from ..base.reading import expected_form
from .measures import ITEM_SCORES
from .records import Record, read_records

LEAST = 10  # units, items or clusters, below which nothing is tested and no stratum kept
Names = tuple[str, ...] | None


@dataclass(frozen=True)
class Scores:
    """Per-item scores of one checkpoint, in file order; clusters and strata where recorded."""

    ids: tuple[str, ...]
    values: NDArray[np.float64]
    clusters: Names
    strata: Names

    def only(self, chosen: NDArray[np.bool_]) -> "Scores":
        """Return the scores of the chosen items, (n,) bool."""

        def pick(names: Names) -> Names:
            return None if names is None else tuple(itertools.compress(names, chosen))

        return Scores(pick(self.ids) or (), self.values[chosen], *map(pick, self.units))

    @property
    def units(self) -> tuple[Names, Names]:
        """The clusters and the strata."""
        return self.clusters, self.strata


def units(task: str, records: Sequence[Record]) -> tuple[Names, Names]:
    """Return the clusters and strata that bootstrap samples keep to, None where there are none.

    Whole clusters are drawn where items have one; MMLU's items within their subjects, unless one of
    these has fewer than ``LEAST`` items: there is too little spread within it.
    """
    if records and all(one.get("cluster") is not None for one in records):
        return tuple(str(one["cluster"]) for one in records), None
    if task == "mmlu" and all(one.get("category") is not None for one in records):
        subjects = tuple(str(one["category"]) for one in records)
        if min(Counter(subjects).values(), default=0) >= LEAST:
            return None, subjects
    return None, None


def read_scores(path: Path, task: str, metric: str) -> Scores:
    """Read the scores of one metric from ``items.jsonl``; UserError for a file without any."""
    score, found = ITEM_SCORES[task, metric], []
    with expected_form(f"records with a score for {metric}", path, "evaluate again"):
        for record in read_records(path):
            value = score(record)
            if value is not None:
                found.append((record, float(value)))
    if not found:
        raise UserError(
            f"expected items with a score for {metric} in {path}, found none; evaluate again"
        )
    records, values = zip(*found, strict=True)
    ids = tuple(str(one["item_id"]) for one in records)
    return Scores(ids, np.array(values), *units(task, records))


def average(scores: list[Scores]) -> Scores:
    """Return the scores averaged over several seeds; the items must be the same.

    An item that one seed leaves undecided (NaN) stays undecided.
    """
    if any(one.ids != scores[0].ids for one in scores):
        raise UserError(
            "expected the same items for every calibration seed, but they differ; evaluate all "
            "seeds again with the same options"
        )
    mean = np.mean([one.values for one in scores], axis=0)
    return Scores(scores[0].ids, mean, *scores[0].units)


def require_same_items(candidate: Scores, baseline: Scores) -> None:
    """Raise UserError unless both have the same items in the same order."""
    if candidate.ids != baseline.ids:
        raise UserError(
            "expected two checkpoints with the same items in the same order, got "
            f"{len(candidate.ids)} and {len(baseline.ids)} items that differ; evaluate both again "
            "with the same options"
        )
