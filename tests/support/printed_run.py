"""The paper's numbers in place of a run's: what tables render them in our form from.

A table of the paper is fed only what it prints itself, so that every one of its digits and marks
can be compared with ours (``tests/reporting/test_paper_tables.py``).
"""

from dataclasses import replace
from pathlib import Path

from evenprune.analysis import mask_diffs
from evenprune.analysis.printed import DIFFERENCE, printed_rows, scaled
from evenprune.analysis.results import POINT, Measured, Quantity, Results, Run, Significance
from evenprune.analysis.significance import METHOD
from evenprune.config import grids
from evenprune.config.run_sheet import RunSheet
from evenprune.config.tasks import FACTS

# The label in the paper of each table of ours that has its form.
PAPER_TABLES = {
    "main": "tab:debias-sparsegpt",
    "more_models": "tab:debias-sparsegpt-newmodels",
    "regimes": "tab:debias-sparsegpt-all-models-appendix",
    "regimes_one": "tab:qwen-sparsity-all",
    "ultrachat": "tab:qwen_ultrachat_effect",
    "ultrachat_full": "tab:debias-sparsegpt-ultrachat-appendix",
    "calib_size": "tab:ultrachat_scaling",
    "calib_source": "tab:stereoset_category_calibration",
    "confidence": "tab:qwen_confidence",
    "efficiency": "table:mfu_sparsity_results",
    "safety": "tab:safety-evaluation",
    "masks": "tab:sparsity-pattern-analysis",
    "models": "tab:models-overview-app",
    "licences": "tab:model-licenses",
    "benchmarks": "tab:fairness_benchmarks",
    "methods": "tab:pruning-comparison",
}


def quantity(sheet, name):
    """Return our quantity of a name of printed.csv, None where the run has no such benchmark."""
    head, _, category = name.partition("/")
    task, _, metric = head.partition(":")
    if task in ("dto", "serving", mask_diffs.SLUG):
        return Quantity(task, metric or task, category)
    slug = sheet.primary(task)
    return slug and Quantity(slug, metric or sheet.headline(slug), category)


def numbers(sheet, label):
    """Return {(point, quantity): (value, dagger)} of one table of the paper, as a run has them."""
    found = {}
    for row in printed_rows():
        if row["table"] != label or not row["model"] or row["calibration"] == DIFFERENCE:
            continue
        if one := quantity(sheet, row["metric"]):
            point = grids.Checkpoint(*(row[name] for name in POINT), seed=0)
            found[point, one] = scaled(row["value"], row["metric"]), row["dagger"] == "1"
    return found


class PrintedResults(Results):
    """Printed numbers as ``Results``."""

    def __init__(self, found):
        self.path = Path("printed.csv")
        self._values = {place: Measured(value) for place, (value, _) in found.items()}


class PrintedSignificance(Significance):
    """The paper's daggers as tests against SparseGPT: p is 0 with one and 1 without."""

    def __init__(self, found, sheet):
        self._tests = {}
        means = {slug: FACTS[entry.task].means for slug, entry in sheet.benchmarks().items()}
        for (point, one), (value, dagger) in found.items():
            base = found.get((replace(point, method="sparsegpt"), one))
            tested = one.metric in means.get(one.benchmark, ()) and not one.category
            if tested and base and point.method != "sparsegpt":
                of_point = (getattr(point, name) for name in POINT)
                key = (METHOD, *of_point, "0", one.benchmark, one.metric)
                self._tests[key] = {"diff": value - base[0], "p": 0.0 if dagger else 1.0}


def printed_run(config, table):
    """Return the paper's numbers of one table of ours as a run of ``config``.

    That has the paper's models, methods and benchmarks by their names, as ``config/paper.yaml``.
    """
    sheet = RunSheet(config)
    found = numbers(sheet, PAPER_TABLES[table])
    return Run(sheet, PrintedResults(found), PrintedSignificance(found, sheet))
