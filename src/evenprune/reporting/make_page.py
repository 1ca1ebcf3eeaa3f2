"""All tables, figures and items of a run as one page of HTML that needs no other file.

It opens without a network. Tables can be sorted and filtered. Each cell of a table whose number
``evenprune explain`` knows says the command for it: a click shows it. The items are in compressed
blocks, each unpacked when it is asked for. Equal inputs give equal bytes.
"""

import argparse
import base64
from collections.abc import Callable, Iterable
from pathlib import Path

from ..base.errors import UserError
from ..base.files import write_text
from ..base.outputs import check_file
from ..base.pages import fill
from ..plan.run_sheet import RunSheet, read_run_sheet
from .bottom_line import read_world
from .document import SUBTITLE, Document, Piece, document
from .fields import Run
from .html_table import figures_of
from .items.index import Items, read_items
from .page_parts import style_and_script
from .results import Results, Significance

# Part of this module's code, see codedigest.py.
DATA_FILES = ("paper.html.j2",)
TEMPLATE = Path(__file__).with_name(DATA_FILES[0])
TABLES_SCRIPT, ITEMS_SCRIPT = "page_tables.js", "page_items.js"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``make-page``."""
    add_inputs(parser.add_argument)
    parser.add_argument("--items", type=Path, help="items of make-items, to look at one by one")
    parser.add_argument("--out", type=Path, required=True, help="the page, an .html file")


def add_inputs(add: Callable) -> None:
    """Add the options that ``make-page`` and ``make-paper`` share."""
    add("--tables", type=Path, required=True, help="folder with the tables of make-table")
    add("--figures", type=Path, required=True, help="folder with the figures of make-figure")
    add("--run-sheet", type=Path, required=True, help="run_sheet.json, written by the workflow")
    add("--results", type=Path, required=True, help="results.csv")
    add("--significance", type=Path, required=True, help="significance.csv")
    add("--world", type=Path, help="world.csv of report-world, of an invented world")


def read_document(args: argparse.Namespace, sheet: RunSheet) -> Document:
    """Return the document that the options name."""
    run = Run(sheet, Results(args.results), Significance(args.significance))
    return document(run, read_world(args.world) if args.world else {})


def inputs(args: argparse.Namespace, sheet: RunSheet, table: str, figure: str) -> list[Path]:
    """Return all files that the document is made of; ``table`` and ``figure`` are suffixes."""
    given = [args.run_sheet, args.results, args.significance]
    given += [args.world] if args.world else []
    return [
        *given,
        *(args.tables / f"{slug}.{table}" for slug in sheet.config.tables),
        *(args.figures / f"{slug}.{figure}" for slug in sheet.config.figures),
    ]


def require(files: Iterable[Path]) -> None:
    """Raise UserError for the first table or figure that is not there."""
    for file in files:
        if not file.is_file():
            kind = "figure" if file.suffix in (".svg", ".pdf") else "table"
            raise UserError(
                f"expected {file}, found none; run make-{kind} --{kind} {file.stem} first"
            )


def page_text(content: Document, tables: Path, figures: Path, items: Items | None = None) -> str:
    """Return the page; tables are ``SLUG.html`` and figures ``SLUG.svg``, which it takes in."""

    def with_body(piece: Piece) -> dict[str, str]:
        if piece.kind == "table":
            body = figures_of((tables / f"{piece.slug}.html").read_text(encoding="utf-8"))
        else:
            body = base64.b64encode((figures / f"{piece.slug}.svg").read_bytes()).decode()
        return {"kind": piece.kind, "slug": piece.slug, "caption": piece.caption, "body": body}

    values = {
        "title": content.title,
        "subtitle": SUBTITLE,
        "bottom": content.bottom,
        "facts": content.facts,
        "pieces": [with_body(piece) for piece in content.pieces],
        "again": content.again,
        "items": items,
        **style_and_script([TABLES_SCRIPT, *([ITEMS_SCRIPT] if items else [])]),
    }
    return fill(TEMPLATE, values)


def run(args: argparse.Namespace) -> None:
    """Run ``make-page``."""
    sheet = read_run_sheet(args.run_sheet)
    used = [*inputs(args, sheet, "html", "svg"), *([args.items] if args.items else [])]
    check_file(args.out, used)
    require(used)
    items = read_items(args.items, sheet) if args.items else None
    write_text(args.out, page_text(read_document(args, sheet), args.tables, args.figures, items))
    print(args.out)
