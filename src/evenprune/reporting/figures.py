"""UnQover by category, as lines and as a heat map; and bias over perplexity."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..analysis import labels
from ..analysis.results import Group, Measured, Quantity, dense_group, groups
from ..analysis.run import Run
from ..config.facts import REGIMES
from ..config.run_sheet import RunSheet
from ..config.table_registry import FIGURES
from ..io.errors import UserError
from . import plots
from .table_columns import Field, benchmark_field, category_order
from .tables import Column

BIAS = ("stereoset", "crows_pairs", "unqover", "bbq")
FILLS = ("full", "none", "left", "bottom")  # of the markers, by regime
STEP, MOST = 0.12, 0.7  # between lines, and all of them together; regimes are 1 apart
SHOWN = ("sparsegpt", "debias-sparsegpt")
ACROSS = 3  # panels in a line
# A model's rows: values, and their changes from dense in points.
Panel = dict[str, tuple[list[Measured | None], list[float]]]


def _panels(
    run_sheet: RunSheet,
    models: Sequence[str],
    fields: Sequence[Field],
    x_label: str,
    panel: Callable[[Any, str, Field], list[plots.Row]],
) -> plots.Drawing:
    """Return panels of quantities by model; ``panel`` draws one and returns its rows."""
    figure, axes = plots.panel_grid(models, len(fields))
    rows: list[plots.Row] = []
    for column, model in enumerate(models):
        for place, field in enumerate(fields):
            axis = axes[column][place]
            rows += panel(axis, model, field)
            axis.grid(axis="y")
            if len(models) == 1:
                axis.set_title(plots.axis_label(field))
            elif place == 0:
                axis.set_title(labels.model_label(run_sheet, model))
            if len(models) > 1 and column == 0:
                axis.set_ylabel(plots.axis_label(field))
    figure.supxlabel(x_label, fontsize=8)
    plots.add_legend(figure, axes)
    return plots.Drawing(figure, rows)


def _seen(run: Run, field: Field, found: Sequence[Group]) -> list[tuple[Group, Measured]]:
    """Return the grid points that have a value, with it."""
    return [(g, one) for g in found if (one := run.results.of(g, field.quantity)) is not None]


def changes(run: Run, slug: str) -> plots.Drawing:
    """Return what pruning does to UnQover's error rate, in points: the paper's motivation.

    A panel a model and category, of the experiment ``regimes``; ``categories`` of the figure's
    entry keeps some.
    """
    run_sheet, results = run.sheet, run.results
    (name,) = plots.primary(run_sheet, slug, "unqover")
    points = run_sheet.experiment("regimes", f"the figure {slug}")
    results.require(points)
    base, wanted = benchmark_field(run_sheet, name), FIGURES[slug].get("categories")
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

    def panel(axis: Any, model: str, field: Field) -> list[plots.Row]:
        """Draw a line a method and calibration, next to each other, so that no bar hides another.

        No line from the unstructured regimes to those of groups: no scale joins them.
        """
        rows, dense = list[plots.Row](), dense_group(run_sheet, model)
        axis.axhline(0, color="0.2", linewidth=0.7)
        for index, (method, calibration) in enumerate(lines):
            label = labels.method_label(run_sheet, method)
            if several and calibration != "none":
                label += f", {labels.calibration_label(run_sheet, calibration)}"
            offset = step * (index - (len(lines) - 1) / 2)
            parts: dict[bool, list[plots.Point]] = {}
            for group in pruned:
                both = [(one, field.quantity) for one in (dense, group) if one]
                mine = group.key == (model, method, group.regime, calibration)
                estimate = run.estimates.of(np.subtract, *both) if mine else None
                if estimate is None:
                    continue
                change, width = 100 * estimate.value, estimate.half_width()
                half = 100 * (width or 0.0)
                row = {**group.named, "category": field.quantity.category}
                for key, end in (("change_points", 0.0), ("ci_low", -half), ("ci_high", half)):
                    known = width is not None or key == "change_points"
                    row[key] = f"{change + end:.3f}" if known else ""
                rows.append(row)
                points = parts.setdefault(REGIMES[group.regime].structured, [])
                points.append((order.index(group.regime) + offset, change, half))
            for points in parts.values():
                plots.plot_line(axis, sorted(points), run_sheet.base_method(method), label)
        axis.set_xticks(range(len(order)), [labels.REGIME_LABELS[name] for name in order])
        axis.set_xlim(-0.5, len(order) - 0.5)
        return rows

    columns = [Column(one, labels.CATEGORY_LABELS.get(one, one), direction="down") for one in shown]
    fields = [Field(one, base.quantity._replace(category=one.key)) for one in columns]
    drawing = _panels(run_sheet, models, fields, "sparsity regime", panel)
    drawing.figure.supylabel("change (points)", fontsize=8)
    ends = [end for axis in drawing.figure.axes for end in axis.get_ylim()]
    for axis in drawing.figure.axes:
        axis.set_ylim(min(ends), max(ends))
    return drawing


def frontier(run: Run, slug: str) -> plots.Drawing:
    """Return each measure of bias over perplexity: how much less bias, and what that costs.

    The variants of one method on one calibration are joined in the order of their perplexity; a
    number at a point is the option in which they differ.
    """
    run_sheet, results = run.sheet, run.results
    points = run_sheet.experiment(slug, f"the figure {slug}")
    results.require(points)
    (cost,) = plots.primary(run_sheet, slug, "perplexity")
    named = [name for task in BIAS if (name := run_sheet.primary(task)) is not None]
    if not named:
        plots.primary(run_sheet, slug, *BIAS)
    over = benchmark_field(run_sheet, cost)
    pruned = [group for group in groups(points) if not group.is_base]
    # One line: a method's variants of one regime and calibration that differ in numbers.
    lines: dict[tuple[str, str, str, str, str], list[Group]] = {}
    for group in pruned:
        words = ", ".join(v for v in _own(run_sheet, group).values() if isinstance(v, str))
        base = run_sheet.base_method(group.method)
        key = (group.model, base, group.regime, group.calibration, words)
        lines.setdefault(key, []).append(group)
    looks = dict(zip(sorted({key[4] for key in lines}), ("-", "--", ":", "-.")))
    fills = dict(zip([r for r in labels.REGIME_LABELS if r in {key[2] for key in lines}], FILLS))
    calibrations = {key[3] for key in lines} - {"none"}

    def panel(axis: Any, model: str, field: Field) -> list[plots.Row]:
        rows, dense = [], dense_group(run_sheet, model)
        mine = {key: members for key, members in lines.items() if key[0] == model}
        if dense is not None:
            mine = {(model, "dense", "dense", "none", ""): [dense], **mine}
        if field.column.direction == "half":
            axis.axhline(50, color="0.2", linewidth=0.7)
        for (_, base, regime, calibration, words), members in mine.items():
            costs = {one: seen.value for one, seen in _seen(run, over, members)}
            seen = {one: y for one, y in _seen(run, field, members) if one in costs}
            scale = field.column.scale
            bars = [
                ((costs[group], scale * y.value, plots.half_width(y, scale)), group)
                for group, y in seen.items()
            ]
            rows += [plots.line_rows(field, g, seen[g], f"{point[0]:.4f}") for point, g in bars]
            label = labels.METHOD_LABELS[base]
            if base != "dense" and len(fills) > 1:
                label += f" {labels.REGIME_LABELS[regime]}"
            if calibration != "none" and len(calibrations) > 1:
                label += f", {labels.calibration_label(run_sheet, calibration)}"
            label += f", {words}" if words else ""
            if bars:
                bars.sort(key=lambda one: one[0])
                look = {"linestyle": looks.get(words, "-"), "fillstyle": fills.get(regime, "full")}
                line = [point for point, _ in bars]
                plots.plot_line(axis, line, base, label, linewidth=0.8, **look)
            color = labels.COLORS[base]
            for (x, y, _), group in bars:
                text = _strength(run_sheet, group, members)
                axis.annotate(text, (x, y), xytext=(-3, 3), textcoords="offset points",
                              fontsize=plots.SMALL, color=color, ha="right")  # fmt: skip
        plots.scale_perplexity(axis)
        return rows

    models = list(dict.fromkeys(group.model for group in pruned))
    fields = [benchmark_field(run_sheet, one) for one in named]
    return _panels(run_sheet, models, fields, f"{over.column.head} ↓", panel)


def _own(run_sheet: RunSheet, group: Group) -> dict[str, Any]:
    """Return the options that a variant sets by itself."""
    variant = run_sheet.config.methods.get(group.method)
    return variant.model_dump(exclude_none=True, exclude={"method", "label"}) if variant else {}


def _strength(run_sheet: RunSheet, group: Group, members: Sequence[Group]) -> str:
    """Return the values of the options, other than words, in which variants differ."""
    own = {one.method: _own(run_sheet, one) for one in members}
    usual = run_sheet.config.pruning.model_dump()
    names = dict.fromkeys(key for found in own.values() for key in found)
    values = [own[group.method].get(name, usual[name]) for name in names]
    shown = [one for one in values if not isinstance(one, str)]
    return ", ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in shown)


def heatmap(run: Run, slug: str) -> plots.Drawing:
    """Return UnQover accuracy by category (fig:accuracy-heatmap): one panel a model.

    Rows are the dense model, SparseGPT and Debias-SparseGPT of the experiment ``main`` (else
    of the first one), columns the question categories in the paper's order. The colour is the
    difference to the dense model, grey where its 95 % interval covers 0.
    """
    run_sheet, results = run.sheet, run.results
    (benchmark,) = plots.primary(run_sheet, slug, "unqover")
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
