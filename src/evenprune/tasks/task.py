"""What evaluates a task: the interface of the modules that ``benchmarks.find`` finds by name."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.tasks import FACTS
from ..data.readers.rows import find_file
from ..stats.metrics import Metric, Record, by_category
from .protocol import Facts, Outcome, Protocol, Records
from .sampling import stratified_sample

if TYPE_CHECKING:
    from ..language_models.language_model import LanguageModel

Metrics = dict[str, Metric]
NOWHERE = Path(os.devnull)  # the data of a task that is given none


class Task(ABC):
    """One evaluation task. ``tasks/NAME.py`` ends with ``TASK``, an instance of a subclass."""

    @property
    def name(self) -> str:
        """The task's name in ``config/tasks.yaml``, where its facts are: that of its module."""
        return type(self).__module__.rpartition(".")[2]

    def split(self, spec: Protocol) -> str:
        """Return the split that is asked for, by default the first."""
        return spec.split or FACTS[self.name].splits[0]

    def style(self, spec: Protocol) -> str:
        """Return the prompt style that is asked for, by default the first."""
        return spec.style or FACTS[self.name].styles[0]

    @abstractmethod
    def data_files(self, data: Path, spec: Protocol) -> list[Path]:
        """Return the files of the folder (or single file) ``data`` that a run reads.

        Their checksums are part of the result's identity. Raises UserError for a missing one.
        """

    @abstractmethod
    def evaluate(self, lm: "LanguageModel", data: Path, spec: Protocol) -> Outcome:
        """Score the items; return a record of each, with metrics that follow from the records.

        ``spec.limit`` takes a stratified sample, see ``sampling.py``. Raises UserError for data
        that are not of the task's form and for scores that are not finite.
        """


class ItemTask(Task):
    """A task whose items are drawn by category, scored, and counted by category.

    ``file`` is the data's file, with ``{split}`` where each split has its own. Without
    ``categories`` they are drawn and counted as one.
    """

    file: str
    categories = True

    def data_files(self, data: Path, spec: Protocol) -> list[Path]:
        """Return the file that is read."""
        return [find_file(data, self.file.format(split=self.split(spec)))]

    def read(self, data: Path, spec: Protocol) -> Sequence[Any]:
        """Return the split's items; a task that draws otherwise has a ``select`` of its own."""
        raise NotImplementedError

    def select(self, data: Path, spec: Protocol) -> tuple[Sequence[Any], Facts]:
        """Return the items to score, and what is to be told about the data."""
        items = self.read(data, spec)
        strata = [item.category if self.categories else 0 for item in items]
        chosen = [items[k] for k in stratified_sample(strata, spec.limit, spec.seed)]
        return chosen, {"items_in_data": len(items)}

    @abstractmethod
    def records(self, lm: "LanguageModel", items: Any, spec: Protocol) -> Records:
        """Return the items' records."""

    @abstractmethod
    def metrics(self, records: Sequence[Record]) -> dict[str, Metric]:
        """Return the metrics of records, of all or of one category."""

    def count(self, records: Sequence[Record]) -> tuple[Metrics, dict[str, Metrics]]:
        """Return the metrics of all records, and by category."""
        categories = by_category(records, self.metrics) if self.categories else {}
        return self.metrics(records), categories

    def evaluate(self, lm: "LanguageModel", data: Path, spec: Protocol) -> Outcome:
        """Draw, score and count the items."""
        items, told = self.select(data, spec)
        records = self.records(lm, items, spec)
        style = {"style": self.style(spec)} if FACTS[self.name].styles else {}
        return Outcome(records, *self.count(records), {"split": self.split(spec), **style, **told})
