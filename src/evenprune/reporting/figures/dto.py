"""Fairness over performance with the utopia point: what the DTO is the distance in."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ...base.errors import UserError
from ...plan.run_sheet import RunSheet
from ..described import WIDEST, experiment_of
from ..labels import COLORS, MARKERS, REGIME_LABELS, method_label, model_label
from ..plots import WIDTH, Drawing, add_legend
from ..render import Z95
from ..results import Quantity, Results, groups

# Size of a marker by regime: the sparser, the larger.
CORNERS = ((-3, -3), (-3, 3), (3, -3), (3, 3))
SIZES = {"dense": 4.0, "u25": 3.5, "1of4": 4.5, "u50": 5.5, "2of4": 6.5}


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return UnQover over MMLU accuracy with 95 % intervals: a panel a model.

    The utopia point is the upper right corner; on a dotted line the DTO is constant. Raises
    UserError without both benchmarks.
    """
    names = {task: run_sheet.primary(task) for task in ("mmlu", "unqover")}
    across, up = names["mmlu"], names["unqover"]
    if across is None or up is None:
        raise UserError(
            f"the figure {slug} shows MMLU and UnQover, but the configuration has no benchmark "
            f"with task {' and '.join(task for task, one in names.items() if one is None)}; add "
            "it or leave the figure out"
        )
    points = run_sheet.experiment(experiment_of(run_sheet, WIDEST), f"the figure {slug}")
    results.require(points)
    shown = groups(points)
    models = list(dict.fromkeys(group.model for group in shown))
    figure = Figure(figsize=(min(WIDTH, max(4.6, 2.6 * len(models))), 3.4))
    axes = figure.subplots(1, len(models), squeeze=False, sharex=True, sharey=True)
    rows: list[dict[str, Any]] = []
    lowest = 100.0
    for axis, model in zip(axes[0], models, strict=True):
        for group in (group for group in shown if group.model == model):
            x = results.of(group, Quantity(across, "acc"))
            y = results.of(group, Quantity(up, "acc"))
            distance = results.of(group, Quantity("dto", "dto"))
            if x is None or y is None:
                continue
            base = run_sheet.base_method(group.method)
            halves = [100 * Z95 * (one.error or 0.0) for one in (x, y)]
            axis.errorbar(
                [100 * x.value],
                [100 * y.value],
                xerr=halves[0],
                yerr=halves[1],
                color=COLORS[base],
                marker=MARKERS[base],
                markersize=SIZES.get(group.regime, 4.0),
                elinewidth=0.6,
                linestyle="",
                label=method_label(run_sheet, group.method),
            )
            if not group.is_base:
                # Methods have their texts at different corners of the marker.
                corner = CORNERS[list(COLORS).index(base) % len(CORNERS)]
                axis.annotate(
                    REGIME_LABELS[group.regime],
                    (100 * x.value, 100 * y.value),
                    xytext=corner,
                    textcoords="offset points",
                    ha="left" if corner[0] > 0 else "right",
                    va="bottom" if corner[1] > 0 else "top",
                    fontsize=7,
                    color=COLORS[base],
                )
            lowest = min(lowest, 100 * x.value - halves[0], 100 * y.value - halves[1])
            rows.append(
                {
                    "model": model,
                    "method": group.method,
                    "regime": group.regime,
                    "calibration": group.calibration,
                    "mmlu_percent": f"{100 * x.value:.3f}",
                    "mmlu_half_width": f"{halves[0]:.3f}",
                    "unqover_percent": f"{100 * y.value:.3f}",
                    "unqover_half_width": f"{halves[1]:.3f}",
                    "dto": "" if distance is None else f"{distance.value:.4f}",
                }
            )
        if len(models) > 1:
            axis.set_title(model_label(run_sheet, model))
        axis.set_xlabel("MMLU (%)")
    floor = max(0.0, 10 * np.floor(lowest / 10))
    for axis in axes[0]:
        _circles(axis, floor)
    axes[0][0].set_ylabel("UnQover (%)")
    add_legend(figure, axes, 3)
    return Drawing(figure, tuple(rows[0]), rows)


def _circles(axis: Any, floor: float) -> None:
    """Draw the utopia point and the lines of one DTO, from ``floor`` percent up."""
    angles = np.linspace(np.pi, 1.5 * np.pi, 90)
    for distance in np.arange(0.1, 1.0, 0.1):
        radius = 100 * distance * np.sqrt(2)
        x, y = 100 + radius * np.cos(angles), 100 + radius * np.sin(angles)
        axis.plot(x, y, color="0.75", linewidth=0.6, linestyle=":", zorder=0)
        # The text stands on the diagonal, half a radius of the square's corner away.
        place = 100 - 100 * distance
        if place > floor + 2:
            axis.text(place, place, f"{distance:.1f}", color="0.5", fontsize=7, ha="center",
                      va="center", zorder=0)  # fmt: skip
    axis.plot([100], [100], marker="*", markersize=9, color="0.1", linestyle="", clip_on=False,
              label="utopia point")  # fmt: skip
    axis.set_xlim(floor, 102)
    axis.set_ylim(floor, 102)
    axis.set_aspect("equal")
