"""A table as a piece of an HTML page, whose cells name the command that explains them."""

from pathlib import Path
from typing import Any

from ..base.pages import fill
from .cell_path import PARTS
from .render import ARROWS, Cell, Column, Table, TableRow, units

# Part of this module's code, see codedigest.py.
DATA_FILES = ("table.html.j2",)
TEMPLATE = Path(__file__).with_name(DATA_FILES[0])
LONG = 18  # rows above which a printed table may break across pages
WIDE = 9  # columns above which they stand closer


def point_of(row: TableRow) -> str:
    """Return the checkpoint that ``explain`` takes for a row's cells, "" where it knows none."""
    if row.kind != "data" or not all(row.identity.get(name) for name in PARTS):
        return ""
    return "/".join(row.identity[name] for name in PARTS)


def _cell(column: Column, cell: Cell | None, point: str) -> dict[str, Any]:
    shown = cell or Cell(None, "")
    marks = ("†" if shown.dagger else "") + ("‡" if shown.in_calibration else "")
    known = point and shown.source and shown.value is not None
    return {
        "group": column.group,
        "bold": shown.bold,
        "text": shown.display + marks,
        "source": shown.source if known else "",
    }


def to_html(table: Table, known_as: str) -> str:
    """Return the table as an HTML figure; ``known_as`` is its name for ``evenprune explain``."""
    rows = [
        {
            "kind": row.kind,
            "rule": row.rule,
            "labels": row.labels,
            "strong": row.strong,
            "strong_at": row.strong_at,
            "point": (point := point_of(row)),
            "cells": [_cell(one, row.cells.get(one.key), point) for one in table.columns],
        }
        for row in table.rows
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
