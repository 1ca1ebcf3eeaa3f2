"""What evaluates a task: the interface of the modules that ``benchmarks.find`` finds by name."""

import os
from abc import ABC, abstractmethod
from pathlib import Path

from ..plan.tasks import FACTS
from .causal_model import CausalModel
from .protocol import Outcome, Protocol, pick
from .records import Fields

NOWHERE = Path(os.devnull)  # the data of a task that is given none


class Task(ABC):
    """One evaluation task. ``evaluation/NAME.py`` ends with ``TASK``, an instance of a subclass.

    ``name`` is the task's in ``plan/tasks.py``, where its facts are; ``fields`` are those of the
    records that it returns.
    """

    name: str
    fields: Fields

    def split(self, spec: Protocol) -> str:
        """Return the split that is asked for, by default the first; UserError for no such one."""
        return pick(spec.split, FACTS[self.name].splits, "split", self.name)

    def style(self, spec: Protocol) -> str:
        """Return the prompt style that is asked for, by default the first; UserError likewise."""
        return pick(spec.style, FACTS[self.name].styles, "style", self.name)

    @abstractmethod
    def data_files(self, data: Path, spec: Protocol) -> list[Path]:
        """Return the files of the folder (or single file) ``data`` that a run reads.

        Their checksums are part of the result's identity. Raises UserError for a missing one.
        """

    @abstractmethod
    def evaluate(self, lm: CausalModel, data: Path, spec: Protocol) -> Outcome:
        """Score the items; return a record of each, with metrics that follow from the records.

        ``spec.limit`` takes a stratified sample, see ``sampling.py``. Raises UserError for data
        that are not of the task's form and for scores that are not finite.
        """
