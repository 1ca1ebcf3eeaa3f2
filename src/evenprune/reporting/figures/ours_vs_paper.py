"""Every number of the run over the paper's, with the line of identity."""

from typing import Any

from matplotlib.figure import Figure

from ...base.errors import UserError
from ...plan.run_sheet import RunSheet
from ..beside import agreement
from ..labels import COLORS, MARKERS, METHOD_LABELS
from ..paired import Pair, pairs
from ..plots import WIDTH, Drawing, add_legend
from ..render import Z95, covered, interval
from ..results import Results

# Panels: title, scale, and which numbers; the last one takes the rest.
PERCENT, RATIO = "accuracies and CrowS-Pairs (%)", "rates, DTO, masks (0–1)"
OTHER = "perplexity, tokens/s (log)"


def kind(pair: Pair) -> str:
    """Return the panel of a number: by what it is measured in."""
    if pair.column.scale == 100:
        return PERCENT
    speed = pair.quantity.metric == "decode_tok_per_s"
    return OTHER if speed or pair.column.group == "perplexity" else RATIO


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return our numbers over the printed ones: a panel a unit, hollow where not covered.

    Bars are our 95 % intervals. Raises UserError where nothing has a printed counterpart.
    """
    found = pairs(run_sheet, results)
    if not found:
        raise UserError(
            f"the figure {slug} shows numbers that the paper prints too, and this run has none: "
            "expected the paper's models, methods and calibrations by their catalogue names, "
            "measured as in plan/declared.py; leave the figure out of other runs"
        )
    kinds = [one for one in (PERCENT, RATIO, OTHER) if any(kind(pair) == one for pair in found)]
    figure = Figure(figsize=(WIDTH, 2.7))
    axes = figure.subplots(1, len(kinds), squeeze=False)
    rows: list[dict[str, Any]] = []
    for axis, title in zip(axes[0], kinds, strict=True):
        mine = [pair for pair in found if kind(pair) == title]
        for pair in mine:
            _point(axis, run_sheet, pair)
            rows.append(_row(title, pair))
        scale = mine[0].column.scale
        ends = [
            scale * value
            for pair in mine
            for value in (pair.cell.value, pair.cell.printed)
            if value is not None
        ]
        low, high = min(ends), max(ends)
        if title == OTHER and low > 0:
            axis.set_xscale("log")
            axis.set_yscale("log")
        axis.plot([low, high], [low, high], color="0.3", linewidth=0.7, zorder=0)
        axis.set_title(f"{title}\n{_words(mine)}")
        axis.set_xlabel("paper")
    axes[0][0].set_ylabel("this run")
    add_legend(figure, axes)
    return Drawing(figure, tuple(rows[0]), rows)


def _words(mine: list[Pair]) -> str:
    found = agreement((pair.column, pair.cell) for pair in mine)
    return f"{found.inside} of {found.tested} within the interval"


def _point(axis: Any, run_sheet: RunSheet, pair: Pair) -> None:
    base, scale = run_sheet.base_method(pair.group.method), pair.column.scale
    inside = covered(pair.column, pair.cell)
    axis.errorbar(
        [scale * (pair.cell.printed or 0.0)],
        [scale * (pair.cell.value or 0.0)],
        yerr=[scale * Z95 * (pair.cell.error or 0.0)],
        color=COLORS[base],
        marker=MARKERS[base],
        markersize=3,
        markerfacecolor="white" if inside is False else COLORS[base],
        elinewidth=0.5,
        linestyle="",
        label=METHOD_LABELS[base],
    )


def _row(title: str, pair: Pair) -> dict[str, Any]:
    ends, scale = interval(pair.cell), pair.column.scale
    inside = covered(pair.column, pair.cell)
    group = pair.group
    return {
        "panel": title,
        "model": group.model,
        "method": group.method,
        "regime": group.regime,
        "calibration": group.calibration,
        "number": pair.name,
        "ours": f"{scale * (pair.cell.value or 0.0):.4f}",
        "ci_low": "" if ends is None else f"{scale * ends[0]:.4f}",
        "ci_high": "" if ends is None else f"{scale * ends[1]:.4f}",
        "printed": f"{scale * (pair.cell.printed or 0.0):.4f}",
        "covered": "" if inside is None else str(int(inside)),
    }
