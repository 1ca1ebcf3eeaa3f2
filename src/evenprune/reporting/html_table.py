"""A table as a piece of an HTML page, whose cells name the command that explains them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base.pages import fill
from .cell_path import PARTS
from .page_parts import style_and_script
from .render import ARROWS, Cell, Column, Table, TableRow, interval, units

# Part of this module's code, see codedigest.py.
DATA_FILES = ("table.html.j2", "table_page.html.j2")
TEMPLATE, PAGE = (Path(__file__).with_name(name) for name in DATA_FILES)
SCRIPTS = ("page_tables.js",)
LONG = 18  # rows above which a printed table may break across pages
WIDE = 9  # columns above which they stand closer


def point_of(row: TableRow) -> str:
    """Return the checkpoint that ``explain`` takes for a row's cells, "" where it knows none."""
    if row.kind != "data" or not all(row.identity.get(name) for name in PARTS):
        return ""
    return "/".join(row.identity[name] for name in PARTS)


def full_labels(rows: Sequence[TableRow]) -> list[tuple[str, ...]]:
    """Return each row's labels with what rows above say for it, so that it can stand anywhere.

    A blank label is that of the row above, where those before it are blank too; one that begins
    with "+" is said of the last first label without; a heading stands before the first label.
    """
    found: list[tuple[str, ...]] = []
    above: tuple[str, ...] = ()
    heading = base = ""
    for row in rows:
        if row.kind == "heading":
            heading, above, base = " ".join(row.labels), (), ""
            found.append(row.labels)
            continue
        labels = list(row.labels)
        for place, label in enumerate(labels):
            if label or place >= len(above):
                break
            labels[place] = above[place]
        if row.labels and (first := row.labels[0]):
            if not first.startswith("+ "):
                base = first
            elif base:
                first = f"{base} {first}"
            labels[0] = f"{heading}: {first}" if heading else first
        above = tuple(labels)
        found.append(above)
    return found


def _follows(rows: Sequence[TableRow]) -> list[bool]:
    """Return of each row whether it says something of the row above and stays beneath it."""
    named = any(row.identity for row in rows)
    return [
        k > 0 and (row.kind == "diff" or (named and row.kind == "data" and not row.identity))
        for k, row in enumerate(rows)
    ]


def _beside(column: Column, row: TableRow, cell: Cell | None) -> dict[str, str]:
    """Return the 95 % interval and the printed value of a cell, "" where it has none."""
    form = row.form or column
    if cell is None or column.text or cell.value is None:
        return {"interval": "", "printed": ""}
    signed = row.kind == "diff"
    ends = interval(cell)
    shown = "" if ends is None else " to ".join(form.show(end, signed) for end in ends)
    printed = "" if cell.printed is None else form.show(cell.printed, signed)
    return {"interval": shown, "printed": printed}


def _cell(column: Column, row: TableRow, point: str) -> dict[str, Any]:
    cell = row.cells.get(column.key)
    shown = cell or Cell(None, "")
    marks = ("†" if shown.dagger else "") + ("‡" if shown.in_calibration else "")
    known = point and shown.source and shown.value is not None
    return {
        "group": column.group,
        "bold": shown.bold,
        "text": shown.display + marks,
        "source": shown.source if known else "",
        **_beside(column, row, cell),
    }


def to_html(table: Table, known_as: str) -> str:
    """Return the table as an HTML figure; ``known_as`` is its name for ``evenprune explain``."""
    rows = [
        {
            "kind": row.kind,
            "rule": row.rule,
            "labels": row.labels,
            "full": full,
            "follows": follows,
            "strong": row.strong,
            "strong_at": row.strong_at,
            "point": (point := point_of(row)),
            "cells": [_cell(one, row, point) for one in table.columns],
        }
        for row, full, follows in zip(
            table.rows, full_labels(table.rows), _follows(table.rows), strict=True
        )
    ]
    spans = [
        {"text": unit[0].span, "width": len(unit), "group": unit[0].group}
        for unit in units(table.columns)
    ]
    whole = sum(table.widths)
    look = ["long"] if len(table.rows) > LONG or table.widths else []
    look += ["text"] if table.widths else []
    look += ["wide"] if len(table.columns) > WIDE else []
    values = {
        "table": {
            "slug": table.slug,
            "caption": table.caption,
            "heads": table.heads,
            "columns": table.columns,
            "rows": rows,
            "notes": table.notes,
        },
        "spans": spans if any(span["text"] for span in spans) else [],
        "shares": [round(100 * width / whole) for width in table.widths],
        "arrows": ARROWS,
        "known_as": known_as,
        "look": " ".join(look),
    }
    return fill(TEMPLATE, values)


def to_page(figures: Sequence[str], title: str) -> str:
    """Return tables as a page of its own."""
    return fill(PAGE, {"title": title, "figures": figures, **style_and_script(SCRIPTS)})


def figures_of(page: str) -> str:
    """Return the tables of a page that ``to_page`` made, as a piece of another page."""
    start, end = page.find("<figure"), page.rfind("</figure>")
    return page[start : end + len("</figure>")] if 0 <= start < end else ""
