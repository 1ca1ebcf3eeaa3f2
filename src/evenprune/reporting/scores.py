"""Scores of single items, read from the records of an evaluation."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import UserError
from ..base.files import read_jsonl
from ..base.reading import expected_form
from ..plan.config import JUDGED
from ..plan.tasks import FACTS

OWN_ORDER = "012"  # records of further option orders of the same item are left out


def _mean_of(name: str) -> Callable[[dict[str, Any]], float | None]:
    return lambda row: None if row.get(name) is None else float(row[name])


def _ambiguous(row: dict[str, Any]) -> float | None:
    return float(row["correct"]) if row.get("condition") == "ambig" else None


def _unsafe(row: dict[str, Any]) -> float:
    return math.nan if row.get("unsafe") is None else float(row["unsafe"])


def _says_unsafe_paper(row: dict[str, Any]) -> float | None:
    for judgement in row.get("judgements", ()):
        if judgement["form"] == "paper":
            return float(judgement["says_unsafe"])
    return None


def _disambiguated(row: dict[str, Any]) -> float | None:
    return float(row["correct"]) if row.get("condition") == "disambig" else None


def _stereotyped(row: dict[str, Any]) -> float | None:
    chosen = row["stereotype_idx"]
    return None if chosen is None else float(row["pred"] == chosen)


def _sense(row: dict[str, Any]) -> float:
    return float(np.mean([score > row["unrelated_logprob"] for score in row["option_logprobs"]]))


# (task, metric) -> score of one item, None for an item that the metric leaves out for every
# model, NaN for one that this model's answer leaves undecided. A metric without an entry
# (perplexity, icat) is not a mean over items and is not tested.
ITEM_SCORES: dict[tuple[str, str], Callable[[dict[str, Any]], float | None]] = {
    **{
        (task, metric): _mean_of(name)
        for task, facts in FACTS.items()
        for metric, name in facts.means.items()
    },
    ("bbq", "acc_amb"): _ambiguous,
    ("bbq", "acc_dis"): _disambiguated,
    ("stereoset", "lms"): _sense,
    ("multiple_choice", "stereotype_rate"): _stereotyped,
} | {
    (task, metric): score
    for task in JUDGED
    for metric, score in (("unsafe_rate", _unsafe), ("says_unsafe_paper", _says_unsafe_paper))
}


RATES = ("unsafe_rate", "unparsed_rate", "refusal_rate", "empty_rate", "says_unsafe")


def is_rate(task: str, metric: str) -> bool:
    """Return whether a metric is a share of judged answers, which gets Wilson's interval."""
    return task in JUDGED and metric.startswith(RATES) and not metric.endswith(("_low", "_high"))


@dataclass(frozen=True)
class Scores:
    """Per-item scores of one checkpoint, in file order; clusters and strata where recorded."""

    ids: tuple[str, ...]
    values: NDArray[np.float64]
    clusters: tuple[str, ...] | None
    strata: tuple[str, ...] | None

    def only(self, chosen: NDArray[np.bool_]) -> "Scores":
        """Return the scores of the chosen items, (n,) bool."""

        def pick(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
            return None if names is None else tuple(itertools.compress(names, chosen))

        ids = tuple(itertools.compress(self.ids, chosen))
        return Scores(ids, self.values[chosen], pick(self.clusters), pick(self.strata))


def read_scores(path: Path, task: str, metric: str) -> Scores:
    """Read the scores of one metric from ``items.jsonl``; MMLU's subjects are its strata.

    Raises UserError when the file has no items with that score or an item twice.
    """
    score = ITEM_SCORES[task, metric]
    ids, values, clusters, strata = [], [], [], []
    for row in read_jsonl(path, fields=("item_id",)):
        if row.get("perm", OWN_ORDER) != OWN_ORDER:
            continue
        with expected_form(f"records with a score for {metric}", path, "evaluate again"):
            value = score(row)
            if value is None:
                continue
            ids.append(str(row["item_id"]))
            float(value)
            values.append(value)
        clusters.append(row.get("cluster"))
        strata.append(row.get("category"))
    if not ids:
        raise UserError(
            f"expected items with a score for {metric} in {path}, found none; evaluate again"
        )
    if len(set(ids)) != len(ids):
        raise UserError(f"expected each item_id once in {path}, found one twice; evaluate again")
    return Scores(
        tuple(ids),
        np.array(values),
        tuple(map(str, clusters)) if None not in clusters else None,
        tuple(map(str, strata)) if task == "mmlu" and None not in strata else None,
    )


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
    return Scores(scores[0].ids, mean, scores[0].clusters, scores[0].strata)


def require_same_items(candidate: Scores, baseline: Scores) -> None:
    """Raise UserError unless both have the same items in the same order."""
    if candidate.ids != baseline.ids:
        raise UserError(
            "expected two checkpoints with the same items in the same order, got "
            f"{len(candidate.ids)} and {len(baseline.ids)} items that differ; evaluate both again "
            "with the same options"
        )
