"""The paper's numbers in place of a run's: what tables render them in our form from.

A table of the paper is fed only what it prints itself, so that every one of its digits and marks
can be compared with ours (``tests/reporting/test_paper_tables.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evenprune.analysis import mask_diffs
from evenprune.analysis.printed import DIFFERENCE, printed_rows, scaled
from evenprune.analysis.results import Group, Measured, Quantity, Results, Significance
from evenprune.analysis.run import Run
from evenprune.config.config import Config
from evenprune.config.grids import (
    Checkpoint,
    all_checkpoints,
    experiment_checkpoints,
    mask_references,
)
from evenprune.config.run_sheet import RunSheet
from evenprune.config.tasks import FACTS
from evenprune.io.errors import UserError

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


@dataclass(frozen=True)
class Printed:
    """One printed number: whose it is, its value on the scale of results.csv, its dagger."""

    point: Checkpoint
    quantity: Quantity
    value: float
    dagger: bool


def quantity(run_sheet: RunSheet, name: str) -> Quantity | None:
    """Return our quantity of a name of printed.csv, None where the run has no such benchmark."""
    head, _, category = name.partition("/")
    task, _, metric = head.partition(":")
    if task in ("dto", "serving", mask_diffs.SLUG):
        return Quantity(task, metric or task, category)
    slug = run_sheet.primary(task)
    return None if slug is None else Quantity(slug, metric or run_sheet.headline(slug), category)


def numbers(run_sheet: RunSheet, label: str | None) -> list[Printed]:
    """Return the printed numbers of one table of the paper (None: all) that a run could have."""
    found = []
    for row in printed_rows():
        if label not in (None, row["table"]) or not row["model"]:
            continue
        if row["calibration"] == DIFFERENCE:
            continue
        one = quantity(run_sheet, row["metric"])
        if one is not None:
            point = Checkpoint(
                row["model"], row["method"], row["regime"], row["calibration"], seed=0
            )
            value = scaled(row["value"], row["metric"])
            found.append(Printed(point, one, value, row["dagger"] == "1"))
    return found


class PrintedResults(Results):
    """Printed numbers as ``Results``."""

    def __init__(self, found: Sequence[Printed]) -> None:
        self.path = Path("printed.csv")
        self._values = {(one.point, one.quantity): Measured(one.value) for one in found}


class PrintedSignificance(Significance):
    """The paper's daggers as tests: p is 0 with one and 1 without, for it prints no more."""

    def __init__(self, found: Sequence[Printed], run_sheet: RunSheet) -> None:
        self._tests = {}
        tested = {slug: FACTS[entry.task].means for slug, entry in run_sheet.benchmarks().items()}
        self._values = {
            (one.point, one.quantity): one
            for one in found
            if one.quantity.metric in tested.get(one.quantity.benchmark, ())
        }

    def of(self, group: Group, benchmark: str, metric: str) -> tuple[float, float] | None:
        """Return (difference to sparsegpt, 0 or 1), None where one of the two is not printed."""
        point = group.checkpoints()[0]
        base = Checkpoint(point.model, "sparsegpt", point.regime, point.calibration, point.seed)
        pair = [self._values.get((one, Quantity(benchmark, metric))) for one in (point, base)]
        if point == base or pair[0] is None or pair[1] is None:
            return None
        return pair[0].value - pair[1].value, 0.0 if pair[0].dagger else 1.0

    def difference(
        self, group: Group, benchmark: str, metric: str
    ) -> tuple[float, float, int] | None:
        """Return None: the paper prints no spread."""
        return None


def printed_run(config: Config, table: str | None = None) -> Run:
    """Return the paper's numbers as a run of ``config``, those of one table of ours or all.

    ``config`` has the paper's models, methods and benchmarks by their names, as in
    ``config/paper.yaml``. Raises UserError where ``table`` has no counterpart in the paper.
    """
    if table is not None and table not in PAPER_TABLES:
        raise UserError(
            f"expected a table of the paper ({', '.join(PAPER_TABLES)}), got {table}; it has no "
            "printed values"
        )
    compared = mask_references(config)
    files: dict[Checkpoint, dict[str, str | None]] = {
        point: {
            "evals": None,
            "check": None,
            "masks": "printed.csv" if point in compared else None,
            "calibration_manifest": None,
            "serving": None,
        }
        for point in all_checkpoints(config)
    }
    grids = {name: experiment_checkpoints(config, name) for name in config.experiments}
    sheet = RunSheet(config, grids, files)
    found = numbers(sheet, None if table is None else PAPER_TABLES[table])
    return Run(sheet, PrintedResults(found), PrintedSignificance(found, sheet))
