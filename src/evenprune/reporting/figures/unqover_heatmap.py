"""UnQover accuracy by question category, as a heat map."""

import math
from typing import Any

from matplotlib.figure import Figure

from ...base.errors import UserError
from ...plan.run_sheet import RunSheet
from ..described import experiment_of
from ..fields import category_order
from ..labels import CATEGORY_LABELS, REGIME_LABELS, method_label, model_label
from ..plots import WIDTH, Drawing, write_values
from ..results import Group, Quantity, Results, dense_group, groups

# Title, labels of the lines, accuracies in percent, and whether the first line is the dense model.
Panel = tuple[str, list[str], list[list[float]], bool]


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return UnQover accuracy by category (fig:accuracy-heatmap): one panel a model.

    Rows are the dense model, SparseGPT and Debias-SparseGPT of the experiment ``main`` (else
    of the first one), columns the question categories in the paper's order. Beneath each panel
    stand the differences to the dense model, on a scale of their own. Titles name the regime.
    """
    benchmark = run_sheet.primary("unqover")
    if benchmark is None:
        raise UserError(
            f"the figure {slug} shows UnQover, but the configuration has no benchmark with task "
            "unqover; add one or leave the figure out"
        )
    experiment = experiment_of(run_sheet, ("main", "*"))
    points = run_sheet.experiment(experiment, f"the figure {slug}")
    results.require(points)
    metric = run_sheet.headline(benchmark)
    categories = category_order(results.categories(benchmark, metric))
    models = list(dict.fromkeys(point.model for point in points))
    shown = [
        group
        for group in groups(points)
        if run_sheet.base_method(group.method) in ("sparsegpt", "debias-sparsegpt")
    ]
    several = len({(group.regime, group.calibration) for group in shown}) > 1
    rows: list[dict[str, Any]] = []
    panels: list[Panel] = []
    for model in models:
        dense = dense_group(run_sheet, model)
        mine = [group for group in shown if group.model == model]
        lines: list[Group] = ([dense] if dense else []) + mine
        labels, values = [], []
        for group in lines:
            label = method_label(run_sheet, group.method)
            if several and not group.is_base:
                label += f" {REGIME_LABELS[group.regime]}"
            labels.append(label)
            found = [results.of(group, Quantity(benchmark, metric, name)) for name in categories]
            values.append([math.nan if one is None else 100 * one.value for one in found])
            for name, one in zip(categories, found, strict=True):
                rows.append(
                    {
                        "model": model,
                        "method": group.method,
                        "regime": group.regime,
                        "calibration": group.calibration,
                        "category": name,
                        "accuracy_percent": "" if one is None else f"{100 * one.value:.2f}",
                        "accuracy_percent_printed": (
                            "" if one is None or one.printed is None else f"{100 * one.printed:.2f}"
                        ),
                    }
                )
        title = model_label(run_sheet, model)
        if mine and not several:
            title += f", {REGIME_LABELS[mine[0].regime]}"
        panels.append((title, labels, values, dense is not None))
    figure = _panels([CATEGORY_LABELS.get(name, name) for name in categories], panels)
    return Drawing(figure, tuple(rows[0]), rows)


def _panels(names: list[str], panels: list[Panel]) -> Figure:
    """Return a figure with accuracies above and differences to the dense model below."""
    columns = min(3, len(panels))
    blocks = math.ceil(len(panels) / columns)
    tallest = max(len(labels) for _, labels, *_ in panels)
    figure = Figure(figsize=(WIDTH, blocks * (1.7 + 0.5 * tallest)))
    axes = figure.subplots(
        2 * blocks, columns, squeeze=False, height_ratios=[tallest, max(1, tallest - 1)] * blocks
    )
    changes = [
        [[value - base for value, base in zip(line, values[0], strict=True)] for line in values[1:]]
        for _, _, values, dense in panels
        if dense
    ]
    flat = [abs(one) for block in changes for line in block for one in line if not math.isnan(one)]
    widest = max([1.0, *flat])
    drawn: list[list[Any]] = [[], []]
    images: list[Any] = [None, None]
    for axis in axes.ravel():
        axis.set_visible(False)
    for index, (title, labels, values, dense) in enumerate(panels):
        line, column = divmod(index, columns)
        same = column > 0 and labels == panels[index - 1][1]
        upper = axes[2 * line][column]
        images[0] = _panel(upper, names, labels, values, (0, 100), "Blues", same)
        upper.set_title(title)
        drawn[0].append(upper)
        write_values(upper, values, 60)
        if not dense or len(values) < 2:
            continue
        lower = axes[2 * line + 1][column]
        upper.set_xticks([])
        change = [
            [value - base for value, base in zip(one, values[0], strict=True)] for one in values[1:]
        ]
        images[1] = _panel(lower, names, labels[1:], change, (-widest, widest), "PuOr", same)
        drawn[1].append(lower)
        for y, one in enumerate(change):
            for x, value in enumerate(one):
                color = "white" if abs(value) > 0.6 * widest else "black"
                text = f"{value:+.1f}".replace("-", "−")
                lower.text(x, y, text, ha="center", va="center", color=color, fontsize=7)
        if columns > 1:
            lower.tick_params(axis="x", rotation=30)
    for image, used, label in zip(images, drawn, ("accuracy (%)", "change (points)"), strict=True):
        if used:
            figure.colorbar(image, ax=used, label=label, pad=0.02)
    return figure


def _panel(
    axis: Any,
    names: list[str],
    labels: list[str],
    values: list[list[float]],
    ends: tuple[float, float],
    colors: str,
    same: bool,
) -> Any:
    """Draw one heat map; ``same``: its neighbour has the labels already."""
    axis.set_visible(True)
    image = axis.imshow(values, vmin=ends[0], vmax=ends[1], cmap=colors, aspect="auto")
    axis.set_xticks(range(len(names)), names)
    axis.set_yticks(range(len(labels)), [""] * len(labels) if same else labels)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    return image
