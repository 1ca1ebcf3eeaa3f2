"""What is said when a run has finished: where its results are, and what became of each model."""

import argparse
import textwrap
from collections.abc import Iterator
from pathlib import Path

from ..analysis.results import read_run
from ..config.run_sheet import read_run_sheet
from .answer import Answer, answers, summary

WIDTH = 120
MOST = 12  # pruned models; the page has all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``say-results``."""
    parser.add_argument("--results", type=Path, required=True, metavar="DIR")


def run(args: argparse.Namespace) -> None:
    """Print where the results of a finished run are, and its verdicts on each pruned model."""
    results, pdf = args.results, args.results / "paper.pdf"
    print(f"page     {results / 'report/paper.html'}   (open this first)")
    print(f"PDF      {pdf if pdf.exists() else 'not made: there is no LaTeX here'}")
    print(f"values   {results / 'results.csv'}, tables in {results / 'tables'}")
    print(f"steps    their times and logs are in {results / 'logs'}")
    sheet = read_run_sheet(results / "run_sheet.json")
    replies = answers(read_run(sheet, results / "results.csv", results / "significance.csv"))
    for number, said in enumerate(verdicts(replies)):
        head = "" if number else "verdict"
        print(textwrap.fill(f"{head:<9}{said}", WIDTH, subsequent_indent=" " * 9))


def verdicts(replies: list[Answer]) -> Iterator[str]:
    """Yield sentences on all pruned models of a run, then one a model."""
    yield from summary(replies)
    for answer in replies[:MOST]:
        shown = [f"{one.measure} {one.difference}, {one.verdict}" for one in answer.decided]
        undecided = ", ".join(one.measure for one in answer.undecided)
        yield f"{answer.name}: {'; '.join(shown + [f'undecided: {undecided}'] * bool(undecided))}"
    if len(replies) > MOST:
        yield f"{len(replies) - MOST} more pruned models are on the page"
