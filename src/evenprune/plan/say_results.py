"""What is said when a step or a run has finished: its headline, read from what it wrote."""

import argparse
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

from ..base.errors import UserError
from ..base.files import read_json
from .finished import SUMMARY


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``say-results``."""
    parser.add_argument("--results", type=Path, required=True, metavar="DIR")


def run(args: argparse.Namespace) -> None:
    """Print where the results of a finished run are, and its verdict in one line."""
    results, pdf = args.results, args.results / "paper.pdf"
    print(f"page     {results / 'report/paper.html'}   (open this first)")
    print(f"PDF      {pdf if pdf.exists() else 'not made: there is no LaTeX here'}")
    print(f"values   {results / 'results.csv'}, tables in {results / 'tables'}")
    print(f"steps    their times and logs are in {results / 'logs'}")
    said = f"verdict  {verdict(results / 'tables/answer.md')}"
    print(*textwrap.wrap(said, 120, subsequent_indent=" " * 9), sep="\n")


def verdict(table: Path) -> str:
    """Return the last row of the table ``answer`` that is of Debias-SparseGPT, in words."""
    try:
        lines = table.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "see the first lines of the page"
    rows = [re.sub(r"[*\\]", "", line).split("|") for line in lines if "Debias-SparseGPT" in line]
    blocks = [line for line in lines if line.startswith("| *Sparsity")]
    if not rows or len(rows[-1]) < 4:
        return "see the first lines of the page"
    where = blocks[-1].split("|")[1].strip(" *") if blocks else ""
    return f"{rows[-1][1].strip(' +')}, {where.lower()}: {rows[-1][2].strip()}"


def headline(command: str, out: Path) -> str:
    """Return the headline of a step by its subcommand and output; "" where it has none."""
    say = SAYS.get(command)
    try:
        return say(out) if say else ""
    except (OSError, UserError, KeyError, TypeError, ValueError):
        return ""  # the step has finished; only its line is poorer


def _pruned(out: Path) -> str:
    return f"{read_json(out / 'manifest.json')['sparsity']:.2%} zeros"


def _checked(out: Path) -> str:
    found = read_json(out)
    return f"{found['sparsity']:.2%} zeros in {found['matrices']} matrices, as they should be"


def _rows(noun: str) -> Callable[[Path], str]:
    return lambda out: f"{len(out.read_text(encoding='utf-8').splitlines()) - 1} {noun}"


def _evaluated(out: Path) -> str:
    parts = []
    for slug, entry in read_json(out / SUMMARY)["benchmarks"].items():
        value = entry["metrics"][entry["headline"]]["value"]
        shown = "undefined" if value is None else f"{value:.4g}"
        parts.append(f"{slug} {entry['headline']} {shown}")
    return ", ".join(parts)


def _calibrated(out: Path) -> str:
    found = read_json(out / "manifest.json")
    return f"{found['pairs']['kept']} pairs, {found['texts']['kept']} texts"


SAYS: dict[str, Callable[[Path], str]] = {
    "build-calibration": _calibrated,
    "prune": _pruned,
    "check": _checked,
    "compare-masks": _rows("matrices compared"),
    "evaluate-checkpoint": _evaluated,
    "collect-results": _rows("values"),
}
