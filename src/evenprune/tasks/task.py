"""What evaluates a task: the interface of the modules that ``benchmarks.find`` finds by name."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config.tasks import FACTS
from ..data.readers.rows import find_file
from ..language_models.causal_model import CausalModel
from ..stats.metrics import Metric, Record, by_category
from .protocol import Facts, Outcome, Protocol, Records
from .records import Fields
from .sampling import stratified_sample

NOWHERE = Path(os.devnull)  # the data of a task that is given none


class Task(ABC):
    """One evaluation task. ``tasks/NAME.py`` ends with ``TASK``, an instance of a subclass.

    ``name`` is the task's in ``config/tasks.yaml``, where its facts are; ``fields`` are those of
    the records that it returns.
    """

    name: str
    fields: Fields

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
    def evaluate(self, lm: CausalModel, data: Path, spec: Protocol) -> Outcome:
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

    @abstractmethod
    def read(self, data: Path, spec: Protocol, facts: Facts) -> Sequence[Any]:
        """Return the split's items; ``facts`` takes what is to be told about the data."""

    @abstractmethod
    def records(self, lm: CausalModel, items: Any, spec: Protocol, facts: Facts) -> Records:
        """Return the items' records; ``facts`` takes what is to be told about the scoring."""

    @abstractmethod
    def metrics(self, records: Sequence[Record]) -> dict[str, Metric]:
        """Return the metrics of records, of all or of one category."""

    def evaluate(self, lm: CausalModel, data: Path, spec: Protocol) -> Outcome:
        """Draw, score and count the items."""
        facts: Facts = {"split": self.split(spec)}
        items = self.read(data, spec, facts)
        facts.setdefault("items_in_data", len(items))
        strata = [item.category if self.categories else 0 for item in items]
        chosen = [items[k] for k in stratified_sample(strata, spec.limit, spec.seed)]
        records = self.records(lm, chosen, spec, facts)
        categories = by_category(records, self.metrics) if self.categories else {}
        return Outcome(records, self.metrics(records), categories, facts)
