"""The figures: what pruning changed, and UnQover by category, as lines and as a heat map."""

import io
import math
from collections.abc import Iterable, Mapping
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
from ..analysis.results import WIDEST, Group, Measured, Run, dense_group, groups
from ..config.facts import REGIMES
from ..config.table_registry import FIGURES
from ..io.errors import UserError
from ..io.files import atomic_path, write_csv
from ..stats.verdicts import LOOKS, UNDECIDED
from .answer import compared
from .forms import ARROWS
from .tables import Column, benchmark_column, category_order, refused

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


def cells(digits: int, scale: float = 1.0, **numbers: float | None) -> dict[str, str]:
    """Return numbers as a figure's CSV has them, empty for none."""
    return {
        name: "" if one is None else f"{scale * one:.{digits}f}" for name, one in numbers.items()
    }


def panel_grid(models: int, count: int) -> tuple[Figure, list[list[Any]]]:
    """Return a figure and its axes as [model][quantity], of ``count`` quantities.

    Several models make columns, whose quantities (rows) share their scale; the quantities of
    one model are in rows of three, or in one row of four.
    """
    if models == 1:
        across = count if count <= 4 else 3
        lines = math.ceil(count / across)
        figure = Figure(figsize=(WIDTH, (1.4 if count > 2 else 2.2) * lines + 0.4))
        return figure, [[figure.add_subplot(lines, across, k) for k in range(1, count + 1)]]
    figure = Figure(figsize=(min(WIDTH, 2 * models + 1), 1.1 * count + 0.6))
    axes = figure.subplots(count, models, squeeze=False, sharex=True, sharey="row")
    return figure, axes.T.tolist()


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
    wanted = FIGURES[slug].get("categories", have)
    shown = [one for one in wanted if one in have]
    if not shown:
        raise UserError(
            f"the figure {slug} shows the categories {', '.join(wanted or ('any',))} of UnQover, "
            f"but {base.key} has {', '.join(have) or 'none'}; leave the figure out"
        )
    pruned = [group for group in groups(points) if not group.is_base]
    order = [one for one in labels.REGIME_LABELS if any(group.regime == one for group in pruned)]
    models = dict.fromkeys(group.model for group in pruned)
    bases = [dense for one in models if (dense := dense_group(run_sheet, one))]
    lines = list(dict.fromkeys((one.method, one.calibration) for one in pruned))
    several = len({calibration for _, calibration in lines if calibration != "none"}) > 1
    step = min(STEP, MOST / max(1, len(lines)))

    def panel(axis: Any, dense: Group, category: str) -> list[Row]:
        """Draw a line a method and calibration, next to each other, so that no bar hides another.

        No line from the unstructured regimes to those of groups: no scale joins them.
        """
        quantity = base.quantity._replace(category=category)
        rows: list[Row] = []
        axis.axhline(0, color="0.2", linewidth=0.7)
        for index, line in enumerate(lines):
            parts: dict[bool, list[Point]] = {}
            for group in pruned:
                mine = (group.model, group.method, group.calibration) == (dense.model, *line)
                both = ((dense, quantity), (group, quantity))
                change = run.estimate(np.subtract, *both) if mine else None
                if change is None:
                    continue
                low, high = change.interval() or (None, None)
                said = cells(3, 100, change_points=change.value, ci_low=low, ci_high=high)
                rows.append({**group.key._asdict(), "category": category, **said})
                place = order.index(group.regime) + step * (index - (len(lines) - 1) / 2)
                point = (place, 100 * change.value, 100 * (change.half_width() or 0.0))
                parts.setdefault(REGIMES[group.regime].structured, []).append(point)
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

    figure, axes = panel_grid(len(bases), len(shown))
    rows: list[Row] = []
    for dense, column in zip(bases, axes, strict=True):
        for category, axis in zip(shown, column, strict=True):
            rows += panel(axis, dense, category)
            head = f"{labels.CATEGORY_LABELS.get(category, category)} {ARROWS['down']}"
            if len(bases) == 1:
                axis.set_title(head)
            elif column is axes[0]:
                axis.set_ylabel(head)
        if len(bases) > 1:
            column[0].set_title(labels.model_label(run_sheet, dense.model))
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
                value, printed = (getattr(one, part, None) for part in ("value", "printed"))
                said = cells(2, 100, accuracy_percent=value, accuracy_percent_printed=printed)
                rows.append({**group.key._asdict(), "category": quantity.category, **said})
                both = [(each, quantity) for each in (group, dense) if each and group != dense]
                change = run.estimate(np.subtract, *both) if len(both) == 2 else None
                # Not a number where it is not known or its interval covers 0.
                ends = change and change.interval()
                clear = ends and not ends.low <= 0 <= ends.high
                changed.append(100 * change.value if change and clear else math.nan)
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
    changes = [one for lines in panels.values() for _, change in lines.values() for one in change]
    widest = float(np.nanmax([1.0, *np.abs(changes)]))
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


# What pruning changed, measure by measure: the figure that the page begins with

MODELS = 12  # pruned models; more are in the table
COLORS = {"good": "#009E73", "bad": "#D55E00", "": "#0072B2"}
OPEN, BAND = "0.35", "0.87"
HEADS = {"bias": "Bias", "ability": "Ability"}
Tests = dict[Group, dict[str, Any]]  # of one measure


def answer(run: Run, slug: str) -> Drawing:
    """Return the difference of each compared measure from the dense model, a panel a measure.

    A point a pruned model, with the interval that goes with its verdict; in colour where that
    decides, else grey. The band behind it is what would not have been seen. Bias stands left,
    ability right. Raises UserError where nothing was tested.
    """
    points = run.points(WIDEST, f"the figure {slug}")
    pruned = [one for one in groups(points) if not one.is_base]
    pruned = [one for one in pruned if dense_group(run.sheet, one.model)][:MODELS]
    panels: dict[str, dict[Column, Tests]] = {kind: {} for kind in HEADS}
    for group in pruned:
        for column, dense, _, test in compared(run, group):
            if test and test["family_low"] is not None:
                panels[test["kind"]].setdefault(column, {})[group] = test | {"dense": dense}
    tall = max(map(len, panels.values()))
    if not tall:
        raise UserError(
            f"the figure {slug} shows pruned models next to their dense one, and this run has no "
            "measure that could be tested; leave it out"
        )
    across = [kind for kind in HEADS if panels[kind]]
    height = 0.42 + 0.11 * len(pruned)
    figure = Figure(figsize=(WIDTH, height * tall + 0.2 * len(pruned) / 2 + 0.5))
    axes = figure.subplots(tall, len(across), squeeze=False)
    rows: list[Row] = []
    for place, kind in enumerate(across):
        for axis, (column, tests) in zip(axes[:, place], panels[kind].items(), strict=False):
            rows += _panel(axis, run, column, tests, pruned)
        first = axes[0][place]
        first.set_title(f"{HEADS[kind]}\n{first.get_title(loc='left')}", loc="left")
        for spare in axes[len(panels[kind]) :, place]:
            spare.set_visible(False)
    _legend(figure, run, pruned)
    return Drawing(figure, rows)


def _look(run: Run, group: Group, pruned: list[Group]) -> dict[str, Any]:
    regimes = list(dict.fromkeys(one.regime for one in pruned))
    fill = ("full", "none", "left", "bottom", "right")[regimes.index(group.regime) % 5]
    marker = labels.MARKERS[run.sheet.base_method(group.method)]
    return {"marker": marker, "fillstyle": fill, "linestyle": "", "markersize": 4}


def _panel(axis: Any, run: Run, column: Column, tests: Tests, pruned: list[Group]) -> list[Row]:
    """Draw one measure and return its rows."""
    rows: list[Row] = []
    ratio = any(test["form"] == "ratio" for test in tests.values())
    scale = 1.0 if ratio else column.scale
    for group, test in tests.items():
        y = -pruned.index(group)
        value, low, high = (scale * test[key] for key in ("diff", "family_low", "family_high"))
        seen = test["detectable"]
        if seen is not None:
            ends = (1 / seen, seen) if ratio else (-scale * seen, scale * seen)
            axis.fill_betweenx([y - 0.45, y + 0.45], *ends, color=BAND, linewidth=0, zorder=0)
        undecided = test["verdict"] in UNDECIDED
        color = OPEN if undecided else COLORS[LOOKS.get(test["verdict"], "")]
        axis.plot([low, high], [y, y], color=color, linewidth=1)
        axis.plot([value], [y], color=color, **_look(run, group, pruned))
        size = seen and scale * seen
        shown = cells(4, difference=value, low=low, high=high, detectable=size)
        rows.append(
            {**group.key._asdict(), "measure": column.head, **shown, "verdict": test["verdict"]}
        )
    axis.axvline(1.0 if ratio else 0.0, color="0.2", linewidth=0.7)
    dense = next(iter(tests.values()))["dense"]
    unit = "ratio" if ratio else "nats" if column.quantity.metric in labels.NATS else "points"
    title = f"{column.head}, {unit}, dense {column.show(dense)}"
    axis.set_title(title, loc="left", fontsize=SMALL)
    if ratio:
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 1.2, 1.5, 2, 3, 5)))
        axis.xaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
        axis.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    axis.set_ylim(-len(pruned) + 0.3, 0.7)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    return rows


def _legend(figure: Figure, run: Run, pruned: list[Group]) -> None:
    """Name the models, in the order of every panel, and what the colours say."""
    line = mpl.lines.Line2D
    names = {one: labels.point_label(run.sheet, one) for one in pruned}
    handles: list[Any] = [
        line([], [], color=OPEN, label=name, **_look(run, one, pruned))
        for one, name in names.items()
    ]
    words = {
        "better or fairer": COLORS["good"],
        "worse, less fair; fairer, ability lost": COLORS["bad"],
        "within the margin": COLORS[""],
        "no change shown": OPEN,
    }
    handles += [line([], [], color=color, label=word) for word, color in words.items()]
    handles.append(mpl.patches.Patch(color=BAND, label="too small to be seen"))
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
