"""A run as tables, figures and claims see it: its sheet, its numbers and its tests."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..config.grids import Checkpoint
from ..config.run_sheet import RunSheet
from .estimates import Estimates
from .results import Group, Quantity, Results, Significance, experiment_of

OURS = "debias-sparsegpt"
WIDEST = ("regimes", "main", "*")  # experiments, the one with most regimes first


@dataclass(frozen=True, eq=False)
class Run:
    """What tables, figures and claims are made from."""

    sheet: RunSheet
    results: Results
    significance: Significance

    @functools.cached_property
    def estimates(self) -> Estimates:
        """Functions of the run's numbers with their errors; files of items are read once."""
        return Estimates(self.sheet, self.results)

    def points(self, names: Sequence[str], asked_by: str) -> list[Checkpoint]:
        """Return the checkpoints of the first of the named experiments that the run has.

        ``*`` is any of them. Raises UserError where it has none.
        """
        return self.sheet.experiment(experiment_of(self.sheet, names), asked_by)

    def dagger_test(self, group: Group, quantity: Quantity) -> tuple[float, float] | None:
        """Return (difference to SparseGPT, p) of the test that the paper's dagger stands for.

        Debias-SparseGPT's only; None for other methods and where nothing was tested.
        """
        if self.sheet.base_method(group.method) != OURS:
            return None
        return self.significance.of(group, quantity.benchmark, quantity.metric)


def read_run(sheet: RunSheet, results: Path, significance: Path) -> Run:
    """Return a run with what collect-results wrote of it."""
    return Run(sheet, Results(results), Significance(significance))
