"""A comparison as a figure: differences and their intervals, ratios of perplexities apart."""

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ..stats.verdicts import LOOKS
from .differences import Difference
from .report import Comparison

COLORS = {"good": "#00613f", "bad": "#a02000"}


def drawn(comparison: Comparison) -> Figure:
    """Return a figure with a column of panels for each pruned model."""
    kinds = [
        [[row for row in block.rows if row.ratio == ratio] for block in comparison.blocks]
        for ratio in (False, True)
    ]
    shown = [kind for kind in kinds if any(kind)]
    heights, wide = [max(map(len, kind)) for kind in shown], len(comparison.blocks)
    figure, axes = plt.subplots(
        len(shown), wide, squeeze=False, layout="constrained", height_ratios=heights,
        figsize=(7 * wide, 1.2 + 0.3 * sum(heights)),
    )  # fmt: skip
    plt.close(figure)  # a notebook shows what is returned, and would show an open one again
    for line, kind in zip(axes, shown):
        for axis, rows in zip(line, kind):
            _panel(axis, rows)
    for axis, block in zip(axes[0], comparison.blocks):
        axis.set_title(f"{block.pruned} against {comparison.dense}", fontsize="medium", wrap=True)
    return figure


def _panel(axis: Any, rows: list[Difference]) -> None:
    ratio = any(row.ratio for row in rows)
    for place, row in enumerate(rows):
        color = COLORS.get(LOOKS.get(row.verdict, ""), "#555555")
        ends = (row.family_low, row.family_high)
        if None not in ends:
            axis.plot(ends, (place, place), color=color)
        if row.difference is not None:
            axis.plot(row.difference, place, "o", color=color)
        axis.annotate(
            row.verdict, (1.02, place), xycoords=("axes fraction", "data"), va="center",
            fontsize="small", color=color, annotation_clip=False,
        )  # fmt: skip
    axis.axvline(1 if ratio else 0, color="#999999", linewidth=0.8, zorder=0)
    axis.set_yticks(range(len(rows)), [f"{row.benchmark} {row.metric}" for row in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlabel("pruned / dense" if ratio else "pruned − dense")
