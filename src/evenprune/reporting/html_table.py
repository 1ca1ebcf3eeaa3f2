"""A table as a piece of an HTML page, whose cells name the command that explains them."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..analysis.results import POINT
from ..base.errors import printable
from ..base.pages import fill
from .render import ARROWS, Cell, Column, Table, TableRow, interval, units

# Part of this module's code, see codedigest.py.
DATA_FILES = ("table.html.j2", "table_page.html.j2", "page.css")
TEMPLATE, PAGE, STYLE = (Path(__file__).with_name(name) for name in DATA_FILES)
LAST = 1e300  # what has no value comes last where the best is first
IDEAL = {"half": 0.5, "zero": 0.0}


def point_of(row: TableRow) -> str:
    """Return the checkpoint that ``explain`` takes for a row's cells, "" where it knows none."""
    if row.kind != "data" or not all(row.identity.get(name) for name in POINT):
        return ""
    return "/".join(row.identity[name] for name in POINT)


def full_labels(rows: Sequence[TableRow]) -> list[tuple[str, ...]]:
    """Return each row's labels with what rows above say for it, so that it can stand anywhere.

    A blank label is that of the row above, where those before it are blank too; one that begins
    with "+" is said of the last first label without, where both are of one model; a heading stands
    before the first label.
    """
    found: list[tuple[str, ...]] = []
    above: tuple[str, ...] = ()
    heading = base = model = ""
    for row in rows:
        if row.kind == "heading":
            heading, above = " ".join(row.labels), ()
            found.append(row.labels)
            continue
        labels = list(row.labels)
        for place, label in enumerate(labels):
            if label or place >= len(above):
                break
            labels[place] = above[place]
        if row.labels and (first := row.labels[0]):
            if not first.startswith("+ "):
                base, model = first, row.identity.get("model", "")
            elif row.identity.get("model", "") == model:
                first = f"{base} {first}"
            labels[0] = f"{heading}: {first}" if heading else first
        above = tuple(labels)
        found.append(above)
    return found


def _order(column: Column, cell: Cell) -> float:
    """Return what a cell sorts by: its value, or how far it is from the column's ideal."""
    if cell.value is None:
        return -LAST if column.direction == "up" else LAST
    ideal = IDEAL.get(column.direction)
    return cell.value if ideal is None else abs(cell.value - ideal)


def _cell(column: Column, row: TableRow, point: str, known_as: str) -> dict[str, Any]:
    cell = row.cells.get(column.key, Cell(None, ""))
    signed, known = row.kind == "diff", cell.value is not None
    ends = interval(column, cell) if known and not column.text else None
    printed = cell.printed if known and not column.text else None
    source = printable(cell.source) if point and known else ""
    # Copied into a shell: a category is a word of a data file, which is somebody else's.
    command = f"evenprune explain {known_as} --cell {shlex.quote(f'{point}/{source}')}"
    return {
        "group": column.group,
        "bold": cell.bold,
        "text": cell.display + "†" * cell.dagger + "‡" * cell.in_calibration,
        "order": None if column.text else _order(column, cell),
        "source": source,
        "command": command,
        "change": cell.change,
        "interval": "" if ends is None else " to ".join(column.show(end, signed) for end in ends),
        "printed": "" if printed is None else column.show(printed, signed),
    }


def to_html(table: Table, known_as: str) -> str:
    """Return the table as an HTML figure; ``known_as`` is its name for ``evenprune explain``."""
    rows = []
    for row, labels in zip(table.rows, full_labels(table.rows), strict=True):
        if row.kind != "heading":
            cells = [_cell(one, row, point_of(row), known_as) for one in table.columns]
            rows.append({"row": row, "labels": labels, "point": point_of(row), "cells": cells})
    spans = [
        {"text": unit[0].span, "width": len(unit), "group": unit[0].group}
        for unit in units(table.columns)
    ]
    values = {
        "table": table,
        "rows": rows,
        "spans": spans if any(span["text"] for span in spans) else [],
        "shares": [round(100 * width / sum(table.widths)) for width in table.widths],
        "arrows": ARROWS,
    }
    return fill(TEMPLATE, values)


def to_page(figures: Sequence[str], title: str) -> str:
    """Return tables as a page of its own, which runs nothing."""
    style = STYLE.read_text(encoding="utf-8")
    return fill(PAGE, {"title": title, "figures": figures, "style": style})


def figures_of(page: str) -> str:
    """Return the tables of a page that ``to_page`` made, as a piece of another page."""
    start, end = page.find("<figure"), page.rfind("</figure>")
    return page[start : end + len("</figure>")] if 0 <= start < end else ""
