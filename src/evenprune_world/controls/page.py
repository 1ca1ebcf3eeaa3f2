"""The report of ``report-controls``: figures, Markdown and one HTML file that needs no other.

Equal effects give equal bytes: no dates, no versions, fixed ids.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style

from evenprune.base.files import atomic_path, write_text
from evenprune.plan.grids import Checkpoint
from evenprune.plan.run_sheet import RunSheet
from evenprune.reporting.plots import METADATA, STYLE
from evenprune.stats.bootstrap import RESAMPLES

from .blocks import Block, to_html, to_markdown
from .contrasts import plain_of
from .effect_plots import effects_figure, frontier_figure
from .effects import RULE, Effect
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

TITLE = "Methods that lower bias, and their negative controls"
LEGEND = (
    "Change with its 95 % bootstrap interval; accuracies and shares in points (hundredths), slopes "
    "in nats of a gap per nat planted, R in hundredths of that per nat of β_dis, the loss of "
    "WikiText in nats a token. ▲ better, ▼ worse, △ ▽ better, worse in these worlds only, no "
    "mark: no difference shown. Signed measures of bias are judged by their distance from 0, or "
    "from 50 %."
)
DEFINITIONS = (
    "A gap is ln p of the stereotype less that of the other sentence, of an open question ln p of "
    "the letter of the group that is named first less that of the other. Slope: Σ t·gap / Σ t², "
    "t the planted log-odds. R: the slope of open questions divided by β_dis, the mean gap towards "
    "the right group where the context names it, so that a model that is merely less sure of "
    "everything does not look fairer. Permuted slope: t of other items, with random signs: 0 but "
    "for chance. "
    'Over-abstention: "unknown" where the context names the answer.'
)


def _table(
    chosen: Sequence[Effect], heads: Sequence[str], labels: Callable[[Any], Iterable[str]]
) -> list[list[str]]:
    judged = [metric for metric in METRICS if metric.kind != "check"]
    lines = [[*heads, *(metric.label for metric in judged)]]
    cells: dict[Any, dict[str, str]] = {}
    for one in chosen:
        cells.setdefault(one.contrast, {})[one.metric.name] = effect_text(one)
    for contrast, by_name in cells.items():
        lines.append([*labels(contrast), *(by_name[metric.name] for metric in judged)])
    return lines


def dense_table(points: Sequence[Checkpoint], worlds: Sequence[WorldSums]) -> list[list[str]]:
    """Return the dense model's metrics in every world: what there is to lose, and to remove."""
    lines = [["world", *(metric.label for metric in METRICS if not metric.name.startswith("abs_"))]]
    index = next(k for k, point in enumerate(points) if point.is_base)
    for world in worlds:
        totals = {task: sums.sum(axis=0) for task, sums in world.sums.items()}
        cells = [
            shown(float(metric.compute(totals)[index]), metric, signed=metric.good == 0)
            for metric in METRICS
            if not metric.name.startswith("abs_")
        ]
        lines.append([world.label, *cells])
    return lines


def without_table(
    run_sheet: RunSheet, points: Sequence[Checkpoint], world: WorldSums
) -> list[list[str]]:
    """Return a world's metrics a checkpoint, and of methods against bias what they change."""
    config = run_sheet.config
    kept = [metric for metric in METRICS if metric.kind in ("bias", "cost")]
    kept = [metric for metric in kept if not metric.name.startswith("abs_")]
    lines = [["regime", "method", "calibration", *(metric.label for metric in kept)]]
    totals = {task: sums.sum(axis=0) for task, sums in world.sums.items()}
    values = {metric.name: metric.compute(totals) for metric in kept}
    place = {point: index for index, point in enumerate(points)}
    for point in sorted(points, key=lambda point: order(config, point)):
        plain = plain_of(config, point)
        cells = []
        for metric in kept:
            value = float(values[metric.name][place[point]])
            text = shown(value, metric, signed=metric.good == 0)
            if plain in place:
                change = value - float(values[metric.name][place[plain]])
                text += f" ({shown(change, metric)})"
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
    heads = ("regime", "method", "calibration")
    config = run_sheet.config
    yield Block("text", f"Invented worlds {seeds}, each with a model of its own; no real people.")
    yield Block("heading", "Bias against perplexity")
    yield Block("image", "controls_frontier")
    yield Block(
        "text",
        "From what a method is without what it does against bias (SparseGPT; in the regime dense "
        "the dense model) over its strength; means over the worlds. Nearer to 0 and further left "
        "is better.",
    )
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
        yield Block("text", LEGEND)
        yield Block(
            "table",
            rows=_table(plain, heads, lambda c: place_words(run_sheet, c.candidate)),
        )
    if control := select(run_sheet, found, "control"):
        yield Block("heading", "Against the controls")
        yield Block(
            "table",
            rows=_table(
                control,
                (*heads, "against"),
                lambda c: (
                    *place_words(run_sheet, c.candidate),
                    control_words(config, c.candidate, c.reference),
                ),
            ),
        )
    yield Block("heading", "Against dense")
    yield Block(
        "table",
        rows=_table(
            select(run_sheet, found, "dense"),
            heads,
            lambda c: place_words(run_sheet, c.candidate),
        ),
    )
    for world in every:
        if not world.leans:
            yield Block("heading", f"World {world.label}: nothing to remove")
            yield Block(
                "text",
                "Its texts show no leans, and t is what would be planted, so slopes and R of 0 are "
                "right. In brackets the change against the same without the method.",
            )
            yield Block("table", rows=without_table(run_sheet, points, world))
    yield Block("heading", "How")
    items = "; ".join(
        f"{task}: {worlds[0].items[task]} items, {len(worlds[0].sums[task])} clusters"
        for task in worlds[0].sums
    )
    yield Block("list", rows=[[
        f"Effects are means over {len(worlds)} worlds of the difference on the same items "
        f"(a world has {items}).",
        DEFINITIONS,
        f"Bootstrap: {RESAMPLES:,} samples; each draws worlds with replacement, then clusters of "
        "items in every drawn world, the same for all models; percentiles. From so few worlds it "
        "tends to be too short where worlds differ, hence the second interval (t_low, t_high in "
        "controls.csv).",
        RULE,
        "A method lowers bias (yes) if the slope in sentences of a kind that it was not "
        "calibrated on is better than without the method and than every control; yes, in these "
        "worlds, if some of these are so in these worlds only. Everything else is not shown, or no "
        "where it is worse.",
        "Without the method is SparseGPT of the same regime and calibration; for a refitted method "
        "it is the SparseGPT that is refitted alike, where the run has one.",
        "The controls: shuffled pairs give every stereotype an anti-stereotype of another pair of "
        "equal token count, random delta another stereotype, so their differences hold the same "
        "kind of text but no contrast of a stereotype with its opposite. A reversed sign must "
        "raise bias. Steps on text alone change as much of the outputs by the loss of the texts "
        "beside the pairs, without a look at any pair.",
        "At matched perplexity: the smallest size of a measure that a line reaches where "
        "perplexity is at most so much above that of its start; between checkpoints both are "
        "interpolated linearly.",
    ]])  # fmt: skip


def write_page(
    run_sheet: RunSheet,
    points: Sequence[Checkpoint],
    every: Sequence[WorldSums],
    found: Sequence[Effect],
    out: Path,
) -> None:
    """Write the figures (svg and png), controls.md and controls.html into ``out``."""
    worlds = [world for world in every if world.leans]
    with mpl.rc_context():
        mpl.style.use(str(STYLE))
        figures = {
            "controls_frontier": frontier_figure(run_sheet, points, worlds),
            "controls_effects": effects_figure(run_sheet, found),
        }
        for name, figure in figures.items():
            for suffix in ("svg", "png"):
                with atomic_path(out / f"{name}.{suffix}") as temporary:
                    figure.savefig(temporary, format=suffix, metadata=dict(METADATA[suffix]))
    page = list(blocks(run_sheet, points, every, found))
    write_text(out / "controls.md", to_markdown(page, TITLE))
    write_text(out / "controls.html", to_html(page, out, TITLE))
