"""What metrics of other evaluators say: ``metrics.yaml``, and a table of the user's before it."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ...config.flags import checked
from ...config.section import Section
from ...config.tasks import Kind
from ...io.yamlfile import own_yaml, read_yaml

DATA_FILES = ("metrics.yaml",)  # part of this module's code, see codedigest.py
OWN = Path(__file__).with_name(DATA_FILES[0])


class Entry(Section):
    """What the metrics of such a name say; the head of ``metrics.yaml`` explains the keys."""

    metric: str
    task: str = "*"
    kind: Kind
    good: Literal["up", "down", "half", "zero", "none"] | None = None
    chance: float | Literal["options"] | None = None
    perplexity: bool = False


class MetricTable(Section):
    """The entries in the order in which they are asked, and the fields that name a category."""

    metrics: list[Entry] = Field(default_factory=list)
    categories: list[str] = Field(default_factory=list)

    def entry(self, task: str, metric: str) -> Entry:
        """Return the first entry that fits; the last one of ours fits all."""
        return next(
            one
            for one in self.metrics
            if fnmatchcase(task, one.task) and fnmatchcase(metric, one.metric)
        )

    def category(self, document: Any) -> str:
        """Return the category that a document names, "" where it names none."""
        fields = document if isinstance(document, Mapping) else {}
        found = (fields.get(name) for name in self.categories)
        return next((str(one) for one in found if isinstance(one, str | int)), "")


def read_table(path: Path | None = None) -> MetricTable:
    """Return our table, with the entries of the user's before ours; UserError for a bad file."""
    theirs = [read_yaml(path)] if path else []
    parts = (*theirs, own_yaml(OWN))
    tables = [checked(MetricTable, part, lambda key: f"{path}: {key}") for part in parts]
    return MetricTable(
        metrics=[one for table in tables for one in table.metrics],
        categories=[one for table in tables for one in table.categories],
    )
