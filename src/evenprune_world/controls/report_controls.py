"""Compare methods against bias with their negative controls across invented worlds.

``--run`` names a results folder a world (another ``world.seed``, the same configuration else);
``--out`` gets controls.csv, frontier.csv, controls.md, controls.html and two figures. Kinds of
effects, each the mean over the worlds of candidate minus reference on the same items:

``dense``    every checkpoint against the dense model
``plain``    a method against bias against what it is without (SparseGPT; unpruned: dense)
``control``  the same against itself with a negative control's pairs, steps of the other sign, or
             steps on text alone
``matched``  (frontier.csv) what a method reaches within a rise of perplexity, against its controls

Runs of worlds without leans are no part of these means: the page has a table of each.

Intervals are 95 %. ``ci`` is a hierarchical bootstrap: worlds are drawn, then in each drawn
world clusters of items, the same ones for all models. A few worlds cannot show how much worlds
differ, so ``t`` beside it takes every world's effect as one observation (Student's t).
"""

import argparse
from pathlib import Path

from evenprune.base.files import write_csv
from evenprune.base.outputs import check_place

from .contrasts import contrasts
from .effect_rows import COLUMNS, FRONTIER_COLUMNS, frontier_rows, rows
from .effects import effects, resampled
from .frontier import matched
from .page import write_page
from .runs import read_runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``report-controls``."""
    add = parser.add_argument
    add("--run", dest="runs", type=Path, action="append", required=True, metavar="DIR",
        help="results folder of one world; give one --run a world")  # fmt: skip
    add("--out", type=Path, required=True, metavar="DIR", help="folder for the report")


def run(args: argparse.Namespace) -> None:
    """Run ``report-controls``."""
    check_place(args.out)
    run_sheet, points, every = read_runs(args.runs)
    worlds = [world for world in every if world.leans]
    config = run_sheet.config
    samples = resampled(worlds)
    found = effects(worlds, points, contrasts(config, points), samples)
    reached = matched(config, worlds, points, samples)
    write_csv(args.out / "controls.csv", COLUMNS, rows(config, found))
    write_csv(args.out / "frontier.csv", FRONTIER_COLUMNS, frontier_rows(reached))
    write_page(run_sheet, points, every, [*found, *reached], args.out)
    print(
        f"{args.out}/controls.html, .md, .csv, frontier.csv: {len(found)} effects, {len(reached)} "
        f"at matched perplexity, over {len(worlds)} worlds"
    )
