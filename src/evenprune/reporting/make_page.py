"""All tables, figures and items of a run as one page of HTML that needs no other file.

The page begins with what pruning did to each model. Its tables, the items among them, are
DataTables, whose files are in the package itables and are copied into the page: it opens without a
network, and its security policy lets only its own two scripts run. Equal inputs give equal bytes.
"""

import argparse
import base64
import hashlib
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..analysis.results import Results, Significance
from ..base.errors import UserError
from ..base.files import canonical_json, write_text
from ..base.outputs import check_file
from ..base.pages import fill
from ..plan.run_sheet import RunSheet, read_run_sheet
from ..plan.table_registry import FIGURES, TABLES
from .bottom_line import HEADS
from .cells import Run
from .claims.verdict import NOT_TESTED
from .document import SUBTITLE, Document, document
from .html_table import STYLE, figures_of
from .page_items import read_items

# Part of this module's code, see codedigest.py.
DATA_FILES = ("paper.html.j2", "page.js")
TEMPLATE, SCRIPT = (Path(__file__).with_name(name) for name in DATA_FILES)
FIRST = ("answer", "frontier", "regimes")  # the figure below the answer: the first that the run has
OPEN = ("Main Results", "Sparsity Regimes")  # all other sections are folded


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


def read_document(args: argparse.Namespace, sheet: RunSheet) -> Document:
    """Return the document that the options name."""
    return document(Run(sheet, Results(args.results), Significance(args.significance)))


def inputs(args: argparse.Namespace, sheet: RunSheet, table: str, figure: str) -> list[Path]:
    """Return all files that the document is made of; ``table`` and ``figure`` are suffixes."""
    return [
        *(args.run_sheet, args.results, args.significance),
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


def library() -> tuple[str, str]:
    """Return DataTables' script and style sheet, as they may stand within HTML.

    Raises UserError where the package that has them is not installed.
    """
    found = importlib.util.find_spec("itables")  # importing it would load IPython
    if found is None or found.origin is None:
        raise UserError(
            "the page needs the Python package itables, which has DataTables, found none; "
            "run make env, or install it with pip"
        )
    folder = Path(found.origin).parent / "html"
    script, style = (
        (folder / f"dt_bundle.{suffix}").read_text(encoding="utf-8") for suffix in ("js", "css")
    )
    return script.replace("</script", "<\\/script").replace("<!--", "\\x3C!--"), style


def sections(content: Document, tables: Path, figures: Path) -> dict[str, list[dict[str, Any]]]:
    """Return tables and figures by section; "" has the figure that the page begins with."""
    kinds = {"table": TABLES, "figure": FIGURES}
    drawn = [piece.slug for piece in content.pieces if piece.kind == "figure"]
    first = next((one for one in FIRST if one in drawn), None)
    found: dict[str, list[dict[str, Any]]] = {}
    for piece in content.pieces:
        if piece.kind == "table":
            body = figures_of((tables / f"{piece.slug}.html").read_text(encoding="utf-8"))
        else:
            body = base64.b64encode((figures / f"{piece.slug}.svg").read_bytes()).decode()
        heads = kinds[piece.kind][piece.slug]
        place = "" if (piece.kind, piece.slug) == ("figure", first) else heads["section"]
        found.setdefault(place, []).append({**asdict(piece), "body": body, "shows": heads["shows"]})
    return found


def page_text(
    content: Document, tables: Path, figures: Path, items: Iterable[dict[str, Any]] = ()
) -> str:
    """Return the page; tables are ``SLUG.html`` and figures ``SLUG.svg``, which it takes in."""
    script, style = library()
    scripts = [script, SCRIPT.read_text(encoding="utf-8")]
    hashes = [hashlib.sha256(one.encode()).digest() for one in scripts]
    found = sections(content, tables, figures)
    values = {
        "content": content,
        "subtitle": SUBTITLE,
        # Without the paper's claims the bottom line is the answer again.
        "claims": content.bottom if any(one.slug == "claims" for one in content.pieces) else (),
        "not_tested": HEADS[NOT_TESTED],
        "first": found.pop("", []),
        "sections": dict(sorted(found.items(), key=lambda one: one[0] not in OPEN)),
        "open": OPEN,
        "printed": any('class="printed"' in one["body"] for each in found.values() for one in each),
        # No text of an item ends the script that it stands in.
        "items": [canonical_json(one).replace("<", "\\u003c") for one in items],
        "style": style + STYLE.read_text(encoding="utf-8"),
        "scripts": scripts,
        "policy": " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in hashes),
    }
    return fill(TEMPLATE, values)


def run(args: argparse.Namespace) -> None:
    """Run ``make-page``."""
    sheet = read_run_sheet(args.run_sheet)
    used = [*inputs(args, sheet, "html", "svg"), *([args.items] if args.items else [])]
    check_file(args.out, used)
    require(used)
    items = read_items(args.items, sheet) if args.items else []
    write_text(args.out, page_text(read_document(args, sheet), args.tables, args.figures, items))
    print(args.out)
