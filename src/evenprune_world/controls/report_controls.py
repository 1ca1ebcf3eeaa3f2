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
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evenprune.base.files import write_csv
from evenprune.base.outputs import check_place
from evenprune.plan.config import Config

from .contrasts import contrasts, strength
from .effects import Effect, effects, resampled
from .frontier import matched
from .page import write_controls
from .runs import read_runs

NUMBERS = (
    "metric", "worlds", "value", "reference", "effect", "ci_low", "ci_high", "t_low", "t_high",
    "p", "p_holm", "t_p", "t_p_holm", "by_world", "verdict",
)  # fmt: skip
COLUMNS = (
    "contrast", "model", "method", "strength", "regime", "calibration", "seed",
    "reference_method", "reference_calibration", *NUMBERS,
)  # fmt: skip
FRONTIER_COLUMNS = (
    "model", "method", "regime", "calibration", "seed", "strengths", "against", "budget", *NUMBERS,
)  # fmt: skip


def number(value: float) -> str:
    """Return eight decimals, nothing where undefined."""
    return "" if math.isnan(value) else f"{value:.8f}"


def _numbers(one: Effect) -> tuple[Any, ...]:
    adjusted = one.adjusted or (math.nan, math.nan)
    ends = one.ci.low, one.ci.high, one.student.low, one.student.high
    values = (one.value, one.reference, one.effect, *ends, one.p[0], adjusted[0], one.p[1])
    by_world = " ".join(map(number, one.by_world))
    numbers = map(number, (*values, adjusted[1]))
    return one.metric.name, len(one.by_world), *numbers, by_world, one.verdict


def rows(config: Config, found: Sequence[Effect]) -> Iterator[dict[str, Any]]:
    """Yield the rows of controls.csv."""
    for one in found:
        point, other = one.contrast.candidate, one.contrast.reference
        amount = strength(config, point.method)
        shown = "" if amount is None else f"{amount:g}"
        place = point.model, point.method, shown, point.regime, point.calibration, point.seed
        against = other.method, other.calibration
        values = one.contrast.kind, *place, *against, *_numbers(one)
        yield dict(zip(COLUMNS, values, strict=True))


def frontier_rows(found: Sequence[Effect]) -> Iterator[dict[str, Any]]:
    """Yield the rows of frontier.csv; ``against`` is "plain" or what makes a control of a line."""
    for one in found:
        line, other = one.contrast.candidate, one.contrast.reference
        point = line.points[1]
        strengths = " ".join(f"{value:g}" for value in line.weights)
        place = point.model, line.method, point.regime, line.calibration, point.seed, strengths
        values = *place, other.control or "plain", f"{one.contrast.budget:g}", *_numbers(one)
        yield dict(zip(FRONTIER_COLUMNS, values, strict=True))


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
    write_controls(run_sheet, points, every, [*found, *reached], args.out)
    print(
        f"{args.out}/controls.html, .md, .csv, frontier.csv: {len(found)} effects, {len(reached)} "
        f"at matched perplexity, over {len(worlds)} worlds"
    )
