"""A metric of an evaluation once more, from the records of its items."""

import importlib
from pathlib import Path

from ..base.reading import expected_form
from ..stats.measures import MEASURES
from ..stats.records import first_part, read_records

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

    What has no measure comes from the task's own function of records. Raises UserError
    for records of another form.
    """
    records = [row for row in read_records(path) if category in ("", row.get("category"))]
    if not records:
        return None
    if task == "perplexity":
        records = first_part(records)
        if metric != "ppl" or records[0].get("category", WINDOWS[0]) not in WINDOWS:
            return None
    with expected_form(f"records that {metric} can be computed from", path, "evaluate again"):
        if (task, metric) in MEASURES:
            return MEASURES[task, metric].value(records)
        if task not in FUNCTIONS:
            return None
        module, name = FUNCTIONS[task]
        function = getattr(importlib.import_module(f"evenprune.evaluation.{module}"), name)
        found = function(records).get(metric)
        return None if found is None else found["value"]
