"""Fairness over performance with the utopia point: what the DTO is the distance in."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..analysis.labels import COLORS, MARKERS, method_label, model_label
from ..analysis.results import Quantity, groups
from ..analysis.run import WIDEST, Run
from .plots import SMALL, WIDTH, Drawing, Row, add_legend, primary
from .table_columns import DTO
from .tables import Z95

# Size of a marker by regime: the sparser, the larger.
SIZES = {"dense": 4.0, "u25": 3.5, "1of4": 4.5, "u50": 5.5, "2of4": 6.5}
LEAST = 10  # percent that the axes show at least


def draw(run: Run, slug: str) -> Drawing:
    """Return UnQover over MMLU accuracy with 95 % intervals: a panel a model.

    The utopia point is the upper right corner; on a dotted line the DTO is constant. Raises
    UserError without both benchmarks.
    """
    run_sheet, results = run.sheet, run.results
    across, up = primary(run_sheet, slug, "mmlu", "unqover")
    points = run.points(WIDEST, f"the figure {slug}")
    results.require(points)
    shown = groups(points)
    models = list(dict.fromkeys(group.model for group in shown))
    figure = Figure(figsize=(min(WIDTH, max(4.0, 2.6 * len(models))), 3.4))
    axes = figure.subplots(1, len(models), squeeze=False, sharex=True, sharey=True)
    rows: list[Row] = []
    lowest = 100.0 - LEAST
    for axis, model in zip(axes[0], models, strict=True):
        for group in (group for group in shown if group.model == model):
            distance = results.of(group, DTO)
            both = [results.of(group, Quantity(slug, "acc")) for slug in (across, up)]
            known = [one for one in both if one is not None]
            if len(known) < 2:
                continue
            base = run_sheet.base_method(group.method)
            place = [100 * one.value for one in known]
            halves = [100 * Z95 * (one.error or 0.0) for one in known]
            axis.errorbar(
                *([value] for value in place), xerr=halves[0], yerr=halves[1], linestyle="",
                color=COLORS[base], marker=MARKERS[base], markersize=SIZES.get(group.regime, 4.0),
                elinewidth=0.6, label=method_label(run_sheet, group.method),
            )  # fmt: skip
            lowest = min(lowest, place[0] - halves[0], place[1] - halves[1])
            row: Row = dict(group.named)
            for task, value, half in zip(("mmlu", "unqover"), place, halves):
                row |= {f"{task}_percent": f"{value:.3f}", f"{task}_half_width": f"{half:.3f}"}
            rows.append(row | {"dto": "" if distance is None else f"{distance.value:.4f}"})
        axis.set_title(model_label(run_sheet, model))
        axis.set_xlabel("MMLU (%) ↑")
    floor = max(0.0, 10 * np.floor(lowest / 10))
    for axis in axes[0]:
        _circles(axis, floor)
    axes[0][0].set_ylabel("UnQover (%) ↑")
    add_legend(figure, axes, 3)
    return Drawing(figure, rows)


def _circles(axis: Any, floor: float) -> None:
    """Draw the utopia point and about five lines of one DTO, each with its number at the top."""
    angles, room = np.linspace(np.pi, 1.5 * np.pi, 90), (100 - floor) / 100
    step = 0.1 if room > 0.4 else 0.05
    for distance in np.arange(step, room, step):
        radius = 100 * distance * np.sqrt(2)
        x, y = 100 + radius * np.cos(angles), 100 + radius * np.sin(angles)
        axis.plot(x, y, color="0.7", linewidth=0.6, linestyle=":", zorder=0)
        if 100 - radius > floor:
            axis.text(100 - radius, 100, f"DTO {distance:.2g}", color="0.4", fontsize=SMALL,
                      rotation=90, ha="right", va="top", zorder=0)  # fmt: skip
    axis.plot([100], [100], marker="*", markersize=9, color="0.1", linestyle="", clip_on=False,
              label="utopia point")  # fmt: skip
    axis.set_xlim(floor, 102)
    axis.set_ylim(floor, 102)
    axis.set_aspect("equal")
