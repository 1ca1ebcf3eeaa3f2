"""Make all tables and figures of a run, and the page of HTML that holds them.

A table is written as .tex, .csv, .md and .html, in the form of the paper. Column groups have the
paper's colours (perplexity, performance, fairness, DTO). What is bold follows the paper; each table
says it beneath. A dagger says that Debias-SparseGPT improves on SparseGPT with p < 0.01 by a paired
t-test, a double dagger that the calibration pairs are the test's own data; such values are neither
tested nor bold. Where the paper prints a number too, the CSV has it, the difference and our
interval.

A figure is written as .pdf, .svg and .png, with the plotted numbers as .csv: no dates, fixed ids,
colours safe for colour-blind readers, units in the axis labels. Equal inputs give equal bytes.
"""

import argparse
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl

from ..analysis.results import Run, read_run
from ..config.run_sheet import read_run_sheet
from ..config.table_registry import FIGURES, TABLES
from ..io.files import write_text
from ..io.outputs import check_file
from . import against_printed, analyses, answer, figures, rows, setup
from .document import document
from .figures import METADATA, STYLE, Drawing, save
from .forms import FORMS, to_html, write_forms
from .page import page_text, read_items
from .tables import Table

# Whose functions `by` of tables.yaml names.
MODULES = (against_printed, analyses, answer, figures, rows, setup)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``make-tables``."""
    add_places(parser.add_argument)
    parser.add_argument("--items", type=Path, help="items of make-items, to look at one by one")
    parser.add_argument("--out", type=Path, required=True, help="the page, an .html file")


def add_places(add: Callable) -> None:
    """Add the options that ``make-tables`` and ``make-paper`` share."""
    add("--tables", type=Path, required=True, help="folder of the tables")
    add("--figures", type=Path, required=True, help="folder of the figures")
    add("--run-sheet", type=Path, required=True, help="run_sheet.json, written by the workflow")
    add("--results", type=Path, required=True, help="results.csv")
    add("--significance", type=Path, required=True, help="significance.csv")


def _by(entry: Mapping[str, Any]) -> Any:
    """Return the function that makes what an entry of ``tables.yaml`` describes."""
    module, _, name = entry.get("by", "rows.build").partition(".")
    own = {each.__name__.rpartition(".")[2]: each for each in MODULES}[module]
    return getattr(own, name)


def build_table(run: Run, slug: str) -> Table:
    """Return one table of a run as data, as ``tables.yaml`` describes it."""
    table: Table = _by(TABLES[slug])(run, slug)
    return table


def draw(run: Run, slug: str) -> Drawing:
    """Return one figure of a run, drawn in the package's own style."""
    with mpl.rc_context():
        mpl.style.use(str(STYLE))
        drawing: Drawing = _by(FIGURES[slug])(run, slug)
        return drawing


def run(args: argparse.Namespace) -> None:
    """Run ``make-tables``: all is made before the first file is written."""
    sheet = read_run_sheet(args.run_sheet)
    inputs = [args.run_sheet, args.results, args.significance, args.items]
    check_file(args.out, inputs)
    for slug, form in product(sheet.config.tables, FORMS):
        check_file(args.tables / f"{slug}.{form}", inputs, "--tables")
    for slug, form in product(sheet.config.figures, (*METADATA, "csv")):
        check_file(args.figures / f"{slug}.{form}", inputs, "--figures")
    whole = read_run(sheet, args.results, args.significance)
    items = read_items(args.items, sheet) if args.items else []
    content = document(whole)
    tables = {slug: build_table(whole, slug) for slug in sheet.config.tables}
    drawings = {slug: draw(whole, slug) for slug in sheet.config.figures}
    for slug, table in tables.items():
        write_forms(table, args.tables / slug)
    for slug, drawing in drawings.items():
        save(drawing, args.figures / slug)
    bodies = {slug: to_html(table).strip() for slug, table in tables.items()}
    pictures = {slug: (args.figures / f"{slug}.svg").read_bytes() for slug in drawings}
    write_text(args.out, page_text(content, bodies, pictures, items))
    print(f"{args.out}: {len(tables)} tables, {len(drawings)} figures")
