"""Render one table of a run as .tex, .csv, .md and .html, in the form of the paper.

Column groups have the paper's colours (perplexity, performance, fairness, DTO). What is bold
follows the paper; each table says it beneath. A dagger says that Debias-SparseGPT improves on
SparseGPT with p < 0.01 by a paired t-test, a double dagger that the calibration pairs
are the test's own data; such values are neither tested nor bold. A table whose numbers the paper
prints too has a second one beneath it, of ours, the paper's and the differences; its CSV has the
same.
"""

import argparse
import importlib
from dataclasses import replace
from pathlib import Path

from ..analysis.results import Results, Significance
from ..base.files import read_json, write_csv, write_text
from ..base.outputs import check_prefix
from ..plan.run_sheet import RunSheet, read_run_sheet
from ..plan.table_registry import TABLES, drawn_by
from .beside import companion
from .captions import with_sizes
from .cells import Run
from .html_table import to_html, to_page
from .latex_table import to_latex
from .notes import weights_notes
from .render import Table, csv_form, to_markdown

FORMS = ("csv", "html", "md", "tex")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``make-table``."""
    add = parser.add_argument
    add("--table", choices=sorted(TABLES), required=True)
    add("--results", type=Path, required=True, help="results.csv")
    add("--significance", type=Path, required=True, help="significance.csv")
    add("--run-sheet", type=Path, required=True, help="run_sheet.json, written by the workflow")
    add(
        "--out-prefix",
        required=True,
        help="path without suffix; the suffixes of the forms are added",
    )


def stored_weights(run_sheet: RunSheet, folder: Path) -> dict[str, str]:
    """Return model -> what its weights were stored as, of those out of another form.

    The records of the sources say it; ``folder`` is that of the run.
    """
    files = {name: folder / f"sources/models/{name}.json" for name in run_sheet.config.models}
    records = {name: read_json(file) for name, file in files.items() if file.is_file()}
    facts = {name: record.get("source") or {} for name, record in records.items()}
    return {name: found["weights"] for name, found in facts.items() if "weights" in found}


def built(run: Run, slug: str) -> Table:
    """Return one table as ``tables.yaml`` describes it."""
    module, function = drawn_by(TABLES[slug])
    found: Table = getattr(importlib.import_module(f".{module}", __package__), function)(run, slug)
    return found


def build_table(slug: str, run_sheet: RunSheet, results: Path, significance: Path) -> Table:
    """Return one table of a run as data; its caption says items and seeds."""
    run = Run(run_sheet, Results(results), Significance(significance))
    table = with_sizes(run, built(run, slug))
    weights = stored_weights(run_sheet, results.parent)
    return replace(table, notes=(*table.notes, *weights_notes(run_sheet, weights, table.rows)))


def run(args: argparse.Namespace) -> None:
    """Run ``make-table``."""
    inputs = (args.run_sheet, args.results, args.significance)
    check_prefix(args.out_prefix, FORMS, inputs)
    table = build_table(args.table, read_run_sheet(args.run_sheet), args.results, args.significance)
    header, lines = csv_form(table)
    write_csv(f"{args.out_prefix}.csv", header, lines)
    shown = [table, *([beside] if (beside := companion(table)) else [])]
    write_text(f"{args.out_prefix}.md", "\n".join(map(to_markdown, shown)))
    write_text(f"{args.out_prefix}.tex", "\n".join(map(to_latex, shown)))
    page = to_page([to_html(one, args.table) for one in shown], table.caption)
    write_text(f"{args.out_prefix}.html", page)
    print(f"{args.out_prefix}.tex, .csv, .md, .html: {len(lines)} rows")
