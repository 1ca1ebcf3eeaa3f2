"""What pruning does to the error rate on UnQover: the paper's debiasgpt-motivation."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from ...base.errors import UserError
from ...plan.run_sheet import RunSheet
from ...plan.shown import FIGURES
from ..fields import category_order
from ..labels import CATEGORY_LABELS, COLORS, MARKERS, REGIME_LABELS, method_label, model_label
from ..plots import WIDTH, Drawing, add_legend
from ..render import Z95
from ..results import Group, Quantity, Results, dense_group, groups

EXPERIMENT = "regimes"


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return the change of 1 − A_unk against the dense model, in points, by sparsity and method.

    A panel a model and category, of the experiment ``regimes``; ``categories`` of the figure's
    entry keeps some. The interval is that of two independent shares, wider than a paired one.
    Raises UserError without UnQover or one of the categories.
    """
    categories = FIGURES[slug].get("categories")
    name = run_sheet.primary("unqover")
    if name is None:
        raise UserError(
            f"the figure {slug} shows UnQover, but the configuration has no benchmark with task "
            "unqover; add one or leave the figure out"
        )
    points = run_sheet.experiment(EXPERIMENT, f"the figure {slug}")
    results.require(points)
    metric = run_sheet.headline(name)
    have = category_order(results.categories(name, metric))
    shown = have if categories is None else [one for one in categories if one in have]
    if not shown:
        raise UserError(
            f"the figure {slug} shows the categories {', '.join(categories or ('any',))} of "
            f"UnQover, but {name} has {', '.join(have) or 'none'}; leave the figure out"
        )
    pruned = [group for group in groups(points) if not group.is_base]
    regimes = [
        regime for regime in REGIME_LABELS if any(group.regime == regime for group in pruned)
    ]
    models = [
        model
        for model in dict.fromkeys(group.model for group in pruned)
        if dense_group(run_sheet, model) is not None
    ]
    several = len(shown) > 1
    high = 0.95 * len(shown) + 0.7 if several else 2.2
    figure = Figure(figsize=(min(WIDTH, 2.4 * len(models) + 1.6), high))
    unit = "change of the error rate (points)"
    if several:
        figure.supylabel(unit, fontsize=8)
    axes = figure.subplots(len(shown), len(models), squeeze=False, sharex=True, sharey="row")
    rows: list[dict[str, Any]] = []
    for column, model in enumerate(models):
        for line, category in enumerate(shown):
            axis = axes[line][column]
            axis.axhline(0, color="0.2", linewidth=0.7)
            axis.grid(axis="y")
            mine = [group for group in pruned if group.model == model]
            quantity = Quantity(name, metric, category)
            for position, method in enumerate(dict.fromkeys(group.method for group in mine)):
                lines = [group for group in mine if group.method == method]
                found = [_change(run_sheet, results, group, quantity) for group in lines]
                rows += _draw_line(axis, run_sheet, regimes, lines, found, category, position)
            axis.set_xticks(range(len(regimes)), [REGIME_LABELS[one] for one in regimes])
            axis.set_xlim(-0.5, len(regimes) - 0.5)
            if line == 0 and len(models) > 1:
                axis.set_title(model_label(run_sheet, model))
            if column == 0:
                label = CATEGORY_LABELS.get(category, category)
                axis.set_ylabel(label if several else f"{label}\n{unit}")
            if line == len(shown) - 1:
                axis.set_xlabel("sparsity")
    add_legend(figure, axes)
    return Drawing(figure, tuple(rows[0]), rows)


def _change(
    run_sheet: RunSheet, results: Results, group: Group, quantity: Quantity
) -> tuple[float, float | None] | None:
    """Return (change of the error rate, its standard error) in points, None without a value."""
    dense = dense_group(run_sheet, group.model)
    before = results.of(dense, quantity) if dense is not None else None
    after = results.of(group, quantity)
    if before is None or after is None:
        return None
    error = None
    if before.error is not None and after.error is not None:
        error = 100 * math.hypot(before.error, after.error)
    return 100 * (before.value - after.value), error


def _draw_line(
    axis: Any,
    run_sheet: RunSheet,
    regimes: Sequence[str],
    lines: Sequence[Group],
    found: Sequence[tuple[float, float | None] | None],
    category: str,
    position: int,
) -> list[dict[str, Any]]:
    method = lines[0].method
    base = run_sheet.base_method(method)
    drawn, rows = [], []
    for group, change in zip(lines, found, strict=True):
        if change is None:
            continue
        half = None if change[1] is None else Z95 * change[1]
        drawn.append((regimes.index(group.regime), change[0], half or 0.0))
        rows.append(
            {
                "model": group.model,
                "method": method,
                "regime": group.regime,
                "calibration": group.calibration,
                "category": category,
                "change_points": f"{change[0]:.3f}",
                "ci_low": "" if half is None else f"{change[0] - half:.3f}",
                "ci_high": "" if half is None else f"{change[0] + half:.3f}",
            }
        )
    drawn.sort()
    # Methods stand beside each other, so that no interval hides another.
    axis.errorbar(
        [x + 0.12 * position - 0.18 for x, *_ in drawn],
        [y for _, y, _ in drawn],
        yerr=[half for *_, half in drawn],
        color=COLORS[base],
        marker=MARKERS[base],
        elinewidth=0.8,
        linewidth=0.8,
        label=method_label(run_sheet, method),
    )
    return rows
