"""All tables and figures of a run as one PDF, by LaTeX. Equal ones give equal bytes.

latexmk runs without shell escape and without user settings. The PDF has no dates or random ids.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..analysis.results import read_run
from ..config.run_sheet import read_run_sheet
from ..io.errors import UserError
from ..io.files import atomic_path
from ..io.outputs import check_file
from ..io.pages import fill
from ..io.pdf_programs import PACKAGES, latex_available
from .document import SUBTITLE, Document, document
from .forms import PREAMBLE, escape_latex
from .make_tables import add_places

DATA_FILES = ("paper.tex.j2",)  # part of this module's code, see codedigest.py
TEMPLATE = Path(__file__).with_name(DATA_FILES[0])
ENVIRONMENT = {
    **{"SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1", "TZ": "UTC"},
    **{"openin_any": "p", "openout_any": "p", "max_print_line": "1000"},
}
SECONDS = 300  # a document that takes longer hangs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``make-paper``."""
    add_places(parser.add_argument)
    parser.add_argument("--out", type=Path, required=True, help="the PDF")


def latex_text(content: Document) -> str:
    """Return the LaTeX that inputs ``tables/SLUG.tex`` and ``figures/SLUG.pdf``."""
    preamble = PREAMBLE.read_text(encoding="utf-8")
    values = {"content": content, "subtitle": SUBTITLE, "preamble": preamble}
    return fill(TEMPLATE, values, {"tex": escape_latex})


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
    command = "latexmk -norc -pdf -interaction=nonstopmode -halt-on-error -no-shell-escape"
    try:
        done = subprocess.run(
            [*command.split(), "paper.tex"], cwd=folder, env=os.environ | ENVIRONMENT,
            capture_output=True, timeout=SECONDS, check=False,
        )  # fmt: skip
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


def run(args: argparse.Namespace) -> None:
    """Run ``make-paper``.

    Raises UserError where LaTeX is not installed or fails, or a table or figure is missing.
    """
    sheet = read_run_sheet(args.run_sheet)
    pieces = {f"tables/{slug}.tex": args.tables / f"{slug}.tex" for slug in sheet.config.tables}
    pieces |= {f"figures/{s}.pdf": args.figures / f"{s}.pdf" for s in sheet.config.figures}
    check_file(args.out, [args.run_sheet, args.results, args.significance, *pieces.values()])
    if not latex_available():
        raise UserError(
            f"make-paper needs LaTeX to make a PDF, and finds none; install {PACKAGES}, or "
            "leave the PDF out: tables, figures and the page of HTML do not need it"
        )
    for file in pieces.values():
        if not file.is_file():
            raise UserError(f"expected {file}, found none; run make-tables first")
    content = document(read_run(sheet, args.results, args.significance))
    with tempfile.TemporaryDirectory(prefix="paper-") as name:
        folder = Path(name)
        for place, file in pieces.items():
            (folder / place).parent.mkdir(exist_ok=True)
            shutil.copy(file, folder / place)
        (folder / "paper.tex").write_text(latex_text(content), encoding="utf-8")
        made = typeset(folder)
    with atomic_path(args.out) as temporary:
        temporary.write_bytes(made)
    print(args.out)
