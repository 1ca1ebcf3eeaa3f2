"""Ours beside the paper's: a second table beneath each one that has printed values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .render import Cell, Column, Table, TableRow, covered, difference, interval

INSIDE, OUTSIDE = "✓", "×"


@dataclass(frozen=True)
class Agreement:
    """How many values have a printed one, how many of these an interval, and how many cover it."""

    printed: int = 0
    tested: int = 0
    inside: int = 0

    def words(self) -> str:
        """Return the summary in one sentence."""
        text = (
            f"{self.inside} of {self.tested} cells with a printed value have it within our 95 % "
            "interval"
        )
        rest = self.printed - self.tested
        return text + (f"; {rest} more have no interval." if rest else ".")


def agreement(pairs: Iterable[tuple[Column, Cell]]) -> Agreement:
    """Return the agreement of cells, each with the column that shows it."""
    printed = tested = inside = 0
    for column, cell in pairs:
        if difference(cell) is None:
            continue
        printed += 1
        found = covered(column, cell)
        if found is not None:
            tested += 1
            inside += found
    return Agreement(printed, tested, inside)


def signs(found: Agreement) -> str:
    """Return what the signs after differences mean, of those that occur."""
    words = []
    if found.inside:
        words.append(
            f"{INSIDE}: the printed value lies within our 95 % interval (of the standard error "
            "over items, and over seeds; Wilson's of a rate of judged answers, t over rounds of a "
            "ratio of speeds)"
        )
    if found.inside < found.tested:
        words.append(f"{OUTSIDE}: it lies outside of our 95 % interval")
    if found.tested < found.printed:
        words.append("no sign: no interval is known")
    text = "; ".join(words)
    return f"{text}." if text else ""


def shown_pairs(table: Table) -> list[tuple[Column, Cell]]:
    """Return the cells of measured values of a table, each with what shows it."""
    return [
        (column, cell)
        for row in table.rows
        if row.kind == "data"
        for column in table.columns
        if (cell := row.cells.get(column.key)) is not None
    ]


def show_difference(column: Column, cell: Cell) -> str:
    """Return ours minus the paper's with a sign, and whether our interval covers the paper's."""
    change = difference(cell)
    if change is None:
        return "–"
    inside = covered(column, cell)
    mark = "" if inside is None else f" {INSIDE if inside else OUTSIDE}"
    return column.show(change, signed=True) + mark


def show_interval(column: Column, cell: Cell) -> str:
    """Return the ends of our 95 % interval, an en dash without one."""
    ends = interval(column, cell)
    if ends is None:
        return "–"
    return " to ".join(column.show(end) for end in ends)


def companion(table: Table) -> Table | None:
    """Return ours, the paper's and the difference of every cell; None without a printed value.

    Three lines a row of ``table``; rows without a printed value are left out, headings stay.
    """
    found = agreement(shown_pairs(table))
    if not found.printed:
        return None
    rows: list[TableRow] = []
    for row in table.rows:
        if row.kind == "heading":
            rows.append(row)
        elif any(difference(cell) is not None for cell in row.cells.values()):
            rows += _lines(table.columns, row)
    rows = [
        row
        for row, following in zip(rows, [*rows[1:], None], strict=True)
        if row.kind != "heading" or (following is not None and following.kind != "heading")
    ]
    return replace(
        table,
        slug=f"{table.slug}_vs_print",
        caption=f"Ours beside the paper's: the values of the table above. {found.words()}",
        columns=tuple(replace(column, direction="") for column in table.columns),
        rows=tuple(rows),
        notes=(f"ours − paper: computed before rounding. {signs(found)}".strip(),),
        widths=(),
    )


def _lines(columns: Sequence[Column], row: TableRow) -> list[TableRow]:
    """Return the three lines of a row; the labels of the lower two stand in the last column."""
    ours, paper, change = {}, {}, {}
    for column in columns:
        cell = row.cells.get(column.key)
        if cell is None:
            continue
        ours[column.key] = Cell(cell.value, cell.display)
        paper[column.key] = Cell(cell.printed, column.show(cell.printed, signed=row.kind == "diff"))
        change[column.key] = Cell(difference(cell), show_difference(column, cell))
    blank = ("",) * (len(row.labels) - 1)
    return [
        replace(row, cells=ours, rule=row.rule or "dashed", kind="data"),
        TableRow((*blank, "paper"), paper),
        TableRow((*blank, "ours − paper"), change),
    ]
