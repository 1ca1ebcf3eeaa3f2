"""A table as data: columns, rows of cells, notes. The forms that it is written in decide nothing.

What is bold, what carries a dagger, how many digits: all is settled here.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..analysis.frames import Quantity
from ..analysis.labels import number_text
from ..config.tasks import Direction

ColumnGroup = Literal["perplexity", "performance", "fairness", "dto", "plain"]
Rule = Literal["", "dashed", "full"]
Ends = tuple[float, float]
NONE = Quantity("", "")  # a column of what is no number of results.csv
Z95 = 1.959964  # half width of a 95 % normal interval in standard errors


@dataclass(frozen=True)
class Column:
    """One value column.

    ``key`` names it in the CSV, ``span`` is a head shared with the neighbours of the same
    span. Values are multiplied by ``scale`` and shown with ``digits`` decimals. ``direction``
    says which values are good: up, down, half (near one half), zero or "" (not ranked). A column
    of ``text`` shows words, in the CSV too, one with ``ends`` the intervals of rates. ``quantity``
    is the number of results.csv that is shown, if any: its ``value``, ``stderr`` or ``n``.
    """

    key: str
    head: str
    group: ColumnGroup = "plain"
    direction: Direction = ""
    scale: float = 1.0
    digits: int = 2
    span: str = ""
    text: bool = False
    ends: bool = False
    quantity: Quantity = NONE
    of: Literal["value", "stderr", "n"] = "value"

    def show(self, value: float | None, signed: bool = False) -> str:
        """Return a value as shown in this column, a difference ``signed``; an en dash for none."""
        return "–" if value is None else number_text(value * self.scale, self.digits, signed)

    def with_ends(self, value: float, ends: Ends | None) -> str:
        """Return a value with the interval behind it, where there is one."""
        return self.show(value) + (f" [{', '.join(map(self.show, ends))}]" if ends else "")

    def plain(self, value: float | None) -> str:
        """Return a value as in the CSV: the same digits, an ASCII sign, empty for none."""
        return "" if value is None else f"{value * self.scale:.{self.digits}f}"


@dataclass(frozen=True)
class Cell:
    """One value: raw, as shown, the paper's (same scale as ``value``), and its marks.

    ``error`` is the standard error of ``value``, None where it is not known; ``ends`` those of its
    95 % interval where that is not the normal one. ``source`` is what results.csv calls it, as in
    a cell's path: BENCHMARK/METRIC[/CATEGORY]; "" where it is no number of one checkpoint.
    ``change`` is the difference to the dense model as the page shows it, "*" where it is
    significant; "" without a test.
    """

    value: float | None
    display: str
    printed: float | None = None
    sd: float | None = None
    error: float | None = None
    ends: Ends | None = None
    bold: bool = False
    dagger: bool = False
    in_calibration: bool = False
    source: str = ""
    change: str = ""

    @property
    def marks(self) -> str:
        """The signs behind the value."""
        return "†" * self.dagger + "‡" * self.in_calibration

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, None where one is missing."""
        return minus(self.value, self.printed)

    def interval(self, column: Column) -> Ends | None:
        """Return the 95 % interval of our value: its own, or the normal one of its standard error.

        Within the bounds of its column; None without either.
        """
        if self.ends is not None or self.value is None or self.error is None:
            return self.ends
        low, high = self.value - Z95 * self.error, self.value + Z95 * self.error
        if column.scale != 100:  # neither a share nor a bias score in percent
            return low, high
        return max(low, -1.0 if column.direction == "zero" else 0.0), min(high, 1.0)

    def covers(self, column: Column) -> bool | None:
        """Return whether our interval covers the printed value, None where either is missing.

        The printed value stands for all that are rounded to it.
        """
        ends = self.interval(column)
        if ends is None or self.printed is None:
            return None
        half = 0.5 * 10.0**-column.digits / column.scale
        return ends[0] <= self.printed + half and self.printed - half <= ends[1]

    def numbers(self, column: Column) -> dict[str, str]:
        """Return what the CSV says of it, by the end of the column's name."""
        low, high = self.interval(column) or (None, None)
        inside = self.covers(column)
        return {
            "": self.display if column.text else column.plain(self.value),
            "_printed": column.plain(self.printed),
            "_diff": column.plain(self.difference),
            "_low": column.plain(low),
            "_high": column.plain(high),
            "_covered": "" if inside is None else str(int(inside)),
            "_sd": column.plain(self.sd),
            "_dagger": "1" * self.dagger,
            "_in_calibration": "1" * self.in_calibration,
        }


EMPTY = Cell(None, "")


@dataclass(frozen=True)
class Row:
    """One line: the label cells, the value cells by column key, the identity for the CSV.

    ``kind``: data, diff (a difference of two data rows), heading (a line of its own across
    the table). ``rule`` is drawn above: none, dashed or full. ``strong``: the label at
    ``strong_at`` in bold.
    """

    labels: tuple[str, ...]
    cells: Mapping[str, Cell] = field(default_factory=dict)
    identity: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["data", "diff", "heading"] = "data"
    rule: Rule = ""
    strong: bool = False
    strong_at: int = 0

    def cell(self, column: Column) -> Cell:
        """Return the cell of a column, an empty one where the row has none."""
        return self.cells.get(column.key, EMPTY)


@dataclass(frozen=True)
class Table:
    """A table: ``heads`` are the label columns, ``notes`` are sentences printed beneath it.

    ``widths`` gives label columns of running text their shares of the line in LaTeX; without
    it labels stay on one line.
    """

    slug: str
    caption: str
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    widths: tuple[float, ...] = ()


def minus(one: float | None, other: float | None) -> float | None:
    """Return a difference, None where a number is missing."""
    return None if one is None or other is None else one - other


def units(columns: Sequence[Column]) -> list[list[Column]]:
    """Return columns in groups that share a head."""
    spans = itertools.groupby(columns, lambda one: (one.span, "" if one.span else one.key))
    return [list(shared) for _, shared in spans]
