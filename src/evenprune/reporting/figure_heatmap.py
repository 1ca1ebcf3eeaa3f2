"""UnQover accuracy by question category, and what pruning changed, as a heat map."""

import math

import numpy as np
from matplotlib.figure import Figure

from ..analysis.labels import CATEGORY_LABELS, REGIME_LABELS, method_label, model_label
from ..analysis.results import Group, Measured, Quantity, dense_group, groups
from ..analysis.run import Run
from .plots import SMALL, WIDTH, Drawing, Row, primary
from .table_columns import category_order

SHOWN = ("sparsegpt", "debias-sparsegpt")
ACROSS = 3  # panels in a line
# A model's rows: values, and their changes from dense in points.
Panel = dict[str, tuple[list[Measured | None], list[float]]]


def draw(run: Run, slug: str) -> Drawing:
    """Return UnQover accuracy by category (fig:accuracy-heatmap): one panel a model.

    Rows are the dense model, SparseGPT and Debias-SparseGPT of the experiment ``main`` (else
    of the first one), columns the question categories in the paper's order. The colour is the
    difference to the dense model, grey where its 95 % interval covers 0.
    """
    run_sheet, results = run.sheet, run.results
    (benchmark,) = primary(run_sheet, slug, "unqover")
    points = run.points(("main", "*"), f"the figure {slug}")
    results.require(points)
    metric = run_sheet.headline(benchmark)
    categories = category_order(results.categories(benchmark, metric))
    shown = [one for one in groups(points) if run_sheet.base_method(one.method) in SHOWN]
    several = len({(group.regime, group.calibration) for group in shown}) > 1
    models = list(dict.fromkeys(point.model for point in points))
    rows: list[Row] = []
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
            label = method_label(run_sheet, group.method)
            if several and not group.is_base:
                label += f" {REGIME_LABELS[group.regime]}"
            quantities = [Quantity(benchmark, metric, name) for name in categories]
            values = [results.of(group, one) for one in quantities]
            lines[label] = values, [changed(group, dense, one) for one in quantities]
            for name, one in zip(categories, values, strict=True):
                row = {**group.named, "category": name}
                for end, part in (("", "value"), ("_printed", "printed")):
                    value = getattr(one, part, None)
                    row[f"accuracy_percent{end}"] = "" if value is None else f"{100 * value:.2f}"
                rows.append(row)
        title = model_label(run_sheet, model)
        if shown and not several:
            title += f", {REGIME_LABELS[shown[0].regime]}"
        panels[title] = lines
    names = [CATEGORY_LABELS.get(name, name) for name in categories]
    return Drawing(_panels(names, panels), rows)


def _text(after: Measured | None, before: Measured | None) -> str:
    if after is None:
        return "–"
    if before is None or before is after:
        return f"{100 * after.value:.1f}"
    return f"{100 * after.value:.1f}\n({100 * (after.value - before.value):+.1f})".replace("-", "−")


def _panels(names: list[str], panels: dict[str, Panel]) -> Figure:
    """Return a panel a model: accuracy and difference written, the difference as colour."""
    seen = np.abs(
        [one for lines in panels.values() for _, change in lines.values() for one in change]
    )
    widest = max(1.0, float(np.nanmax(seen)) if not np.isnan(seen).all() else 1.0)
    across, tallest = min(ACROSS, len(panels)), max(map(len, panels.values()))
    down = math.ceil(len(panels) / across)
    figure = Figure(figsize=(WIDTH, down * (0.8 + 0.36 * tallest)))
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
                          fontsize=SMALL)  # fmt: skip
    bar = "change from dense (points)"
    figure.colorbar(image, ax=axes[: len(panels)], label=bar, pad=0.02)
    return figure
