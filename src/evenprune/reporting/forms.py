"""A table as CSV, Markdown, LaTeX and HTML."""

import functools
import math
import re
import shlex
import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..analysis.results import POINT
from ..io.errors import printable
from ..io.files import write_csv, write_text
from ..io.pages import fill
from ..stats.directions import BEST_AT
from .tables import Cell, Column, Row, Table, units

# Part of this module's code, see codedigest.py.
DATA_FILES = ("table.tex.j2", "table.html.j2", "table_page.html.j2", "page.css", "preamble.tex")
LATEX, HTML, PAGE, STYLE, PREAMBLE = (Path(__file__).with_name(name) for name in DATA_FILES)
FORMS = ("csv", "html", "md", "tex")
ARROWS = {"up": "↑", "down": "↓", "half": "→50", "zero": "→0", "": ""}


def write_forms(table: Table, prefix: str | Path) -> None:
    """Write a table as PREFIX.csv, .md, .tex and .html."""
    write_csv(f"{prefix}.csv", *csv_form(table))
    write_text(f"{prefix}.md", to_markdown(table))
    write_text(f"{prefix}.tex", to_latex(table))
    write_text(f"{prefix}.html", to_page([to_html(table)], table.caption))


# CSV and Markdown


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
    said = [{one.key: row.cell(one).numbers(one) for one in table.columns} for row in data]
    used = {end for one in said for ends in one.values() for end, text in ends.items() if text}
    header = list(dict.fromkeys(name for row in data for name in row.identity))
    lines = [dict(row.identity) for row in data]
    for column in table.columns:
        beside = ["_low", "_high"] if any(row.cell(column).ends for row in data) else []
        beside = ["_diff", "_low", "_high", "_covered"] if "_printed" in used else beside
        marks = [end for end in ("_sd", "_dagger", "_in_calibration") if end in used]
        known = [""] if column.text else ["", "_printed", *beside, *marks]
        header += [column.key + end for end in known]
        for numbers, line in zip(said, lines, strict=True):
            line |= {column.key + end: numbers[column.key][end] for end in known}
    return header, [dict.fromkeys(header, "") | line for line in lines]


def escape_markdown(text: str) -> str:
    """Return text that a Markdown table cell shows as it stands."""
    return " ".join(re.sub(r"([\\`*_|<])", r"\\\1", text).split())


def _labels(row: Row, escape: Callable[[str], str], bold: str) -> list[str]:
    """Return escaped labels, the strong one within ``bold``, behind a leading "+ "."""
    labels = list(map(escape, row.labels))
    if row.strong is not None and (label := labels[row.strong]):
        lead = "+ " if label.startswith("+ ") else ""
        labels[row.strong] = lead + bold.format(label.removeprefix("+ "))
    return labels


def to_markdown(table: Table) -> str:
    """Return the table as GitHub Markdown with caption and notes."""
    heads = [escape_markdown(head) for head in table.heads]
    for column in table.columns:
        text = f"{column.span}: {column.head}" if column.span else column.head
        heads.append(f"{escape_markdown(text)} {ARROWS[column.direction]}".strip())
    lines = [heads, [*["---"] * len(table.heads), *["---:"] * len(table.columns)]]
    for row in table.rows:
        if row.kind == "heading":
            first = f"*{escape_markdown(' '.join(row.labels))}*"
            lines.append([first, *[""] * (len(heads) - 1)])
            continue
        cells = [row.cell(column) for column in table.columns]
        texts = [(f"**{one.display}**" if one.bold else one.display) + one.marks for one in cells]
        lines.append([*_labels(row, escape_markdown, "**{}**"), *texts])
    body = [f"| {' | '.join(line)} |" for line in lines]
    body[1] = f"|{'|'.join(lines[1])}|"
    notes = ["", " ".join(map(escape_markdown, table.notes))] if table.notes else []
    return "\n".join([escape_markdown(table.caption), "", *body, *notes]) + "\n"


# LaTeX: its engine sets the widths. Labels stay on one line where the table then fits the text,
# else they break. A table of many columns has smaller letters, then several parts.

# Column types, in the paper's colours (preamble.tex).
COLUMN_TYPES = {"perplexity": "P", "performance": "A", "fairness": "O", "dto": "D", "plain": "r"}
LATEX_ARROWS = {
    **{"up": r"$\uparrow$", "down": r"$\downarrow$"},
    **{"half": r"$\to$50", "zero": r"$\to$0", "": ""},
}
MANY, MOST = 5, 8  # columns from which letters are smaller, and of a part
WHOLE = 25  # lines of a table that no page may end in
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "/": r"/\allowbreak{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
}


@functools.cache
def latex_signs() -> set[str]:
    """Return the signs beyond ASCII that ``preamble.tex`` declares."""
    text = PREAMBLE.read_text(encoding="utf-8")
    return {chr(int(code, 16)) for code in re.findall(r"^\\DeclareUnicode\w+\{(\w+)", text, re.M)}


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints as it stands.

    A sign that is not ASCII, not in ``preamble.tex`` and no accented Latin-1 letter becomes ``?``:
    pdflatex with its standard fonts would stop at it.
    """

    def printed(sign: str) -> bool:
        letter = unicodedata.normalize("NFKD", sign)[0] if ord(sign) < 0x100 else sign
        accented = sign.isalpha() and (letter.isascii() or sign in "ßæøåÆØÅ")
        return (sign.isascii() and sign.isprintable()) or accented or sign in latex_signs()

    signs = " ".join(text.split())
    return "".join(_ESCAPES.get(sign, sign if printed(sign) else "?") for sign in signs)


def _lines(texts: Sequence[str], place: str = "b") -> str:
    text = r" \\{} ".join(texts)
    return rf"\makecell[{place}]{{{text}}}" if len(texts) > 1 else text


def _bold(text: str) -> str:
    return rf"\textbf{{{escape_latex(text)}}}" if text else ""


def _latex_cell(cell: Cell) -> str:
    """Return a cell; an error or interval stands below its value."""
    value, *rest = re.split(r" (?=[±\[])", cell.display)
    text = (_bold(value) if cell.bold else escape_latex(value)) + escape_latex(cell.marks)
    return _lines([text, *map(escape_latex, rest)], "t")


def _latex_head(column: Column) -> str:
    """Return a column's head, in lines as short as its words allow, with the arrow."""
    *above, last = map(_bold, textwrap.wrap(column.head, 7, break_long_words=False) or [""])
    return _lines([*above, f"{last} {LATEX_ARROWS[column.direction]}".strip()])


def _latex_line(row: Row, columns: Sequence[Column]) -> str:
    labels = _labels(row, escape_latex, r"\textbf{{{}}}")
    return " & ".join([*labels, *(_latex_cell(row.cell(one)) for one in columns)])


def to_latex(table: Table) -> str:
    """Return a table with caption and notes; it breaks across pages only where it is high.

    Needs the packages and column types of ``preamble.tex``. Running text has ``widths`` as shares.
    """
    shared, count = units(table.columns), math.ceil(len(table.columns) / MOST) or 1
    chunks = np.array_split(np.arange(len(shared)), min(count, len(shared)) or 1)
    parts = [[column for k in chunk for column in shared[k]] for chunk in chunks]
    rows = len(parts) * len(table.rows) * (2 if table.widths else 1)  # running text is higher
    shares = [len(table.widths) * one / sum(table.widths) for one in table.widths]
    values = {
        "table": table,
        "room": rows + 8 if rows < WHOLE else 10,
        "size": "small" if len(parts[0]) > MANY else "normal",
        "labels": "".join(f"Y{{{one:.3f}}}" for one in shares) or "L" * len(table.heads),
        "parts": [(part, units(part)) for part in parts],
        "types": COLUMN_TYPES,
    }
    filters: dict[str, Any] = {"tex": escape_latex, "bold": _bold, "head": _latex_head}
    return fill(LATEX, values, filters | {"line": _latex_line})


# HTML, whose cells name the command that explains them

LAST = 1e300  # what has no value comes last where the best is first


def point_of(row: Row) -> str:
    """Return the checkpoint that ``explain`` takes for a row's cells, "" where it knows none."""
    names = [row.identity.get(name, "") for name in POINT]
    return "/".join(names) if row.kind == "data" and all(names) else ""


def full_labels(rows: Sequence[Row]) -> Iterator[tuple[Row, list[str]]]:
    """Yield rows, and labels with what rows above say for them, so that one can stand anywhere.

    A blank label is that of the row above, where those before it are blank too; one that begins
    with "+" is said of the last first label without, where both are of one model; a heading stands
    before the first label.
    """
    above: list[str] = []
    heading = base = model = ""
    for row in rows:
        if row.kind == "heading":
            heading, above = " ".join(row.labels), []
            continue
        blank = next((k for k, label in enumerate(row.labels) if label), len(row.labels))
        above = [*above[:blank], *row.labels[min(blank, len(above)) :]]
        if row.labels and (first := row.labels[0]):
            if not first.startswith("+ "):
                base, model = first, row.identity.get("model", "")
            elif row.identity.get("model", "") == model:
                first = f"{base} {first}"
            above[0] = f"{heading}: {first}" if heading else first
        yield row, above


def _html_cell(slug: str, column: Column, row: Row) -> dict[str, Any]:
    cell, point, signed = row.cell(column), point_of(row), row.kind == "diff"
    source = printable(cell.source) if point and cell.value is not None else ""
    ideal = BEST_AT.get(column.direction)  # a cell sorts by how far it is from this
    order = -LAST if column.direction == "up" else LAST
    if cell.value is not None:
        order = cell.value if ideal is None else abs(cell.value - ideal)
    return {
        "cell": cell,
        "column": column,
        "signed": signed,
        "order": None if column.text else order,
        "source": source,
        # Copied into a shell: a category is a word of a data file, which is somebody else's.
        "command": f"evenprune explain {slug} --cell {shlex.quote(f'{point}/{source}')}",
        "interval": " to ".join(column.show(end, signed) for end in cell.interval(column) or ()),
    }


def to_html(table: Table) -> str:
    """Return the table as an HTML figure."""
    rows = [
        {
            "row": row,
            "labels": labels,
            "point": point_of(row),
            "cells": [_html_cell(table.slug, column, row) for column in table.columns],
        }
        for row, labels in full_labels(table.rows)
    ]
    values = {
        "table": table,
        "rows": rows,
        "units": units(table.columns),
        "shares": [round(100 * width / sum(table.widths)) for width in table.widths],
        "arrows": ARROWS,
    }
    return fill(HTML, values)


def to_page(figures: Sequence[str], title: str) -> str:
    """Return tables as a page of its own, which runs nothing."""
    style = STYLE.read_text(encoding="utf-8")
    return fill(PAGE, {"title": title, "figures": figures, "style": style})
