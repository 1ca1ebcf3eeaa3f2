"""A table as LaTeX: a longtable in the packages, colours and signs of ``preamble.tex``.

Whether it fits the width of the text is judged by the number of signs in a line. A wide table has
less space between its columns, then smaller letters, then labels in several lines, and at last
several parts, one under the other.
"""

import math
import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources

import numpy as np

from .render import GROUPS, Cell, Column, Table, units

# Part of this module's code, see codedigest.py.
DATA_FILES = ("preamble.tex",)
PREAMBLE = resources.files(__package__).joinpath("preamble.tex").read_text(encoding="utf-8")
SIGNS = {chr(int(code, 16)) for code in re.findall(r"^\\DeclareUnicode\w+\{(\w+)", PREAMBLE, re.M)}
LATEX_ARROWS = {
    "up": r"$\uparrow$",
    "down": r"$\downarrow$",
    "half": r"$\to$50",
    "zero": r"$\to$0",
    "": "",
}
LINE, PAGE = 466.0, 700.0  # points: width and height of the text, A4 with margins of 2.2 cm
SMALL = 7.0  # points, of letters in wide tables
SIGN, BOLD = 0.56, 1.16  # width of a sign, of the size of the letters, and times that in bold
# How a table is tried: size of letters, points on both sides of a column.
STEPS = ((8.0, 6.0), (8.0, 3.0), (8.0, 2.0), (SMALL, 2.0))
LEAST = 0.3 * LINE  # width that labels in several lines get at least
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


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints as it stands.

    A sign that is not ASCII, not in ``preamble.tex`` and no accented Latin-1 letter becomes ``?``:
    pdflatex with its standard fonts would stop at it.
    """
    out = []
    for sign in " ".join(text.split()):
        letter = unicodedata.normalize("NFKD", sign)[0] if ord(sign) < 0x100 else sign
        plain = sign.isascii() and sign.isprintable()
        accented = sign.isalpha() and (letter.isascii() or sign in "ßæøåÆØÅ")
        kept = plain or accented or sign in SIGNS
        out.append(_ESCAPES.get(sign, sign if kept else "?"))
    return "".join(out)


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return ""
    return cell.display + "†" * cell.dagger + "‡" * cell.in_calibration


def _latex_cell(cell: Cell | None) -> str:
    if cell is None or not cell.bold:
        return escape_latex(_shown(cell))
    marks = escape_latex(_shown(replace(cell, display="")))
    return rf"\textbf{{{escape_latex(cell.display)}}}{marks}"


def _bold(text: str) -> str:
    return rf"\textbf{{{escape_latex(text)}}}" if text else ""


def _head(table: Table, column: Column) -> list[str]:
    """Return the lines of a column's head: as wide as its values, and no word broken."""
    body = max((len(_shown(row.cells.get(column.key))) for row in table.rows), default=0)
    return textwrap.wrap(column.head, max(body, 4), break_long_words=False) or [""]


def _signs(table: Table, column: Column) -> float:
    """Return how many plain signs wide a column is."""
    arrow = {"": 0, "up": 2, "down": 2}.get(column.direction, 4)
    *heads, last = _head(table, column)
    cells = [cell for row in table.rows if (cell := row.cells.get(column.key))]
    texts = [len(_shown(cell)) * (BOLD if cell.bold else 1) for cell in cells]
    texts += [BOLD * len(head) for head in heads]
    group = [one for one in table.columns if column.span and one.span == column.span]
    share = BOLD * len(column.span) / len(group) if group else 0
    return max(share, BOLD * len(last) + arrow, *texts)


@dataclass(frozen=True)
class Layout:
    """How a table is set: letters, space beside columns, width of labels, columns of each part.

    ``labels``: points of a label column with several lines, None where it stays on one line.
    """

    size: float
    gap: float
    labels: tuple[float | None, ...]
    parts: tuple[tuple[Column, ...], ...]


def layout_of(table: Table) -> Layout:
    """Return how a table is set so that no line is wider than the text and no letter too small."""
    lines = [table.heads, *(row.labels for row in table.rows if row.kind != "heading")]
    bold = BOLD if any(row.strong for row in table.rows) else 1
    labels = [bold * max(len(line[k]) for line in lines) for k in range(len(table.heads))]
    signs = {column.key: _signs(table, column) for column in table.columns}

    def room(columns: Sequence[Column], size: float, gap: float) -> float:
        """Return the points that are left for the labels."""
        wide = SIGN * size * sum(signs[column.key] for column in columns)
        return LINE - wide - 2 * gap * (len(columns) + len(labels))

    if table.widths and room(table.columns, *STEPS[1]) >= LINE * sum(table.widths) - 20:
        return Layout(*STEPS[1], tuple(LINE * one for one in table.widths), (table.columns,))
    for size, gap in STEPS:
        if room(table.columns, size, gap) >= SIGN * size * sum(labels):
            return Layout(size, gap, (None,) * len(labels), (table.columns,))
    size, gap = STEPS[-1]
    words = sum(max(len(word) for line in lines for word in [*line[k].split(), ""])
                for k in range(len(labels)))  # fmt: skip
    natural = [SIGN * size * one for one in labels]
    least = min(sum(natural), max(LEAST, SIGN * size * words))
    shared = units(table.columns)
    for count in range(1, len(shared) + 1):
        chunks = np.array_split(np.arange(len(shared)), count)
        parts = tuple(tuple(one for k in chunk for one in shared[k]) for chunk in chunks)
        left = min(room(part, size, gap) for part in parts)
        if left >= least or count == len(shared):
            break
    return Layout(size, gap, _cut(natural, max(left, least)), parts)


def _cut(widths: Sequence[float], room: float) -> tuple[float | None, ...]:
    """Return widths that fit into ``room``: the widest are cut alike, the others stay (None)."""
    limit, left, ordered = math.inf, room, sorted(widths)
    for index, width in enumerate(ordered if sum(widths) > room else ()):
        limit = left / (len(ordered) - index)
        if width > limit:
            break
        left -= width
    return tuple(limit if width > limit else None for width in widths)


def _latex_heads(table: Table, columns: Sequence[Column]) -> list[str]:
    """Return the head lines: spans over their columns first, then every column's head."""
    lines, shared = [], units(columns)
    blanks = [""] * len(table.heads)
    if any(unit[0].span for unit in shared):
        kinds = ["c" if unit[0].group == "plain" else GROUPS[unit[0].group] for unit in shared]
        lines.append([
            *blanks,
            *(rf"\multicolumn{{{len(unit)}}}{{{kind}}}{{{_bold(unit[0].span)}}}"
              for unit, kind in zip(shared, kinds, strict=True)),
        ])  # fmt: skip
    heads = [_head(table, column) for column in columns]
    # A line of its own for each line of the heads: colours fill every row of the table.
    for left in reversed(range(max(map(len, heads), default=1))):
        lines.append(blanks if left else [_bold(head) for head in table.heads])
        for column, head in zip(columns, heads, strict=True):
            text = _bold(head[-1 - left]) if left < len(head) else ""
            arrow = "" if left or not column.direction else f" {LATEX_ARROWS[column.direction]}"
            lines[-1] = [*lines[-1], text + arrow]
    return [" & ".join(line) + r" \\" for line in lines]


def _latex_rows(table: Table, columns: Sequence[Column]) -> list[str]:
    width = len(table.heads) + len(columns)
    lines: list[str] = []
    for before, row in zip([None, *table.rows], table.rows, strict=False):
        if row.rule == "full":
            lines.append(r"\midrule")
        # No page ends between a heading and its rows: one could after the rule.
        elif row.rule == "dashed" and not (before and before.kind == "heading"):
            lines.append(rf"\cdashlinelr{{1-{width}}}")
        if row.kind == "heading":
            # Empty cells, not a \multicolumn, keep the colours of the columns; the text has no
            # width, so that it does not widen the labels' column.
            text = escape_latex(" ".join(row.labels))
            lines.append(rf"\leavevmode\rlap{{\textit{{{text}}}}}" + " &" * (width - 1) + r" \\*")
            continue
        labels = [escape_latex(label) for label in row.labels]
        if row.strong and labels[row.strong_at]:
            lead = "+ " if labels[row.strong_at].startswith("+ ") else ""
            labels[row.strong_at] = lead + _bold(row.labels[row.strong_at].removeprefix("+ "))
        cells = [_latex_cell(row.cells.get(column.key)) for column in columns]
        lines.append(" & ".join([*labels, *cells]) + r" \\")
    return lines


def height_of(table: Table, layout: Layout) -> float:
    """Return about how high a table is with caption and notes, in points."""
    letter = SIGN * layout.size
    rows = 4 + sum(
        max([1, *(math.ceil(letter * len(label) / width)
                  for label, width in zip(row.labels, layout.labels) if width)])
        for row in table.rows
    )  # fmt: skip
    words = math.ceil((len(table.caption) + sum(map(len, table.notes))) / 110)
    return len(layout.parts) * rows * 1.35 * layout.size + 11 * words + 24


def to_latex(table: Table) -> str:
    """Return a table with caption and notes; it breaks across pages only where it is high.

    Needs the packages and column types of ``preamble.tex``.
    """
    layout = layout_of(table)
    height = height_of(table, layout)
    hang = "" if table.widths else r"\hangindent=6pt"
    labels = [
        "l" if width is None else rf">{{\raggedright\arraybackslash{hang}}}p{{{width:.1f}pt}}"
        for width in layout.labels
    ]
    body = [
        "% Needs preamble.tex of evenprune.reporting.",
        rf"\begingroup\setlength{{\tabcolsep}}{{{layout.gap:g}pt}}",
        rf"\Needspace{{{height if height < 0.45 * PAGE else 110:.0f}pt}}",
        r"\tablesize" + ("small" if layout.size == SMALL else "normal"),
    ]
    caption = rf"\caption{{{escape_latex(table.caption)}}}\label{{tab:{table.slug}}}\\"
    for index, columns in enumerate(layout.parts):
        letters = "".join([*labels, *("l" if one.text else GROUPS[one.group] for one in columns)])
        heads = [r"\toprule", *_latex_heads(table, columns), r"\midrule"]
        # Each longtable counts as a table, but the parts are one.
        body += [r"\addtocounter{table}{-1}"] if index else []
        body += [rf"\begin{{longtable}}{{{letters}}}", *([] if index else [caption]), *heads]
        body += [r"\endfirsthead", *heads, r"\endhead", r"\bottomrule", r"\endfoot"]
        body += [*_latex_rows(table, columns), r"\end{longtable}"]
    if table.notes:
        notes = " ".join(map(escape_latex, table.notes))
        body.append(rf"\par\nopagebreak\smallskip\parbox{{\linewidth}}{{\footnotesize {notes}}}")
    return "\n".join([*body, r"\par\medskip", r"\endgroup"]) + "\n"
