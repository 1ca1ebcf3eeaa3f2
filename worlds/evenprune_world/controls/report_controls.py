"""Compare methods against bias with their negative controls across invented worlds.

``--run`` names a results folder a world (another ``world.seed``, the same configuration else);
``--out`` gets controls.csv, controls.md, controls.html and a figure. Kinds of effects, each the
mean over the worlds of candidate minus reference on the same items:

``dense``    every checkpoint against the dense model
``plain``    a method against bias against what it is without (SparseGPT; unpruned: dense)
``control``  the same against itself with a negative control's pairs, steps of the other sign, or
             steps on text alone

Intervals are 95 %. ``ci`` is of these worlds (clusters of items are left out one by one), ``t`` of
any such world: it takes every world's effect as one observation (Student's t).
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evenprune.config.config import Config
from evenprune.io.files import write_csv
from evenprune.io.outputs import check_place

from .contrasts import contrasts, strength
from .document import write_page
from .effects import Effect, effects
from .page import WORDS, tables
from .runs import read_runs

COLUMNS = (
    "contrast", "model", "method", "strength", "regime", "calibration", "seed",
    "reference_method", "reference_calibration",
    "metric", "worlds", "value", "reference", "effect", "ci_low", "ci_high", "t_low", "t_high",
    "p", "p_holm", "t_p", "t_p_holm", "by_world", "verdict",
)  # fmt: skip


def number(value: float | None) -> str:
    """Return eight decimals, nothing where undefined."""
    return "" if value is None or math.isnan(value) else f"{value:.8f}"


def rows(config: Config, every: Sequence[Effect]) -> Iterator[dict[str, Any]]:
    """Yield the rows of controls.csv."""
    for one in every:
        point, other = one.contrast.candidate, one.contrast.reference
        amount = strength(config, point.method)
        place = point.model, point.method, "" if amount is None else f"{amount:g}", point.regime
        against = point.calibration, point.seed, other.method, other.calibration
        adjusted = one.adjusted or (None, None)
        ends: list[float | None] = []
        for estimate in (one.within, one.across):
            found = estimate.interval()
            ends += [None, None] if found is None else [found.low, found.high]
        tests = one.within.p(), adjusted[0], one.across.p(), adjusted[1]
        numbers = map(number, (one.value, one.reference, one.effect, *ends, *tests))
        by_world = " ".join(map(number, one.by_world))
        measured = one.metric.name, len(one.by_world), *numbers, by_world, one.verdict
        yield dict(zip(COLUMNS, (one.contrast.kind, *place, *against, *measured), strict=True))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``report-controls``."""
    add = parser.add_argument
    add("--run", dest="runs", type=Path, action="append", required=True, metavar="DIR",
        help="results folder of one world; give one --run a world")  # fmt: skip
    add("--out", type=Path, required=True, metavar="DIR", help="folder for the report")


def run(args: argparse.Namespace) -> None:
    """Run ``report-controls``."""
    check_place(args.out)
    run_sheet, points, worlds = read_runs(args.runs)
    found = effects(worlds, points, contrasts(run_sheet.config, points))
    write_csv(args.out / "controls.csv", COLUMNS, rows(run_sheet.config, found))
    page = tables(run_sheet, points, worlds, found)
    write_page(args.out / "controls", WORDS["title"], page)
    print(f"{args.out}/controls.html, .md, .csv: {len(found)} effects over {len(worlds)} worlds")
