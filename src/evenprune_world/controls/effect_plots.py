"""The two figures of the page: bias against perplexity, and every checkpoint's effects."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from evenprune.plan.grids import Checkpoint, base_method
from evenprune.plan.run_sheet import RunSheet
from evenprune.reporting.labels import (
    COLORS,
    MARKERS,
    METHOD_LABELS,
    REGIME_LABELS,
    calibration_label,
)
from evenprune.reporting.plots import WIDTH

from .contrasts import is_control
from .effects import Effect, values_by_world
from .frontier import COMPARED, Line, lines
from .runs import WorldSums
from .sums import BY_NAME
from .wording import CONTROL_LABELS, REGIME_ORDER, place_words, select

CONTROL_STYLES = {
    "shuffled-pairs": ("--", "0.35"),
    "random-delta": (":", "0.35"),
    "reversed": ("-.", "#CC0000"),
    "text": ("--", "#8C6D1F"),
}
TITLES = {
    "nll": "loss\n(nats)", "acc_dis": "disamb.\naccuracy", "r_bbq": "R BBQ\n× 100",
    "r_unqover": "R UnQover\n× 100",
}  # fmt: skip
DRAWN = ("slope_stereoset", "slope_crows_pairs", "r_bbq", "r_unqover", "nll", "mmlu", "acc_dis")


def frontier_figure(
    run_sheet: RunSheet, points: Sequence[Checkpoint], worlds: Sequence[WorldSums]
) -> Figure:
    """Return bias over the change of perplexity, a row a measure and a column a regime.

    A line joins a method's checkpoints by strength, from what it is without; means over worlds. The
    panels are those of the candidates: a reversed sign may raise bias far out of them.
    """
    config = run_sheet.config
    every = lines(config, points)
    place = {point: index for index, point in enumerate(points)}
    regimes = [r for r in REGIME_ORDER if any(line.points[1].regime == r for line in every)]
    loss = values_by_world(worlds, BY_NAME["nll"])
    figure = Figure(figsize=(WIDTH, 1.9 + 1.55 * len(COMPARED)))
    axes = figure.subplots(
        len(COMPARED), max(1, len(regimes)), squeeze=False, sharex="col", sharey="row"
    )
    spans: dict[tuple[str, int], list[float]] = defaultdict(list)
    plain_calibrations = list(dict.fromkeys(line.calibration for line in every if not line.control))
    for row, name in enumerate(COMPARED):
        metric = BY_NAME[name]
        values = values_by_world(worlds, metric)
        dense = next((place[p] for p in points if p.is_base), None)
        for column, regime in enumerate(regimes):
            axis = axes[row][column]
            if dense is not None:
                level = metric.scale * values[:, dense].mean()
                spans["y", row] += [0.0, level]
                axis.axhline(level, color="0.6", linewidth=0.7, linestyle=":", label="dense model")
            axis.axhline(0, color="0.2", linewidth=0.7)
            for line in every:
                if line.points[1].regime != regime:
                    continue
                at = [place[point] for point in line.points]
                cost = 100 * np.expm1(loss[:, at] - loss[:, at[:1]]).mean(axis=0)
                style, color = CONTROL_STYLES.get(line.control, ("-", COLORS[line.method]))
                label = _line_label(run_sheet, line, len(plain_calibrations) > 1)
                level = metric.scale * values[:, at].mean(axis=0)
                if not line.control:
                    spans["x", column] += [*cost]
                    spans["y", row] += [*level]
                # Hollow: a second calibration of the same method.
                other = not line.control and line.calibration != plain_calibrations[0]
                axis.plot(
                    cost, level, linestyle=style, color=color,
                    markerfacecolor="white" if other else color,
                    marker=MARKERS[line.method], markersize=2.5 if line.control else 4,
                    linewidth=0.8 if line.control else 1.2, label=label,
                )  # fmt: skip
            axis.grid(axis="y")
            axis.locator_params(axis="x", nbins=4)
        axes[row][0].set_ylabel(metric.label.replace("slope ", "slope\n"))
    for column, regime in enumerate(regimes):
        axes[0][column].set_title(REGIME_LABELS[regime])
        axes[-1][column].set_xlabel("perplexity, change (%)")
    for (side, index), held in spans.items():
        margin = 0.08 * (max(held) - min(held) or 1.0)
        ends = min(held) - margin, max(held) + margin
        for axis in axes[:, index] if side == "x" else axes[index]:
            axis.set(**{f"{side}lim": ends})
    entries: dict[str, Any] = {}
    for axis in axes.ravel():
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=2)
    return figure


def _line_label(run_sheet: RunSheet, line: Line, with_calibration: bool) -> str:
    if line.control:
        return f"{METHOD_LABELS[line.method]}: {CONTROL_LABELS[line.control]}"
    calibration = calibration_label(run_sheet, line.calibration, texts=False)
    return METHOD_LABELS[line.method] + with_calibration * f", {calibration}"


def effects_figure(run_sheet: RunSheet, found: Sequence[Effect]) -> Figure:
    """Return every checkpoint's effects against what it is without the method, and the controls'.

    A row a checkpoint, a panel a metric; small dots are the worlds. Wider than a page of paper: it
    stands in the web page alone.
    """
    config = run_sheet.config
    first = select(run_sheet, found, "plain", DRAWN[0])
    rows = {one.contrast.candidate: index for index, one in enumerate(first)}
    figure = Figure(figsize=(1.7 * WIDTH, 0.9 + 0.24 * max(4, len(rows))))
    axes = figure.subplots(1, len(DRAWN), squeeze=False, sharey=True)[0]
    for axis, name in zip(axes, DRAWN, strict=True):
        metric = BY_NAME[name]
        for one in select(run_sheet, found, "plain", name):
            point = one.contrast.candidate
            base = base_method(config, point.method)
            color = "0.55" if is_control(config, point) else COLORS[base]
            ends = one.effect - one.ci.low, one.ci.high - one.effect
            axis.errorbar(
                [metric.scale * one.effect], [rows[point]],
                xerr=[[metric.scale * max(0.0, end)] for end in ends], color=color,
                marker=MARKERS[base], markersize=3, elinewidth=0.8, linestyle="none",
            )  # fmt: skip
            values, height = [metric.scale * value for value in one.by_world], rows[point] - 0.25
            axis.plot(values, [height] * len(values), ".", markersize=1.5, color=color)
        axis.axvline(0, color="0.4", linewidth=0.7, linestyle="--")
        axis.set_title(TITLES.get(name, metric.label.replace(" ", "\n", 1)), fontsize=7)
        axis.locator_params(axis="x", nbins=3)
        axis.tick_params(labelsize=7)
        axis.grid(axis="x")
        # A line where the regime or the calibration is another one.
        for (above, place), below in zip(rows.items(), [*rows][1:], strict=False):
            if (above.regime, above.calibration) != (below.regime, below.calibration):
                axis.axhline(place + 0.5, color="0.8", linewidth=0.6)
    axes[0].set_yticks(range(len(rows)), [", ".join(place_words(run_sheet, p)) for p in rows])
    axes[0].invert_yaxis()
    return figure
