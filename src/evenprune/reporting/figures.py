"""UnQover by category, as lines and as a heat map."""

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..analysis import labels
from ..analysis.results import Group, Measured, Quantity, Run, dense_group, groups
from ..config.facts import REGIMES
from ..config.table_registry import FIGURES
from ..io.errors import UserError
from . import plots
from .forms import ARROWS
from .table_columns import benchmark_column, category_order

STEP, MOST = 0.12, 0.7  # between lines, and all of them together; regimes are 1 apart
SHOWN = ("sparsegpt", "debias-sparsegpt")
ACROSS = 3  # panels in a line
# A model's rows: values, and their changes from dense in points.
Panel = dict[str, tuple[list[Measured | None], list[float]]]


def changes(run: Run, slug: str) -> plots.Drawing:
    """Return what pruning does to UnQover's error rate, in points: the paper's motivation.

    A panel a model and category, of the experiment ``regimes``; ``categories`` of the figure's
    entry keeps some.
    """
    run_sheet, results = run.sheet, run.results
    name = plots.benchmark(run_sheet, slug, "unqover")
    points = run_sheet.experiment("regimes", f"the figure {slug}")
    results.require(points)
    base, wanted = benchmark_column(run_sheet, name), FIGURES[slug].get("categories")
    have = category_order(results.categories(*base.quantity[:2]))
    shown = have if wanted is None else [one for one in wanted if one in have]
    if not shown:
        raise UserError(
            f"the figure {slug} shows the categories {', '.join(wanted or ('any',))} of UnQover, "
            f"but {name} has {', '.join(have) or 'none'}; leave the figure out"
        )
    pruned = [group for group in groups(points) if not group.is_base]
    order = [one for one in labels.REGIME_LABELS if any(group.regime == one for group in pruned)]
    models = [one for one in dict.fromkeys(g.model for g in pruned) if dense_group(run_sheet, one)]
    lines = list(dict.fromkeys((one.method, one.calibration) for one in pruned))
    several = len({calibration for _, calibration in lines if calibration != "none"}) > 1
    step = min(STEP, MOST / max(1, len(lines)))

    def panel(axis: Any, model: str, category: str) -> list[plots.Row]:
        """Draw a line a method and calibration, next to each other, so that no bar hides another.

        No line from the unstructured regimes to those of groups: no scale joins them.
        """
        quantity = base.quantity._replace(category=category)
        rows, dense = list[plots.Row](), dense_group(run_sheet, model)
        axis.axhline(0, color="0.2", linewidth=0.7)
        for index, (method, calibration) in enumerate(lines):
            label = labels.method_label(run_sheet, method)
            if several and calibration != "none":
                label += f", {labels.calibration_label(run_sheet, calibration)}"
            offset = step * (index - (len(lines) - 1) / 2)
            parts: dict[bool, list[plots.Point]] = {}
            for group in pruned:
                both = [(one, quantity) for one in (dense, group) if one]
                mine = group.key == (model, method, group.regime, calibration)
                estimate = run.estimates.of(np.subtract, *both) if mine else None
                if estimate is None:
                    continue
                change, width = 100 * estimate.value, estimate.half_width()
                half = 100 * (width or 0.0)
                row = {**group.named, "category": category}
                for key, end in (("change_points", 0.0), ("ci_low", -half), ("ci_high", half)):
                    known = width is not None or key == "change_points"
                    row[key] = f"{change + end:.3f}" if known else ""
                rows.append(row)
                points = parts.setdefault(REGIMES[group.regime].structured, [])
                points.append((order.index(group.regime) + offset, change, half))
            for points in parts.values():
                x, y, bars = zip(*sorted(points), strict=True)
                look = run_sheet.base_method(method)
                axis.errorbar(x, y, yerr=bars, color=labels.COLORS[look],
                              marker=labels.MARKERS[look], elinewidth=0.7, label=label)  # fmt: skip
        axis.set_xticks(range(len(order)), [labels.REGIME_LABELS[name] for name in order])
        axis.set_xlim(-0.5, len(order) - 0.5)
        axis.grid(axis="y")
        return rows

    figure, axes = plots.panel_grid(models, len(shown))
    rows: list[plots.Row] = []
    for model, column in zip(models, axes, strict=True):
        for category, axis in zip(shown, column, strict=True):
            rows += panel(axis, model, category)
            head = f"{labels.CATEGORY_LABELS.get(category, category)} {ARROWS['down']}"
            if len(models) == 1:
                axis.set_title(head)
            elif column is axes[0]:
                axis.set_ylabel(head)
        if len(models) > 1:
            column[0].set_title(labels.model_label(run_sheet, model))
    figure.supxlabel("sparsity regime", fontsize=8)
    figure.supylabel("change (points)", fontsize=8)
    plots.add_legend(figure, axes)
    ends = [end for axis in figure.axes for end in axis.get_ylim()]
    for axis in figure.axes:
        axis.set_ylim(min(ends), max(ends))
    return plots.Drawing(figure, rows)


def heatmap(run: Run, slug: str) -> plots.Drawing:
    """Return UnQover accuracy by category (fig:accuracy-heatmap): one panel a model.

    Rows are the dense model, SparseGPT and Debias-SparseGPT of the experiment ``main`` (else
    of the first one), columns the question categories in the paper's order. The colour is the
    difference to the dense model, grey where its 95 % interval covers 0.
    """
    run_sheet, results = run.sheet, run.results
    benchmark = plots.benchmark(run_sheet, slug, "unqover")
    points = run.points(("main", "*"), f"the figure {slug}")
    results.require(points)
    metric = run_sheet.headline(benchmark)
    categories = category_order(results.categories(benchmark, metric))
    shown = [one for one in groups(points) if run_sheet.base_method(one.method) in SHOWN]
    several = len({(group.regime, group.calibration) for group in shown}) > 1
    models = list(dict.fromkeys(point.model for point in points))
    rows: list[plots.Row] = []
    panels: dict[str, Panel] = {}

    def changed(group: Group, dense: Group | None, quantity: Quantity) -> float:
        """Return the difference in points; nan where it is not known or its interval covers 0."""
        if dense is None or group == dense:
            return math.nan
        difference = run.estimates.of(np.subtract, (group, quantity), (dense, quantity))
        half = difference.half_width() if difference else None
        if difference is None or half is None or abs(difference.value) <= half:
            return math.nan
        return 100 * difference.value

    for model in models:
        dense, lines = dense_group(run_sheet, model), Panel()
        for group in [*([dense] if dense else []), *(g for g in shown if g.model == model)]:
            label = labels.method_label(run_sheet, group.method)
            if several and not group.is_base:
                label += f" {labels.REGIME_LABELS[group.regime]}"
            quantities = [Quantity(benchmark, metric, name) for name in categories]
            values = [results.of(group, one) for one in quantities]
            lines[label] = values, [changed(group, dense, one) for one in quantities]
            for name, one in zip(categories, values, strict=True):
                row = {**group.named, "category": name}
                for end, part in (("", "value"), ("_printed", "printed")):
                    value = getattr(one, part, None)
                    row[f"accuracy_percent{end}"] = "" if value is None else f"{100 * value:.2f}"
                rows.append(row)
        title = labels.model_label(run_sheet, model)
        if shown and not several:
            title += f", {labels.REGIME_LABELS[shown[0].regime]}"
        panels[title] = lines
    names = [labels.CATEGORY_LABELS.get(name, name) for name in categories]
    return plots.Drawing(_heat(names, panels), rows)


def _text(after: Measured | None, before: Measured | None) -> str:
    if after is None:
        return "–"
    if before is None or before is after:
        return f"{100 * after.value:.1f}"
    return f"{100 * after.value:.1f}\n({100 * (after.value - before.value):+.1f})".replace("-", "−")


def _heat(names: list[str], panels: dict[str, Panel]) -> Figure:
    """Return a panel a model: accuracy and difference written, the difference as colour."""
    seen = np.abs(
        [one for lines in panels.values() for _, change in lines.values() for one in change]
    )
    widest = max(1.0, float(np.nanmax(seen)) if not np.isnan(seen).all() else 1.0)
    across, tallest = min(ACROSS, len(panels)), max(map(len, panels.values()))
    down = math.ceil(len(panels) / across)
    figure = Figure(figsize=(plots.WIDTH, down * (0.8 + 0.36 * tallest)))
    axes = list(figure.subplots(down, across, squeeze=False, sharex=True).ravel())
    for spare in axes[len(panels) :]:
        spare.set_visible(False)
    for place, (title, lines) in enumerate(panels.items()):
        axis, change = axes[place], [one for _, one in lines.values()]
        image = axis.imshow(change, aspect="auto", vmin=-widest, vmax=widest, cmap="PuOr")
        axis.set_title(title)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.set_facecolor("0.92")
        axis.set_xticks(range(len(names)), names, rotation=30 if across > 1 else 0)
        axis.set_yticks(range(len(lines)), [""] * len(lines) if place % across else list(lines))
        (dense, _), *_ = lines.values()
        for y, (shown, _) in enumerate(lines.values()):
            for x, pair in enumerate(zip(shown, dense, strict=True)):
                color = "white" if abs(change[y][x]) > 0.6 * widest else "black"
                axis.text(x, y, _text(*pair), ha="center", va="center", color=color,
                          fontsize=plots.SMALL)  # fmt: skip
    bar = "change from dense (points)"
    figure.colorbar(image, ax=axes[: len(panels)], label=bar, pad=0.02)
    return figure
