"""A table as data, and its three forms: LaTeX, CSV and Markdown.

All decisions (what is bold, what carries a dagger, how many digits) are made before; the
LaTeX holds no logic. Colours and column types are those of the paper; ``preamble.tex``
defines them.
"""

import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..plan.tasks import Direction

# Column groups: LaTeX column type and colour as in the paper, both defined in preamble.tex.
GROUPS = {
    "perplexity": "P",
    "performance": "A",
    "fairness": "O",
    "dto": "D",
    "plain": "r",
}
ARROWS = {"up": "↑", "down": "↓", "half": "→50", "zero": "→0", "": ""}
LATEX_ARROWS = {
    "up": r"$\uparrow$",
    "down": r"$\downarrow$",
    "half": r"$\to$50",
    "zero": r"$\to$0",
    "": "",
}
CROWDED = 8  # columns above which they stand closer
LONG = 45  # rows above which a table may break across pages

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "“": "``",
    "”": "''",
    "‘": "`",
    "’": "'",
    "−": r"$-$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$",
    "→": r"$\to$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "₂": r"$_2$",
    "≥": r"$\ge$",
    "≤": r"$\le$",
    "Δ": r"$\Delta$",
    "λ": r"$\lambda$",
    "κ": r"$\kappa$",
    "²": r"$^2$",
    "³": r"$^3$",
    "‖": r"$\Vert$",
    "⁻": r"$^-$",
    "¹": r"$^1$",
    "ᵀ": r"$^{\top}$",
    "₀": r"$_0$",
    "₁": r"$_1$",
    "ᵢ": r"$_i$",
    "ⱼ": r"$_j$",
    "✓": r"$\checkmark$",
    "·": r"$\cdot$",
}


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints as it stands.

    A sign that is not ASCII, has no form here and is no accented Latin-1 letter becomes
    ``?``: pdflatex with its standard fonts would stop at it.
    """
    out = []
    for sign in " ".join(text.split()):
        ascii_letter = unicodedata.normalize("NFKD", sign)[0] if ord(sign) < 0x100 else sign
        plain = sign.isascii() and sign.isprintable()
        accented = sign.isalpha() and (ascii_letter.isascii() or sign in "ßæøåÆØÅ")
        out.append(_ESCAPES.get(sign, sign if plain or accented else "?"))
    return "".join(out)


ColumnGroup = Literal["perplexity", "performance", "fairness", "dto", "plain"]
Rule = Literal["", "dashed", "full"]


@dataclass(frozen=True)
class Column:
    """One value column.

    ``key`` names it in the CSV, ``span`` is a head shared with the neighbours of the same
    span. Values are multiplied by ``scale`` and shown with ``digits`` decimals. ``direction``
    says which values are good: up, down, half (near one half), zero or "" (not ranked). A column
    of ``text`` shows words, in the CSV too.
    """

    key: str
    head: str
    group: ColumnGroup = "plain"
    direction: Direction = ""
    scale: float = 1.0
    digits: int = 2
    span: str = ""
    text: bool = False

    def decimals(self, value: float) -> int:
        """Return ``digits``, or more where fewer than two significant digits would be left."""
        shown = abs(value * self.scale)
        if self.digits < 3 or not 0 < shown < 10.0 ** (1 - self.digits):
            return self.digits
        return 1 - math.floor(math.log10(shown))

    def show(self, value: float | None, signed: bool = False) -> str:
        """Return a value as shown in this column; an en dash for no value.

        A difference (``signed``) has ``digits`` decimals, however small it is.
        """
        if value is None:
            return "–"
        digits = self.digits if signed else self.decimals(value)
        text = f"{value * self.scale:{'+' if signed else ''}.{digits}f}"
        return text.replace("-", "−") if signed or text.startswith("-") else text

    def plain(self, value: float | None) -> str:
        """Return a value as in the CSV: the same digits, an ASCII sign, empty for none."""
        return "" if value is None else f"{value * self.scale:.{self.decimals(value)}f}"


@dataclass(frozen=True)
class Cell:
    """One value: raw, as shown, the paper's (same scale as ``value``), and its marks.

    ``error`` is the standard error of ``value``, None where it is not known; ``ends`` those of its
    95 % interval where that is not the normal one.
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


@dataclass(frozen=True)
class TableRow:
    """One line: the label cells, the value cells by column key, the identity for the CSV.

    ``kind``: data, diff (a difference of two data rows), heading (a line of its own across
    the table). ``rule`` is drawn above: none, dashed or full. ``strong``: the label at
    ``strong_at`` in bold. ``form`` is how the row's values are shown where rows are quantities.
    """

    labels: tuple[str, ...]
    cells: Mapping[str, Cell] = field(default_factory=dict)
    identity: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["data", "diff", "heading"] = "data"
    rule: Rule = ""
    strong: bool = False
    strong_at: int = 0
    form: Column | None = None


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


# Ours beside the paper's

Z95 = 1.959964  # half width of a 95 % normal interval in standard errors
BESIDE = ("diff", "low", "high", "covered")


def difference(cell: Cell) -> float | None:
    """Return ours minus the paper's, None where one is missing."""
    if cell.value is None or cell.printed is None:
        return None
    return cell.value - cell.printed


def interval(cell: Cell) -> tuple[float, float] | None:
    """Return the 95 % interval of our value: its own, or the normal one of its standard error.

    None without either.
    """
    if cell.ends is not None:
        return cell.ends
    if cell.value is None or cell.error is None:
        return None
    return cell.value - Z95 * cell.error, cell.value + Z95 * cell.error


def covered(column: Column, cell: Cell) -> bool | None:
    """Return whether our interval covers the printed value, None where either is missing.

    The printed value stands for all that are rounded to it.
    """
    ends = interval(cell)
    if ends is None or cell.printed is None:
        return None
    half = 0.5 * 10.0**-column.digits / column.scale
    return ends[0] <= cell.printed + half and cell.printed - half <= ends[1]


# LaTeX


def _latex_cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    text = escape_latex(cell.display)
    if cell.bold:
        text = rf"\textbf{{{text}}}"
    text += r"$^{\dagger}$" if cell.dagger else ""
    return text + (r"$^{\ddagger}$" if cell.in_calibration else "")


def _latex_heads(table: Table) -> list[str]:
    """Return the head lines: spans over their columns first, then every column's head."""
    blanks = ["" for _ in table.heads]
    lines = []
    spans: list[list] = []  # [text, width, group, direction]
    for column in table.columns:
        if spans and column.span and spans[-1][0] == column.span:
            spans[-1][1] += 1
        else:
            spans.append([column.span, 1, column.group])
    if any(text for text, *_ in spans):
        cells = []
        for text, width, group in spans:
            kind = "c" if group == "plain" else GROUPS[group]
            bold = rf"\textbf{{{escape_latex(text)}}}"
            cells.append(rf"\multicolumn{{{width}}}{{{kind}}}{{{bold}}}")
        lines.append(" & ".join([*blanks, *cells]) + r" \\")
    heads = [rf"\textbf{{{escape_latex(head)}}}" for head in table.heads]
    heads += [
        rf"\textbf{{{escape_latex(column.head)}}}"
        + (f" {LATEX_ARROWS[column.direction]}" if column.direction else "")
        for column in table.columns
    ]
    return [*lines, " & ".join(heads) + r" \\"]


def _latex_rows(table: Table) -> list[str]:
    width = len(table.heads) + len(table.columns)
    lines = []
    for row in table.rows:
        if row.rule == "full":
            lines.append(r"\midrule")
        elif row.rule == "dashed":
            lines.append(rf"\cdashlinelr{{1-{width}}}")
        if row.kind == "heading":
            # Empty cells, not a \multicolumn, keep the colours of the columns.
            text = escape_latex(" ".join(row.labels))
            lines.append(rf"\textit{{{text}}}" + " &" * (width - 1) + r" \\")
            continue
        labels = [escape_latex(label) for label in row.labels]
        if row.strong and labels[row.strong_at]:
            label = labels[row.strong_at]
            lead = "+ " if label.startswith("+ ") else ""
            labels[row.strong_at] = rf"{lead}\textbf{{{label.removeprefix('+ ')}}}"
        cells = [_latex_cell(row.cells.get(column.key)) for column in table.columns]
        lines.append(" & ".join([*labels, *cells]) + r" \\")
    return lines


def to_latex(table: Table) -> str:
    """Return a float with the table; a longtable where it has more than ``LONG`` rows or text.

    Needs the packages and column types of ``preamble.tex``.
    """
    text = "".join(
        rf">{{\raggedright\arraybackslash}}p{{{width:g}\linewidth}}" for width in table.widths
    )
    layout = text or "l" * len(table.heads)
    layout += "".join("l" if one.text else GROUPS[one.group] for one in table.columns)
    caption = rf"\caption{{{escape_latex(table.caption)}}}\label{{tab:{table.slug}}}"
    notes = " ".join(escape_latex(note) for note in table.notes)
    foot = [rf"\par\smallskip\parbox{{\linewidth}}{{\footnotesize {notes}}}"] if notes else []
    heads, rows = _latex_heads(table), _latex_rows(table)
    if len(table.rows) > LONG or table.widths:
        body = [
            r"\begingroup\footnotesize\setlength{\tabcolsep}{3pt}",
            rf"\begin{{longtable}}{{{layout}}}",
            caption + r"\\",
            r"\toprule",
            *heads,
            r"\midrule",
            r"\endfirsthead",
            r"\toprule",
            *heads,
            r"\midrule",
            r"\endhead",
            r"\bottomrule",
            r"\endfoot",
            *rows,
            r"\end{longtable}",
            *foot,
            r"\endgroup",
        ]
    else:
        body = [
            r"\begin{table}",
            r"\centering\footnotesize",
            *([r"\setlength{\tabcolsep}{3pt}"] if len(layout) > CROWDED else []),
            caption,
            r"\begin{adjustbox}{max width=\linewidth}",
            rf"\begin{{tabular}}{{{layout}}}",
            r"\toprule",
            *heads,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{adjustbox}",
            *foot,
            r"\end{table}",
        ]
    return "\n".join(["% Needs preamble.tex of evenprune.reporting.", *body]) + "\n"


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
    identity = list(dict.fromkeys(name for row in data for name in row.identity))
    seeds = any(cell.sd is not None for row in data for cell in row.cells.values())
    tested = any(cell.dagger for row in data for cell in row.cells.values())
    known = any(cell.in_calibration for row in data for cell in row.cells.values())
    beside = any(cell.printed is not None for row in data for cell in row.cells.values())
    own = {key for row in data for key, cell in row.cells.items() if cell.ends is not None}
    header = list(identity)
    for column in table.columns:
        if column.text:
            header.append(column.key)
            continue
        header += [column.key, f"{column.key}_printed"]
        names = BESIDE if beside else ("low", "high") if column.key in own else ()
        header += [f"{column.key}_{name}" for name in names]
        header += [f"{column.key}_sd"] if seeds else []
        header += [f"{column.key}_dagger"] if tested else []
        header += [f"{column.key}_in_calibration"] if known else []
    lines = []
    for row in data:
        line = dict.fromkeys(header, "") | dict(row.identity)
        for column in table.columns:
            cell = row.cells.get(column.key)
            if cell is None:
                continue
            form = row.form or column
            if column.text:
                line[column.key] = cell.display
                continue
            line[column.key] = form.plain(cell.value)
            line[f"{column.key}_printed"] = form.plain(cell.printed)
            if beside or column.key in own:
                for name, value in zip(("low", "high"), interval(cell) or (None, None)):
                    line[f"{column.key}_{name}"] = form.plain(value)
            if beside:
                line[f"{column.key}_diff"] = form.plain(difference(cell))
                inside = covered(form, cell)
                line[f"{column.key}_covered"] = "" if inside is None else str(int(inside))
            if seeds:
                line[f"{column.key}_sd"] = form.plain(cell.sd)
            if tested:
                line[f"{column.key}_dagger"] = "1" if cell.dagger else ""
            if known:
                line[f"{column.key}_in_calibration"] = "1" if cell.in_calibration else ""
        lines.append(line)
    return header, lines


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
