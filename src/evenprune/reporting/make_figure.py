"""Draw one figure of a run as .pdf, .svg and .png, with the plotted numbers as .csv.

The files are the same from run to run: no dates, fixed ids. Colours are safe for colour-blind
readers, units stand in the axis labels.
"""

import argparse
import importlib
from pathlib import Path

import matplotlib as mpl

from ..analysis.results import Results, Significance
from ..base.outputs import check_prefix
from ..plan.run_sheet import read_run_sheet
from ..plan.table_registry import FIGURES, drawn_by
from .cells import Run
from .plots import METADATA, STYLE, Drawing, save


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``make-figure``."""
    add = parser.add_argument
    add("--figure", choices=sorted(FIGURES), required=True)
    add("--results", type=Path, required=True, help="results.csv")
    add("--significance", type=Path, required=True, help="significance.csv")
    add("--run-sheet", type=Path, required=True, help="run_sheet.json, written by the workflow")
    add("--out-prefix", required=True, help="path without suffix; .pdf, .svg, .png, .csv are added")


def draw(slug: str, run: Run) -> Drawing:
    """Return one figure of a run, drawn in the package's own style."""
    with mpl.rc_context():
        mpl.style.use(str(STYLE))
        module, function = drawn_by(FIGURES[slug])
        made = getattr(importlib.import_module(f".{module}", __package__), function)
        drawing: Drawing = made(run, slug)
        return drawing


def run(args: argparse.Namespace) -> None:
    """Run ``make-figure``."""
    inputs = (args.run_sheet, args.results, args.significance)
    check_prefix(args.out_prefix, (*METADATA, "csv"), inputs)
    drawing = draw(
        args.figure,
        Run(read_run_sheet(args.run_sheet), Results(args.results), Significance(args.significance)),
    )
    save(drawing, args.out_prefix)
    print(f"{args.out_prefix}.pdf, .svg, .png, .csv: {len(drawing.rows)} values")
