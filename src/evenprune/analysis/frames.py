"""results.csv and significance.csv as data frames: made, written and read here.

Their cells are Python objects: a whole number stays one beside empty cells, and a float is
written with as many digits as read it back.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ..io.checksums import again, check_sum, write_sum
from ..io.files import atomic_path
from ..io.reading import expected_form, iter_csv

# Columns that hold a number or nothing.
NUMBERS = (
    "value", "n", "stderr", "printed", "units", "changed", "diff", "low", "high", "p", "p_holm",
    "low_fixed", "high_fixed", "p_fixed", "family_low", "family_high", "detectable",
    "detectable_better",
)  # fmt: skip
KEY = 8  # columns that name a row, the first ones of both files


class Place(NamedTuple):
    """A grid point by its names, whether the run has it or not."""

    model: str
    method: str
    regime: str
    calibration: str


class Quantity(NamedTuple):
    """What results.csv calls a number: benchmark, metric, and category ("" for the total)."""

    benchmark: str
    metric: str
    category: str = ""

    @property
    def path(self) -> str:
        """What a cell's path calls it: BENCHMARK/METRIC[/CATEGORY]."""
        return "/".join(filter(None, self))


class Number(NamedTuple):
    """What results.csv says of a quantity of one checkpoint."""

    value: float | None
    n: int | None = None
    stderr: float | None = None


Numbers = dict[Quantity, Number]


def metric_values(benchmark: str, content: Any, path: Path | str) -> Numbers:
    """Return a checkpoint's metrics, which are of ``path``: totals, then categories."""
    with expected_form("metrics as {name: {value, n, stderr}}", path, "evaluate again"):
        parts = {"": content["metrics"], **content.get("categories", {})}
        numbers = {
            Quantity(benchmark, name, part): Number(one["value"], one.get("n"), one.get("stderr"))
            for part, metrics in parts.items()
            for name, one in metrics.items()
        }
        # Under "protocol" a benchmark says how many items it chose from.
        facts = content.get("spec", {}).get("protocol", {})
        total = facts.get("items_in_split", facts.get("items_in_data"))
        if total is not None:
            numbers[Quantity(benchmark, "items_total")] = Number(total)
        return numbers


def make_frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Return rows as a frame with these columns, sorted by what names them, as text."""
    frame = pd.DataFrame(list(rows), columns=list(columns), dtype=object)
    return frame.sort_values(
        list(columns[:KEY]), key=lambda column: column.astype(str), ignore_index=True
    )


def write_frame(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame as CSV, and its checksum; what is missing becomes an empty cell."""
    with atomic_path(path) as temporary:
        frame.to_csv(temporary, index=False, lineterminator="\n", encoding="utf-8")
    write_sum(path)


def read_frame(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Return these columns of a CSV that collect-results wrote, None for no number.

    Numbers are floats, all else is text as it stands. Raises UserError for a changed file and
    for a cell that is no number.
    """
    remedy = "run collect-results again"
    check_sum(path, f"collect the results again: run {again(path)}, or collect-results as before")
    # Not pandas' own reader, which fills up short rows.
    rows = [row for _, row in iter_csv(path, columns, what="results", remedy=remedy)]
    frame = pd.DataFrame(rows, columns=list(columns), dtype=object)
    for name in frame.columns.intersection(NUMBERS):
        with expected_form("numbers", f"the column {name} of {path}", remedy):
            frame[name] = frame[name].replace("", "nan").astype(float)
    return frame.astype(object).where(frame.notna(), None)
