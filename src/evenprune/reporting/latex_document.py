"""The document of a run as LaTeX, typeset by latexmk.

latexmk runs without shell escape and without user settings. The PDF has no dates or random ids:
equal tables and figures give equal bytes.
"""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from ..base.errors import UserError
from .document import SUBTITLE, Document, Piece
from .latex_table import PREAMBLE, escape_latex

SECONDS = 300  # a document that takes longer hangs


def _paragraphs(lines: Iterable[tuple[str, str]]) -> list[str]:
    """Return (head, text) as paragraphs with the head in bold."""
    return [rf"\textbf{{{escape_latex(head)}.}} {escape_latex(text)}\par" for head, text in lines]


def _piece(piece: Piece) -> list[str]:
    if piece.kind == "table":
        return [rf"\input{{tables/{piece.slug}.tex}}"]
    return [
        r"\begin{figure}[H]\centering",
        r"\includegraphics[max width=\linewidth,max height=0.86\textheight]"
        rf"{{figures/{piece.slug}.pdf}}",
        rf"\caption{{{escape_latex(piece.caption)}}}\label{{fig:{piece.slug}}}",
        r"\end{figure}",
    ]


def latex_text(content: Document) -> str:
    """Return the LaTeX that inputs ``tables/SLUG.tex`` and ``figures/SLUG.pdf``."""
    parts = [
        r"\documentclass[a4paper,10pt]{article}",
        PREAMBLE,
        r"\begin{document}",
        rf"\begin{{center}}{{\Large\bfseries {escape_latex(content.title)}}}\\[2pt]",
        rf"{escape_latex(SUBTITLE)}\end{{center}}",
        r"\begingroup\small\hrule\smallskip",
        *_paragraphs(content.bottom),
        r"\smallskip\hrule\endgroup",
        r"\subsection*{What was run}",
        r"\begingroup\tablesizenormal",
        *_paragraphs(content.facts),
        r"\endgroup",
    ]
    for piece in content.pieces:
        parts += _piece(piece)
    if content.again:
        parts += [r"\Needspace{15\baselineskip}\subsection*{How to rerun one cell}"]
        parts.append(r"\begingroup\small")
        for sentence, command in content.again:
            parts.append(rf"{escape_latex(sentence)}\\ \texttt{{{escape_latex(command)}}}\par")
        parts.append(r"\endgroup")
    return "\n".join([*parts, r"\end{document}"]) + "\n"


def first_error(log: str) -> str:
    """Return LaTeX's first error from a log: the line with ``!`` and the line number after it."""
    lines = log.splitlines()
    for index, line in enumerate(lines):
        if line.startswith("!"):
            place = next((x for x in lines[index + 1 : index + 12] if x.startswith("l.")), "")
            return " ".join(f"{line} {place}".split())
    return lines[-1] if lines else "no log was written"


def typeset(folder: Path) -> bytes:
    """Run latexmk on ``paper.tex`` in ``folder`` and return the PDF.

    Raises UserError with LaTeX's first error, and when LaTeX takes longer than ``SECONDS``.
    """
    environment = os.environ | {
        "SOURCE_DATE_EPOCH": "0",
        "FORCE_SOURCE_DATE": "1",
        "TZ": "UTC",
        "openin_any": "p",
        "openout_any": "p",
        "max_print_line": "1000",
    }
    command = [
        "latexmk", "-norc", "-pdf", "-interaction=nonstopmode", "-halt-on-error",
        "-no-shell-escape", "paper.tex",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"LaTeX did not finish the paper within {SECONDS} s; look at the tables' .tex files"
        ) from None
    pdf = folder / "paper.pdf"
    if done.returncode or not pdf.is_file():
        log = folder / "paper.log"
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        reason = first_error(text or done.stderr.decode(errors="replace"))
        raise UserError(f"LaTeX could not typeset the paper: {reason}")
    return pdf.read_bytes()
