"""A table as data, as CSV and as Markdown; LaTeX and HTML are in modules of their own.

All decisions (what is bold, what carries a dagger, how many digits) are made before: no form
holds any logic. Colours are those of the paper.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..plan.tasks import Direction

# Column groups: LaTeX column type and colour as in the paper (preamble.tex, paper.html.j2).
GROUPS = {
    "perplexity": "P",
    "performance": "A",
    "fairness": "O",
    "dto": "D",
    "plain": "r",
}
ARROWS = {"up": "↑", "down": "↓", "half": "→50", "zero": "→0", "": ""}

ColumnGroup = Literal["perplexity", "performance", "fairness", "dto", "plain"]
Rule = Literal["", "dashed", "full"]


@dataclass(frozen=True)
class Column:
    """One value column.

    ``key`` names it in the CSV, ``span`` is a head shared with the neighbours of the same
    span. Values are multiplied by ``scale`` and shown with ``digits`` decimals. ``direction``
    says which values are good: up, down, half (near one half), zero or "" (not ranked). A column
    of ``text`` shows words, in the CSV too, one with ``ends`` the intervals of rates.
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

    def show(self, value: float | None, signed: bool = False) -> str:
        """Return a value as shown in this column, a difference ``signed``; an en dash for none.

        What is 0 after rounding has no minus.
        """
        if value is None:
            return "–"
        # Adding 0 makes a positive zero of a negative one.
        rounded = round(value * self.scale, self.digits) + 0.0
        comma = "" if self.digits else ","  # counts have thousands apart
        return f"{rounded:{'+' if signed else ''}{comma}.{self.digits}f}".replace("-", "−")

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
    ends: tuple[float, float] | None = None
    bold: bool = False
    dagger: bool = False
    in_calibration: bool = False
    source: str = ""
    change: str = ""


@dataclass(frozen=True)
class TableRow:
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
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()
    widths: tuple[float, ...] = ()


def units(columns: Sequence[Column]) -> list[list[Column]]:
    """Return columns in groups that share a head."""
    found: list[list[Column]] = []
    for column in columns:
        if found and column.span and found[-1][0].span == column.span:
            found[-1].append(column)
        else:
            found.append([column])
    return found


# Ours beside the paper's

Z95 = 1.959964  # half width of a 95 % normal interval in standard errors


def difference(cell: Cell) -> float | None:
    """Return ours minus the paper's, None where one is missing."""
    if cell.value is None or cell.printed is None:
        return None
    return cell.value - cell.printed


def bounds(column: Column) -> tuple[float, float]:
    """Return between which values a column's numbers lie: shares (in percent), or bias scores."""
    if column.scale != 100:
        return -math.inf, math.inf
    return (-1.0 if column.direction == "zero" else 0.0), 1.0


def interval(column: Column, cell: Cell) -> tuple[float, float] | None:
    """Return the 95 % interval of our value: its own, or the normal one of its standard error.

    Within the ``bounds`` of its column; None without either.
    """
    if cell.ends is not None:
        return cell.ends
    if cell.value is None or cell.error is None:
        return None
    low, high = bounds(column)
    return max(cell.value - Z95 * cell.error, low), min(cell.value + Z95 * cell.error, high)


def covered(column: Column, cell: Cell) -> bool | None:
    """Return whether our interval covers the printed value, None where either is missing.

    The printed value stands for all that are rounded to it.
    """
    ends = interval(column, cell)
    if ends is None or cell.printed is None:
        return None
    half = 0.5 * 10.0**-column.digits / column.scale
    return ends[0] <= cell.printed + half and cell.printed - half <= ends[1]


# CSV and Markdown


def numbers_of(column: Column, cell: Cell) -> dict[str, str]:
    """Return what the CSV says of a cell, by the end of the column's name."""
    low, high = interval(column, cell) or (None, None)
    inside = covered(column, cell)
    return {
        "": column.plain(cell.value),
        "_printed": column.plain(cell.printed),
        "_diff": column.plain(difference(cell)),
        "_low": column.plain(low),
        "_high": column.plain(high),
        "_covered": "" if inside is None else str(int(inside)),
        "_sd": column.plain(cell.sd),
        "_dagger": "1" * cell.dagger,
        "_in_calibration": "1" * cell.in_calibration,
    }


def csv_form(table: Table) -> tuple[list[str], list[dict[str, str]]]:
    """Return (header, rows): identity columns, then per column ours, the paper's and marks.

    ``<col>`` is ours and ``<col>_printed`` the paper's in the same unit, ``<col>_sd`` the
    standard deviation over calibration seeds (where there are several), ``<col>_dagger`` 1
    where the table has a dagger, ``<col>_in_calibration`` 1 where it has a double dagger. A table
    with printed values also has ``<col>_diff`` (ours minus the paper's), the ends of our 95 %
    interval ``<col>_low`` and ``<col>_high``, and ``<col>_covered``, 1 or 0: whether the printed
    value lies in it. Columns with intervals of their own have their ends in every table.
    """
    data = [row for row in table.rows if row.kind != "heading"]
    cells = [cell for row in data for cell in row.cells.values()]
    own = {key for row in data for key, cell in row.cells.items() if cell.ends is not None}
    beside = any(cell.printed is not None for cell in cells)
    shown = {
        **{"": True, "_printed": True},
        **dict.fromkeys(("_diff", "_low", "_high", "_covered"), beside),
        "_sd": any(cell.sd is not None for cell in cells),
        "_dagger": any(cell.dagger for cell in cells),
        "_in_calibration": any(cell.in_calibration for cell in cells),
    }
    header = list(dict.fromkeys(name for row in data for name in row.identity))
    lines = [dict(row.identity) for row in data]
    for column in table.columns:
        ends = [end for end, known in shown.items() if known]
        if column.text:
            ends = [""]
        elif column.key in own and not beside:
            ends[2:2] = ["_low", "_high"]
        header += [column.key + end for end in ends]
        for row, line in zip(data, lines, strict=True):
            if cell := row.cells.get(column.key):
                found = {"": cell.display} if column.text else numbers_of(column, cell)
                line |= {column.key + end: found[end] for end in ends}
    return header, [dict.fromkeys(header, "") | line for line in lines]


def escape_markdown(text: str) -> str:
    """Return text that a Markdown table cell shows as it stands."""
    for sign in "\\`*_|<":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


def to_markdown(table: Table) -> str:
    """Return the table as GitHub Markdown with caption and notes."""

    def cell_text(cell: Cell | None) -> str:
        if cell is None:
            return ""
        text = f"**{cell.display}**" if cell.bold else cell.display
        return text + ("†" if cell.dagger else "") + ("‡" if cell.in_calibration else "")

    heads = [escape_markdown(head) for head in table.heads]
    for column in table.columns:
        text = f"{column.span}: {column.head}" if column.span else column.head
        heads.append(f"{escape_markdown(text)} {ARROWS[column.direction]}".strip())
    lines = [
        escape_markdown(table.caption),
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(table.heads)}{'---:|' * len(table.columns)}",
    ]
    for row in table.rows:
        if row.kind == "heading":
            first = f"*{escape_markdown(' '.join(row.labels))}*"
            cells = [first, *("" for _ in range(len(heads) - 1))]
        else:
            labels = [escape_markdown(label) for label in row.labels]
            if row.strong and labels[row.strong_at]:
                label = labels[row.strong_at]
                lead = "+ " if label.startswith("+ ") else ""
                labels[row.strong_at] = f"{lead}**{label.removeprefix('+ ')}**"
            cells = [*labels, *(cell_text(row.cells.get(c.key)) for c in table.columns)]
        lines.append(f"| {' | '.join(cells)} |")
    if table.notes:
        lines += ["", " ".join(escape_markdown(note) for note in table.notes)]
    return "\n".join(lines) + "\n"
