"""The figures of UnQover by category, as lines and as a heat map, and what all figures share."""

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import matplotlib.ticker
import numpy as np
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure

from ..analysis import labels
from ..analysis.labels import words_of
from ..analysis.results import Measured, Run, dense_group, groups
from ..config.facts import REGIMES
from ..config.table_registry import FIGURES
from ..io.errors import UserError
from ..io.files import atomic_path, write_csv
from .forms import ARROWS
from .table_columns import benchmark_column, category_order, refused
from .tables import Column

# Part of this module's code, see codedigest.py.
DATA_FILES = ("figures.mplstyle",)
STYLE = Path(__file__).with_name(DATA_FILES[0])
# No creation date and no producer version: equal numbers give equal bytes.
METADATA: dict[str, Mapping[str, Any]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}
WIDTH = 5.5  # inches, the text width of most papers
SMALL = 7  # points, of texts inside of panels
Row = dict[str, Any]
Point = tuple[float, float, float]  # x, y, and half the width of its bar


@dataclass(frozen=True)
class Drawing:
    """A figure and the numbers it shows as CSV rows."""

    figure: Figure
    rows: list[Row]


def panel_grid(models: Sequence[str], count: int) -> tuple[Figure, list[list[Any]]]:
    """Return a figure and its axes as [model][quantity], of ``count`` quantities.

    Several models make columns, whose quantities (rows) share their scale; the quantities of
    one model are in rows of three, or in one row of four.
    """
    if len(models) == 1:
        across = count if count <= 4 else 3
        lines = math.ceil(count / across)
        figure = Figure(figsize=(WIDTH, (1.4 if count > 2 else 2.2) * lines + 0.4))
        axes = figure.subplots(lines, across, squeeze=False).ravel()
        for spare in axes[count:]:
            spare.set_visible(False)
        return figure, [list(axes[:count])]
    figure = Figure(figsize=(min(WIDTH, 2 * len(models) + 1), 1.1 * count + 0.6))
    axes = figure.subplots(count, len(models), squeeze=False, sharex=True, sharey="row")
    return figure, [list(axes[:, column]) for column in range(len(models))]


LONG = 22  # letters of a label of which no four stand side by side


def add_legend(figure: Figure, axes: Iterable[Iterable[Any]]) -> None:
    """Put one legend over all panels, each label once; the figure grows with its lines."""
    entries: dict[str, Any] = {}
    for axis in (axis for line in axes for axis in line):
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    columns = min(3 if max(map(len, entries), default=0) > LONG else 4, len(entries))
    more = -(-len(entries) // columns) - 2 if columns else 0  # lines
    figure.set_figheight(figure.get_figheight() + 0.16 * max(0, more))
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=columns or 1)


def save(drawing: Drawing, prefix: str) -> None:
    """Write a figure's files, each one whole or not at all."""
    with mpl.rc_context():
        mpl.style.use(str(STYLE))
        FigureCanvasPdf(drawing.figure)
        for suffix, metadata in METADATA.items():
            drawn = io.BytesIO()  # a PDF that cannot be written hides why
            drawing.figure.savefig(drawn, format=suffix, metadata=dict(metadata))
            with atomic_path(f"{prefix}.{suffix}") as temporary:
                temporary.write_bytes(drawn.getvalue())
    write_csv(f"{prefix}.csv", tuple(drawing.rows[0]), drawing.rows)


# UnQover by category

STEP, MOST = 0.12, 0.7  # between lines, and all of them together; regimes are 1 apart
SHOWN = ("sparsegpt", "debias-sparsegpt")
ACROSS = 3  # panels in a line
# A model's rows: values, and their changes from dense in points.
Panel = dict[str, tuple[list[Measured | None], list[float]]]


def unqover(run: Run, slug: str) -> tuple[Column, list[str]]:
    """Return UnQover's column and its categories; UserError where the run lacks the benchmark."""
    name = run.sheet.primary("unqover")
    if name is None:
        raise refused(slug, ["unqover"], "figure")
    column = benchmark_column(run.sheet, name)
    return column, category_order(run.results.categories(*column.quantity[:2]))


def changes(run: Run, slug: str) -> Drawing:
    """Return what pruning does to UnQover's error rate, in points: the paper's motivation.

    A panel a model and category, of the experiment ``regimes``; ``categories`` of the figure's
    entry keeps some.
    """
    run_sheet, (base, have) = run.sheet, unqover(run, slug)
    points = run_sheet.experiment("regimes", f"the figure {slug}")
    run.results.require(points)
    wanted = FIGURES[slug].get("categories")
    shown = have if wanted is None else [one for one in wanted if one in have]
    if not shown:
        raise UserError(
            f"the figure {slug} shows the categories {', '.join(wanted or ('any',))} of UnQover, "
            f"but {base.key} has {', '.join(have) or 'none'}; leave the figure out"
        )
    pruned = [group for group in groups(points) if not group.is_base]
    order = [one for one in labels.REGIME_LABELS if any(group.regime == one for group in pruned)]
    models = [one for one in dict.fromkeys(g.model for g in pruned) if dense_group(run_sheet, one)]
    lines = list(dict.fromkeys((one.method, one.calibration) for one in pruned))
    several = len({calibration for _, calibration in lines if calibration != "none"}) > 1
    step = min(STEP, MOST / max(1, len(lines)))

    def panel(axis: Any, model: str, category: str) -> list[Row]:
        """Draw a line a method and calibration, next to each other, so that no bar hides another.

        No line from the unstructured regimes to those of groups: no scale joins them.
        """
        quantity = base.quantity._replace(category=category)
        rows, dense = list[Row](), dense_group(run_sheet, model)
        axis.axhline(0, color="0.2", linewidth=0.7)
        for index, line in enumerate(lines):
            parts: dict[bool, list[Point]] = {}
            for group in pruned:
                both = [(one, quantity) for one in (dense, group) if one]
                mine = (group.model, group.method, group.calibration) == (model, *line)
                estimate = run.estimate(np.subtract, *both) if mine else None
                if estimate is None:
                    continue
                change, width = 100 * estimate.value, estimate.half_width()
                half = 100 * (width or 0.0)
                ends = {"change_points": 0.0, "ci_low": -half, "ci_high": half}
                said = {key: f"{change + end:.3f}" for key, end in ends.items()}
                said |= dict.fromkeys(("ci_low", "ci_high"), "") if width is None else {}
                rows.append({**group.key._asdict(), "category": category, **said})
                place = order.index(group.regime) + step * (index - (len(lines) - 1) / 2)
                parts.setdefault(REGIMES[group.regime].structured, []).append((place, change, half))
                label = words_of(run_sheet, group, "method", *["calibration"] * several)
            for points in parts.values():
                x, y, bars = zip(*sorted(points), strict=True)
                look = run_sheet.base_method(line[0])
                axis.errorbar(x, y, yerr=bars, color=labels.COLORS[look],
                              marker=labels.MARKERS[look], elinewidth=0.7, label=label)  # fmt: skip
        axis.set_xticks(range(len(order)), [labels.REGIME_LABELS[name] for name in order])
        axis.set_xlim(-0.5, len(order) - 0.5)
        axis.grid(axis="y")
        return rows

    figure, axes = panel_grid(models, len(shown))
    rows: list[Row] = []
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
    add_legend(figure, axes)
    ends = [end for axis in figure.axes for end in axis.get_ylim()]
    for axis in figure.axes:
        axis.set_ylim(min(ends), max(ends))
    return Drawing(figure, rows)


def heatmap(run: Run, slug: str) -> Drawing:
    """Return UnQover accuracy by category (fig:accuracy-heatmap): one panel a model.

    Rows are the dense model, SparseGPT and Debias-SparseGPT of the experiment ``main`` (else
    of the first one), columns the question categories in the paper's order. The colour is the
    difference to the dense model, grey where its 95 % interval covers 0.
    """
    run_sheet, (base, categories) = run.sheet, unqover(run, slug)
    points = run.points(("main", "*"), f"the figure {slug}")
    run.results.require(points)
    shown = [one for one in groups(points) if run_sheet.base_method(one.method) in SHOWN]
    several = len({(group.regime, group.calibration) for group in shown}) > 1
    quantities = [base.quantity._replace(category=name) for name in categories]
    rows: list[Row] = []
    panels: dict[str, Panel] = {}
    for model in dict.fromkeys(point.model for point in points):
        dense, lines = dense_group(run_sheet, model), Panel()
        for group in [*([dense] if dense else []), *(g for g in shown if g.model == model)]:
            label = labels.method_label(run_sheet, group.method)
            if several and not group.is_base:
                label += f" {labels.REGIME_LABELS[group.regime]}"
            values, changed = [run.results.of(group, one) for one in quantities], list[float]()
            for quantity, one in zip(quantities, values, strict=True):
                row = {**group.key._asdict(), "category": quantity.category}
                for end, part in (("", "value"), ("_printed", "printed")):
                    value = getattr(one, part, None)
                    row[f"accuracy_percent{end}"] = "" if value is None else f"{100 * value:.2f}"
                rows.append(row)
                both = [(each, quantity) for each in (group, dense) if each]
                other = len(both) == 2 and group != dense
                found = run.estimate(np.subtract, *both) if other else None
                half = found.half_width() if found else None
                # Not a number where it is not known or its interval covers 0.
                clear = found is not None and half is not None and abs(found.value) > half
                changed.append(100 * found.value if found and clear else math.nan)
            lines[label] = values, changed
        title = labels.model_label(run_sheet, model)
        if shown and not several:
            title += f", {labels.REGIME_LABELS[shown[0].regime]}"
        panels[title] = lines
    names = [labels.CATEGORY_LABELS.get(name, name) for name in categories]
    return Drawing(_heat(names, panels), rows)


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
