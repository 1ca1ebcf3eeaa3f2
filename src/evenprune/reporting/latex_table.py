"""A table as LaTeX, in the packages, colours and signs of ``preamble.tex``.

LaTeX sets the widths: labels stay on one line where the table then fits the text, else they break.
A table of many columns has smaller letters, then several parts, one under the other.
"""

import math
import re
import textwrap
import unicodedata
from collections.abc import Sequence
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
MANY, MOST = 5, 8  # columns from which letters are smaller, and of a part
NEEDS = "% Needs preamble.tex of evenprune.reporting."
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


def _cell(cell: Cell | None) -> str:
    """Return a cell; an error or interval stands below its value."""
    if cell is None:
        return ""
    value, *rest = re.split(r" (?=[±\[])", cell.display)
    marks = escape_latex("†" * cell.dagger + "‡" * cell.in_calibration)
    text = (_bold(value) if cell.bold else escape_latex(value)) + marks
    return _lines([text, *map(escape_latex, rest)], "t")


def _lines(texts: Sequence[str], place: str = "b") -> str:
    text = r" \\{} ".join(texts)
    return rf"\makecell[{place}]{{{text}}}" if len(texts) > 1 else text


def _bold(text: str) -> str:
    return rf"\textbf{{{escape_latex(text)}}}" if text else ""


def _head(column: Column) -> str:
    """Return a column's head, in lines as short as its words allow, with the arrow."""
    words = textwrap.wrap(column.head, 7, break_long_words=False) or [""]
    lines = [_bold(word) for word in words]
    return _lines([*lines[:-1], f"{lines[-1]} {LATEX_ARROWS[column.direction]}".strip()])


def _heads(table: Table, columns: Sequence[Column]) -> list[str]:
    """Return the head lines: spans over their columns first, then every column's head."""
    lines, shared = [], units(columns)
    if any(unit[0].span for unit in shared):
        spans = [
            rf"\multicolumn{{{len(unit)}}}{{{GROUPS[unit[0].group].replace('r', 'c')}}}"
            rf"{{{_bold(unit[0].span)}}}"
            for unit in shared
        ]
        lines.append([*("" for _ in table.heads), *spans])
    lines.append([*map(_bold, table.heads), *map(_head, columns)])
    return [" & ".join(line) + r" \\" for line in lines]


def _rows(table: Table, columns: Sequence[Column]) -> list[str]:
    width = len(table.heads) + len(columns)
    lines: list[str] = []
    for before, row in zip([None, *table.rows], table.rows, strict=False):
        if row.rule == "full":
            lines.append(r"\midrule")
        # No page ends between a heading and its rows: one could after the rule.
        elif row.rule == "dashed" and not (before and before.kind == "heading"):
            lines.append(rf"\cdashlinelr{{1-{width}}}")
        if row.kind == "heading":
            # Over all columns, whose colours would hide its end; without a width of its own, so
            # that it widens none.
            text = rf"\leavevmode\rlap{{\textit{{{escape_latex(' '.join(row.labels))}}}}}"
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{{text}}} \\*")
            continue
        labels = [escape_latex(label) for label in row.labels]
        if row.strong and labels[row.strong_at]:
            lead = "+ " if labels[row.strong_at].startswith("+ ") else ""
            labels[row.strong_at] = lead + _bold(row.labels[row.strong_at].removeprefix("+ "))
        cells = [_cell(row.cells.get(column.key)) for column in columns]
        lines.append(" & ".join([*labels, *cells]) + r" \\")
    return lines


def _labels(table: Table) -> str:
    """Return the columns of labels; those of running text have ``widths`` as shares."""
    shares = [len(table.widths) * one / sum(table.widths) for one in table.widths]
    return "".join(f"Y{{{one:.3f}}}" for one in shares) or "L" * len(table.heads)


def _algorithm(table: Table) -> str:
    """Return numbered steps as a float of their own kind, as papers print an algorithm."""
    steps = [
        rf"\item {_bold(name) if row.strong else escape_latex(name)}: {escape_latex(what)}"
        for row in table.rows
        for _, name, what in [row.labels]
    ]
    head = rf"\begin{{algorithm}}[H]\caption{{{escape_latex(table.caption)}}}"
    label = rf"\label{{alg:{table.slug}}}\small\begin{{enumerate}}\itemsep0pt"
    return "\n".join([NEEDS, head, label, *steps, r"\end{enumerate}\end{algorithm}"]) + "\n"


def to_latex(table: Table) -> str:
    """Return a table with caption and notes; it breaks across pages only where it is high.

    Needs the packages and column types of ``preamble.tex``.
    """
    if table.slug == "algorithm":
        return _algorithm(table)
    shared, count = units(table.columns), math.ceil(len(table.columns) / MOST) or 1
    parts = [
        [column for k in chunk for column in shared[k]]
        for chunk in np.array_split(np.arange(len(shared)), min(count, len(shared)) or 1)
    ]
    rows = len(parts) * len(table.rows) * (2 if table.widths else 1)  # running text is higher
    body = [
        NEEDS,
        rf"\Needspace{{{rows + 8 if rows < WHOLE else 10}\baselineskip}}",
        r"\begingroup\tablesize" + ("small" if len(parts[0]) > MANY else "normal"),
    ]
    caption = rf"\caption{{{escape_latex(table.caption)}}}\label{{tab:{table.slug}}}\\"
    for index, columns in enumerate(parts):
        letters = "".join("l" if one.text else GROUPS[one.group] for one in columns)
        heads = [r"\toprule", *_heads(table, columns), r"\midrule"]
        # Each longtable counts as a table, but the parts are one.
        body += [r"\addtocounter{table}{-1}"] if index else []
        body += [rf"\begin{{tabularx}}{{\linewidth}}{{{_labels(table)}{letters}}}"]
        body += [*([] if index else [caption]), *heads, r"\endfirsthead"]
        body += [*heads, r"\endhead", r"\bottomrule", r"\endfoot"]
        body += [*_rows(table, columns), r"\end{tabularx}"]
    if table.notes:
        notes = " ".join(map(escape_latex, table.notes))
        body.append(rf"\par\nopagebreak\smallskip\parbox{{\linewidth}}{{\footnotesize {notes}}}")
    return "\n".join([*body, r"\par\medskip", r"\endgroup"]) + "\n"
