"""A table as LaTeX, set so that it fits the width of a page without small letters.

``preamble.tex`` defines colours, column types and letters.
"""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .render import GROUPS, Cell, Column, Table, units

LATEX_ARROWS = {
    "up": r"$\uparrow$",
    "down": r"$\downarrow$",
    "half": r"$\to$50",
    "zero": r"$\to$0",
    "": "",
}
LINE = 466.0  # points: the width of the text, A4 with margins of 2.2 cm
PAGE = 700.0  # points: the height of the text
HALF = 0.45 * PAGE  # height above which a table may break across pages
SIZE, SMALL = 8.0, 7.0  # points, of letters in tables; the smaller one where a table is wide
NARROW, WIDE = "iljtfrI.,:;'’!|()[] ", "mwMW%@—+−±→↑↓✓"  # a third, and a whole of SIZE
ARROW_WIDTHS = {"up": 0.9, "down": 0.9, "half": 2.5, "zero": 2.0, "": 0.0}  # with a blank
# How a table is tried, one after the other: size of letters, points on both sides of a column,
# whether labels take several lines.
STEPS = (
    (SIZE, 6.0, False), (SIZE, 3.0, False), (SIZE, 2.0, False), (SMALL, 2.0, False),
    (SIZE, 2.0, True), (SMALL, 2.0, True),
)  # fmt: skip
LEAST = 0.3 * LINE  # width that label columns get at least before a table is split into panels

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "/": r"/\allowbreak{}",
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
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "ε": r"$\varepsilon$",
    "σ": r"$\sigma$",
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


def text_width(text: str, size: float = SIZE, bold: bool = False) -> float:
    """Return about how wide a text is in LaTeX's standard letters, in points, rather too much."""
    wide = sum(
        0.37 if sign in NARROW else 0.95 if sign in WIDE else 0.74 if sign.isupper() else 0.53
        for sign in text
    )
    return wide * size * (1.16 if bold else 1.0)


def _marks(cell: Cell) -> str:
    return ("†" if cell.dagger else "") + ("‡" if cell.in_calibration else "")


def _latex_cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    text = escape_latex(cell.display)
    if cell.bold:
        text = rf"\textbf{{{text}}}"
    return text + escape_latex(_marks(cell))


def _body_width(table: Table, column: Column, size: float) -> float:
    cells = (row.cells.get(column.key) for row in table.rows)
    shown = (text_width(one.display + _marks(one), size, one.bold) for one in cells if one)
    return max(shown, default=0.0)


def _words(head: str) -> list[str]:
    """Return the parts of a head that stay together: words, and their parts up to a hyphen."""
    return re.findall(r"[^\s-]+-?|-+", head) or [""]


def _stacked(head: str, room: float, size: float) -> list[str]:
    """Return the lines of a head for a column of a given width."""
    lines: list[str] = []
    for word in _words(head):
        gap = "" if lines and lines[-1].endswith("-") else " "
        if lines and text_width(lines[-1] + gap + word, size, bold=True) <= room:
            lines[-1] += gap + word
        else:
            lines.append(word)
    return lines or [""]


@dataclass(frozen=True)
class Layout:
    """How a table is set: letters, space beside columns, widths of labels, columns of each panel.

    ``labels``: width of a label column whose text may take several lines, None where it stays on
    one. ``heads``: the lines of the head of each value column, ``width`` of the widest panel.
    """

    size: float
    separation: float
    labels: tuple[float | None, ...]
    panels: tuple[tuple[Column, ...], ...]
    heads: Mapping[str, list[str]]


def _label_widths(table: Table, size: float) -> list[float]:
    found = [text_width(head, size, bold=True) for head in table.heads]
    for row in table.rows:
        if row.kind != "heading":
            for index, label in enumerate(row.labels):
                strong = row.strong and index == row.strong_at
                found[index] = max(found[index], text_width(label, size, strong))
    return found


def _longest_words(table: Table, size: float) -> float:
    """Return about the room that label columns need with a line for each word."""
    found = [0.0] * len(table.heads)
    texts = [table.heads, *(row.labels for row in table.rows if row.kind != "heading")]
    for labels in texts:
        for index, label in enumerate(labels):
            words = (text_width(word, size, bold=True) for word in label.split())
            found[index] = max(found[index], max(words, default=0.0))
    return sum(found)


def _shrunk(widths: Sequence[float], room: float) -> tuple[float | None, ...]:
    """Return widths that fit into ``room``: the widest are cut alike, the others stay (None)."""
    if sum(widths) <= room:
        return (None,) * len(widths)
    limit, left, open_ = room, room, sorted(widths)
    for index, width in enumerate(open_):
        limit = left / (len(open_) - index)
        if width > limit:
            break
        left -= width
    return tuple(limit if width > limit else None for width in widths)


def _chunks(units: Sequence[list[Column]], widths: Mapping[str, float], room: float,
            separation: float) -> list[list[Column]]:  # fmt: skip
    """Return the columns in as few panels as fit, spans together, about equally many in each."""

    def total(columns: Sequence[Column]) -> float:
        return sum(widths[one.key] + 2 * separation for one in columns)

    count = 1
    while True:
        goal = sum(total(unit) for unit in units) / count
        found: list[list[Column]] = [[]]
        for unit in units:
            if found[-1] and (
                total([*found[-1], *unit]) > room
                or (len(found) < count and total(found[-1]) + total(unit) / 2 > goal)
            ):
                found.append([])
            found[-1] += unit
        if len(found) <= count or count >= len(units):
            return found
        count += 1


def _room_of_labels(table: Table) -> float:
    """Return the room beside value columns whose heads stay on one line."""
    heads = [
        text_width(one.head, SIZE, bold=True) + ARROW_WIDTHS[one.direction] * SIZE
        for one in table.columns
    ]
    bodies = [_body_width(table, one, SIZE) for one in table.columns]
    return LINE - sum(map(max, heads, bodies)) - 6.0 * len((*table.heads, *table.columns))


def layout_of(table: Table) -> Layout:
    """Return how a table is set so that no line is wider than the text and no letter too small.

    Wide ones have less space between columns, then smaller letters, labels in several lines, and at
    last several panels, one beneath the other.
    """
    if table.widths and _room_of_labels(table) >= LINE * sum(table.widths):
        return Layout(SIZE, 3.0, tuple(LINE * width for width in table.widths), (table.columns,),
                      {one.key: [one.head] for one in table.columns})  # fmt: skip
    for step, (size, separation, several) in enumerate(STEPS):
        natural = _label_widths(table, size)
        heads, widths = {}, {}
        for column in table.columns:
            body = _body_width(table, column, size)
            arrow = ARROW_WIDTHS[column.direction] * size
            least = max(text_width(word, size, bold=True) for word in _words(column.head)) + arrow
            whole = text_width(column.head, size, bold=True) + arrow
            room = whole if step == 0 else max(body, least)
            heads[column.key] = _stacked(column.head, room - arrow, size)
            widths[column.key] = max(
                body, *(text_width(one, size, bold=True) + arrow for one in heads[column.key])
            )
        for unit in units(table.columns):
            # A head over several columns may be wider than these.
            over = text_width(unit[0].span, size, bold=True)
            mine = sum(widths[one.key] + 2 * separation for one in unit)
            if unit[0].span and over > mine:
                for one in unit:
                    widths[one.key] += (over - mine) / len(unit)
        values = sum(widths.values()) + 2 * separation * len(widths)
        room = LINE - values - 2 * separation * len(natural)
        if sum(natural) <= room or (several and room >= max(LEAST, _longest_words(table, size))):
            return Layout(size, separation, _shrunk(natural, room), (table.columns,), heads)
    least = min(sum(natural), 0.45 * LINE)
    room = LINE - least - 2 * separation * len(natural)
    panels = _chunks(units(table.columns), widths, room, separation)
    return Layout(size, separation, _shrunk(natural, least), tuple(map(tuple, panels)), heads)


def _latex_heads(table: Table, columns: Sequence[Column], layout: Layout) -> list[str]:
    """Return the head lines: spans over their columns first, then every column's head."""
    blanks = ["" for _ in table.heads]
    lines = []
    shared = units(columns)
    if any(unit[0].span for unit in shared):
        cells = []
        for unit in shared:
            group = unit[0].group
            kind = "c" if group == "plain" else GROUPS[group]
            bold = rf"\textbf{{{escape_latex(unit[0].span)}}}"
            cells.append(rf"\multicolumn{{{len(unit)}}}{{{kind}}}{{{bold}}}")
        lines.append(" & ".join([*blanks, *cells]) + r" \\")
    # A line of its own for each line of the heads: colours fill every row of the table.
    depth = max((len(layout.heads[one.key]) for one in columns), default=1)
    for level in range(depth):
        cells = list(blanks)
        if level == depth - 1:
            cells = [rf"\textbf{{{escape_latex(head)}}}" for head in table.heads]
        for column in columns:
            words = layout.heads[column.key]
            place = level - (depth - len(words))
            text = rf"\textbf{{{escape_latex(words[place])}}}" if place >= 0 else ""
            if level == depth - 1 and column.direction:
                text += f" {LATEX_ARROWS[column.direction]}"
            cells.append(text)
        lines.append(" & ".join(cells) + r" \\")
    return lines


def _latex_rows(table: Table, columns: Sequence[Column]) -> list[str]:
    width = len(table.heads) + len(columns)
    lines: list[str] = []
    for before, row in zip([None, *table.rows], table.rows, strict=False):
        if row.rule == "full":
            lines.append(r"\midrule")
        # No page ends between a heading and its rows: one could behind the rule.
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
            label = labels[row.strong_at]
            lead = "+ " if label.startswith("+ ") else ""
            labels[row.strong_at] = rf"{lead}\textbf{{{label.removeprefix('+ ')}}}"
        cells = [_latex_cell(row.cells.get(column.key)) for column in columns]
        lines.append(" & ".join([*labels, *cells]) + r" \\")
    return lines


def _lines_of(text: str, room: float, size: float) -> int:
    return max(1, math.ceil(text_width(text, size) / room)) if text else 0


def height_of(table: Table, layout: Layout) -> float:
    """Return about how high a table is with caption and notes, in points."""
    rows = 0
    for row in table.rows:
        lines = [
            _lines_of(label, width, layout.size) if width else 1
            for label, width in zip(row.labels, layout.labels)
        ]
        rows += max(lines, default=1)
    heads = max((len(one) for one in layout.heads.values()), default=1) + 1
    height = len(layout.panels) * (rows + heads + 1) * 1.35 * layout.size
    height += 12 * _lines_of(table.caption, LINE, 9.0)
    return height + 10 * _lines_of(" ".join(table.notes), LINE, SIZE) + 24


def to_latex(table: Table) -> str:
    """Return a table with caption and notes, in one piece; a high one may break across pages.

    Needs the packages and column types of ``preamble.tex``.
    """
    layout = layout_of(table)
    hang = "" if table.widths else r"\hangindent=6pt"
    high = height_of(table, layout) > HALF
    labels = [
        "l" if width is None else rf">{{\raggedright\arraybackslash{hang}}}p{{{width:.1f}pt}}"
        for width in layout.labels
    ]
    caption = rf"\caption{{{escape_latex(table.caption)}}}\label{{tab:{table.slug}}}"
    notes = " ".join(escape_latex(note) for note in table.notes)
    foot = [rf"\par\nopagebreak\smallskip\parbox{{\linewidth}}{{\footnotesize {notes}}}"] * bool(
        notes
    )
    body = [r"\begingroup", rf"\setlength{{\tabcolsep}}{{{layout.separation:g}pt}}"]
    body += [r"\Needspace{9\baselineskip}"] if high else [r"\begin{table}\centering", caption]
    # Behind \begin{table}, which sets the usual letters again.
    body.append(r"\tablesize" + ("small" if layout.size == SMALL else "normal"))
    for index, columns in enumerate(layout.panels):
        letters = "".join([*labels, *("l" if one.text else GROUPS[one.group] for one in columns)])
        heads = [r"\toprule", *_latex_heads(table, columns, layout), r"\midrule"]
        rows = _latex_rows(table, columns)
        if high:
            # Each longtable counts as a table, but the panels are one.
            first = [caption + r"\\"] if index == 0 else []
            body += [r"\addtocounter{table}{-1}"] if index else []
            body += [
                rf"\begin{{longtable}}{{{letters}}}", *first, *heads, r"\endfirsthead", *heads,
                r"\endhead", r"\bottomrule", r"\endfoot", *rows, r"\end{longtable}",
            ]  # fmt: skip
        else:
            gap = [r"\par\smallskip"] if index else []
            body += [*gap, rf"\begin{{tabular}}{{{letters}}}", *heads, *rows, r"\bottomrule",
                     r"\end{tabular}"]  # fmt: skip
    body += [*foot, r"\par\medskip"] if high else [*foot, r"\end{table}"]
    return "\n".join(["% Needs preamble.tex of evenprune.reporting.", *body, r"\endgroup"]) + "\n"
