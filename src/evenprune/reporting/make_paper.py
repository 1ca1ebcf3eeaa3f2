"""All tables and figures of a run as one PDF: by LaTeX, or without it by Chromium of the page.

Equal tables and figures give equal bytes, by the same program.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from ..base.errors import UserError
from ..base.files import atomic_path
from ..base.outputs import check_file
from ..base.pdf_programs import PACKAGES, chromium_path, latex_available
from ..plan.run_sheet import RunSheet, read_run_sheet
from .document import Document
from .latex_document import TALL, figure_height, latex_text, typeset
from .make_page import add_inputs, inputs, read_document, require
from .print_page import print_page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``make-paper``."""
    add_inputs(parser.add_argument)
    parser.add_argument("--page", type=Path, help="the page of make-page, printed without LaTeX")
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
    heights = {
        slug: figure_height((figures / f"{slug}.pdf").read_bytes()) for slug in sheet.config.figures
    }
    tall = [slug for slug, height in heights.items() if height > TALL]
    (folder / "paper.tex").write_text(latex_text(content, tall), encoding="utf-8")
    return typeset(folder)


def run(args: argparse.Namespace) -> None:
    """Run ``make-paper``.

    Raises UserError where neither LaTeX nor Chromium is installed, a table or figure is missing, or
    the program fails.
    """
    chromium = chromium_path() if args.page else None
    if not latex_available() and chromium is None:
        raise UserError(
            f"make-paper needs a program that makes a PDF, and finds none; install {PACKAGES}, or "
            "leave the PDF out: tables, figures and the page of HTML do not need it"
        )
    sheet = read_run_sheet(args.run_sheet)
    used = inputs(args, sheet, "tex", "pdf")
    check_file(args.out, [*used, *([args.page] if args.page else [])])
    require(used)
    if latex_available():
        with tempfile.TemporaryDirectory(prefix="paper-") as name:
            content = read_document(args, sheet)
            made = by_latex(sheet, content, args.tables, args.figures, Path(name))
    else:
        if not args.page.is_file():
            raise UserError(f"expected the page {args.page}, found none; run make-page first")
        made = print_page(args.page, str(chromium))
    with atomic_path(args.out) as temporary:
        temporary.write_bytes(made)
    print(args.out)
