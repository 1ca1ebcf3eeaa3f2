"""The page of ``report-controls``: what is compared, with which verdict, and how."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from evenprune.plan.grids import Checkpoint
from evenprune.plan.run_sheet import RunSheet
from evenprune.stats.bootstrap import RESAMPLES

from .blocks import Block, write_page
from .contrasts import plain_of
from .effect_plots import effects_figure, frontier_figure
from .effects import Effect
from .runs import WorldSums
from .sums import METRICS
from .wording import (
    ROW_HEADS,
    answer,
    checks,
    control_words,
    effect_text,
    findings,
    matched_rows,
    order,
    place_words,
    select,
    shown,
)

DATA_FILES = ("words.yaml",)
WORDS = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"))
PLACE = ("regime", "method", "calibration")
JUDGED = [metric for metric in METRICS if metric.kind != "check"]
SIGNED = [metric for metric in METRICS if not metric.name.startswith("abs_")]


def _table(
    chosen: Sequence[Effect], heads: Sequence[str], labels: Callable[[Any], Iterable[str]]
) -> Block:
    cells: dict[Any, dict[str, str]] = {}
    for one in chosen:
        cells.setdefault(one.contrast, {})[one.metric.name] = effect_text(one)
    lines = [
        [*labels(contrast), *(by_name[metric.name] for metric in JUDGED)]
        for contrast, by_name in cells.items()
    ]
    return Block("table", rows=[[*heads, *(metric.label for metric in JUDGED)], *lines])


def dense_table(points: Sequence[Checkpoint], worlds: Sequence[WorldSums]) -> list[list[str]]:
    """Return the dense model's metrics in every world: what there is to lose, and to remove."""
    index = next(k for k, point in enumerate(points) if point.is_base)
    lines = [["world", *(metric.label for metric in SIGNED)]]
    for world in worlds:
        values = [float(metric.compute(world.totals)[index]) for metric in SIGNED]
        cells = (shown(value, m, signed=m.good == 0) for value, m in zip(values, SIGNED))
        lines.append([world.label, *cells])
    return lines


def without_table(
    run_sheet: RunSheet, points: Sequence[Checkpoint], world: WorldSums
) -> list[list[str]]:
    """Return a world's metrics a checkpoint, and of methods against bias what they change."""
    config = run_sheet.config
    kept = [metric for metric in SIGNED if metric.kind in ("bias", "cost")]
    lines = [[*PLACE, *(metric.label for metric in kept)]]
    values = [metric.compute(world.totals) for metric in kept]
    place = {point: index for index, point in enumerate(points)}
    for point in sorted(points, key=lambda point: order(config, point)):
        plain = plain_of(config, point)
        cells = []
        for metric, column in zip(kept, values):
            value = float(column[place[point]])
            text = shown(value, metric, signed=metric.good == 0)
            if plain in place:
                text += f" ({shown(value - float(column[place[plain]]), metric)})"
            cells.append("undefined" if math.isnan(value) else text)
        lines.append([*place_words(run_sheet, point), *cells])
    return lines


def blocks(
    run_sheet: RunSheet,
    points: Sequence[Checkpoint],
    every: Sequence[WorldSums],
    found: Sequence[Effect],
) -> Iterator[Block]:
    """Yield the page."""
    worlds = [world for world in every if world.leans]
    seeds = ", ".join(str(world.seed) for world in worlds)

    def labels(contrast: Any) -> tuple[str, ...]:
        return place_words(run_sheet, contrast.candidate)

    def against(contrast: Any) -> tuple[str, ...]:
        pair = contrast.candidate, contrast.reference
        return *labels(contrast), control_words(run_sheet.config, *pair)

    yield Block("text", f"Invented worlds {seeds}, each with a model of its own; no real people.")
    yield Block("heading", "Bias against perplexity")
    yield Block("image", "controls_frontier")
    yield Block("text", WORDS["frontier"])
    yield Block("heading", "Answer")
    yield Block("list", rows=[answer(run_sheet, found)])
    if rows := [one.row() for one in findings(run_sheet, found)]:
        yield Block("table", rows=[ROW_HEADS, *rows])
    if said := checks(run_sheet, found):
        yield Block("list", rows=[said])
    yield Block("heading", "Dense models")
    yield Block("table", rows=dense_table(points, every))
    if chosen := [one for one in found if one.contrast.kind == "matched"]:
        yield Block("heading", "At matched perplexity")
        yield Block("table", rows=matched_rows(run_sheet, chosen))
    if plain := select(run_sheet, found, "plain"):
        yield Block("heading", "Against the same without the method; the controls in its place")
        yield Block("image", "controls_effects")
        yield Block("text", WORDS["legend"])
        yield _table(plain, PLACE, labels)
    if control := select(run_sheet, found, "control"):
        yield Block("heading", "Against the controls")
        yield _table(control, (*PLACE, "against"), against)
    yield Block("heading", "Against dense")
    yield _table(select(run_sheet, found, "dense"), PLACE, labels)
    for world in (world for world in every if not world.leans):
        yield Block("heading", f"World {world.label}: nothing to remove")
        yield Block("text", WORDS["without"])
        yield Block("table", rows=without_table(run_sheet, points, world))
    yield Block("heading", "How")
    first = worlds[0]
    items = "; ".join(
        f"{task}: {first.items[task]} items, {len(sums)} clusters"
        for task, sums in first.sums.items()
    )
    values = dict(worlds=len(worlds), items=items, resamples=RESAMPLES)
    yield Block("list", rows=[[line.format(**values) for line in WORDS["how"]]])


def write_controls(
    run_sheet: RunSheet,
    points: Sequence[Checkpoint],
    every: Sequence[WorldSums],
    found: Sequence[Effect],
    out: Path,
) -> None:
    """Write the figures (svg and png), controls.md and controls.html into ``out``."""
    worlds = [world for world in every if world.leans]
    figures = {
        "controls_frontier": lambda: frontier_figure(run_sheet, points, worlds),
        "controls_effects": lambda: effects_figure(run_sheet, found),
    }
    page = list(blocks(run_sheet, points, every, found))
    write_page(out / "controls", WORDS["title"], page, figures)
