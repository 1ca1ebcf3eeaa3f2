"""A metric of an evaluation once more, from the records of its items."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base.files import read_jsonl
from ..base.reading import expected_form
from ..evaluation import metrics
from .scores import ITEM_SCORES, OWN_ORDER

Record = Mapping[str, Any]
# Of each task the module in evaluation/ and its function of records, imported when needed: most
# of them load torch.
FUNCTIONS = {
    "unqover": ("metrics", "unqover_metrics"),
    "bbq": ("metrics", "bbq_metrics"),
    "crows_pairs": ("crows_pairs", "crows_metrics"),
    "stereoset": ("stereoset", "stereoset_metrics"),
    "realtoxicityprompts": ("safety", "safety_metrics"),
    "harmbench": ("safety", "safety_metrics"),
}
WINDOWS = ("gptq2048", "gptq2048+bos", "documents")


def recompute(path: Path, task: str, metric: str, category: str = "") -> float | None:
    """Return a metric from ``items.jsonl``, None where it is no function of these records alone.

    Means over items are taken here; other metrics come from the task's own function of records.
    Raises UserError for records of another form.
    """
    records = [
        row
        for row in read_jsonl(path, fields=("item_id",))
        if row.get("perm", OWN_ORDER) == OWN_ORDER and category in ("", row.get("category"))
    ]
    with expected_form(f"records that {metric} can be computed from", path, "evaluate again"):
        if task == "perplexity":
            return _perplexity(records) if metric == "ppl" else None
        if (task, metric) in ITEM_SCORES:
            return _mean(records, ITEM_SCORES[task, metric])
        if task not in FUNCTIONS or not records:
            return None
        module, name = FUNCTIONS[task]
        function = getattr(importlib.import_module(f"evenprune.evaluation.{module}"), name)
        found = function(records).get(metric)
        return None if found is None else found["value"]


def _mean(records: Sequence[Record], score: Callable[[Any], float | None]) -> float | None:
    values = [value for row in records if (value := score(row)) is not None]
    decided = np.array(values, float)[np.isfinite(np.array(values, float))]
    return float(decided.mean()) if decided.size else None


def _perplexity(records: Sequence[Record]) -> float | None:
    """Return exp of the mean loss over the windows of the first split, None for other splits."""
    first = records[0]["category"] if records and "category" in records[0] else WINDOWS[0]
    if first not in WINDOWS:
        return None
    own = [row for row in records if row.get("category", first) == first]
    return metrics.perplexity([row["nll"] for row in own], [row["n_tokens"] for row in own])[
        "value"
    ]
