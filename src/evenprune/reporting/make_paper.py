"""All tables and figures of a run as one PDF, by LaTeX. Equal ones give equal bytes."""

import argparse
import shutil
import tempfile
from pathlib import Path

from ..base.errors import UserError
from ..base.files import atomic_path
from ..base.outputs import check_file
from ..base.pdf_programs import PACKAGES, latex_available
from ..plan.run_sheet import RunSheet, read_run_sheet
from .document import Document
from .latex_document import latex_text, typeset
from .make_page import add_inputs, inputs, read_document, require


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``make-paper``."""
    add_inputs(parser.add_argument)
    parser.add_argument("--out", type=Path, required=True, help="the PDF")


def by_latex(
    sheet: RunSheet, content: Document, tables: Path, figures: Path, folder: Path
) -> bytes:
    """Return the PDF that LaTeX makes of the configured tables and figures, in an empty folder."""
    for kind, source, slugs, suffix in (
        ("tables", tables, sheet.config.tables, "tex"),
        ("figures", figures, sheet.config.figures, "pdf"),
    ):
        (folder / kind).mkdir()
        for slug in slugs:
            shutil.copy(source / f"{slug}.{suffix}", folder / kind)
    (folder / "paper.tex").write_text(latex_text(content), encoding="utf-8")
    return typeset(folder)


def run(args: argparse.Namespace) -> None:
    """Run ``make-paper``.

    Raises UserError where LaTeX is not installed or fails, or a table or figure is missing.
    """
    sheet = read_run_sheet(args.run_sheet)
    used = inputs(args, sheet, "tex", "pdf")
    check_file(args.out, used)
    if not latex_available():
        raise UserError(
            f"make-paper needs LaTeX to make a PDF, and finds none; install {PACKAGES}, or "
            "leave the PDF out: tables, figures and the page of HTML do not need it"
        )
    require(used)
    with tempfile.TemporaryDirectory(prefix="paper-") as name:
        content = read_document(args, sheet)
        made = by_latex(sheet, content, args.tables, args.figures, Path(name))
    with atomic_path(args.out) as temporary:
        temporary.write_bytes(made)
    print(args.out)
