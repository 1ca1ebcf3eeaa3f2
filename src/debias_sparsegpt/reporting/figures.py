"""Draw one figure of a run as .pdf, .svg and .png, with the plotted numbers as .csv.

The files are the same from run to run: no dates, fixed ids. Colours are safe for colour-blind
readers, units stand in the axis labels.
"""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import matplotlib.ticker
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure

from ..config import FIGURES
from ..errors import UserError
from ..files import atomic_path, write_csv
from . import patterns
from .fields import CATEGORY_LABELS, Field, all_fields, benchmark_field, category_order
from .results import Group, Measured, Quantity, Results, dense_group, groups
from .spec import REGIME_LABELS, Spec, read_spec

STYLE = resources.files(__package__).joinpath("figures.mplstyle")
COLORS = {
    "magnitude": "#E69F00",
    "wanda": "#009E73",
    "sparsegpt": "#0072B2",
    "debias-sparsegpt": "#D55E00",
}
MARKERS = {"magnitude": "v", "wanda": "^", "sparsegpt": "s", "debias-sparsegpt": "o"}
# No creation date and no producer version: equal numbers give equal bytes.
METADATA: dict[str, Mapping[str, Any]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}
WIDTH = 6.3  # inches, the text width of A4 with usual margins
UNSTRUCTURED = ("u25", "u50")
PATTERNS = ("1of4", "2of4")
Z95 = 1.959964  # half width of a 95 % normal interval in standard errors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``make-figure``."""
    add = parser.add_argument
    add("--figure", choices=FIGURES, required=True)
    add("--results", type=Path, required=True, help="results.csv")
    add("--spec", type=Path, required=True, help="run_spec.json, written by the workflow")
    add("--out-prefix", required=True, help="path without suffix; .pdf, .svg, .png, .csv are added")


@dataclass(frozen=True)
class Drawing:
    """A figure, its caption, and the numbers it shows as CSV rows."""

    figure: Figure
    caption: str
    header: tuple[str, ...]
    rows: list[dict[str, Any]]


def interval(measured: Measured) -> tuple[float, float] | None:
    """Return the 95 % normal interval of a number from its standard error, None without one."""
    if measured.stderr is None:
        return None
    return measured.value - Z95 * measured.stderr, measured.value + Z95 * measured.stderr


def unqover_heatmap(spec: Spec, results: Results, slug: str) -> Drawing:
    """Return UnQover accuracy by category (fig:accuracy-heatmap): one panel a model.

    Rows are the dense model, SparseGPT and Debias-SparseGPT of the experiment ``main`` (else
    of the first one), columns the question categories in the paper's order.
    """
    benchmark = spec.primary("unqover")
    if benchmark is None:
        raise UserError(
            f"the figure {slug} shows UnQover, but the configuration has no benchmark with task "
            "unqover; add one or leave the figure out"
        )
    experiment = "main" if "main" in spec.experiments else next(iter(spec.experiments))
    points = spec.experiment(experiment, f"the figure {slug}")
    results.require(points)
    metric = spec.headline(benchmark)
    categories = category_order(results.categories(benchmark, metric))
    models = list(dict.fromkeys(point.model for point in points))
    shown = [
        group
        for group in groups(points)
        if spec.base_method(group.method) in ("sparsegpt", "debias-sparsegpt")
    ]
    several = len({(group.regime, group.calibration) for group in shown}) > 1
    rows: list[dict[str, Any]] = []
    panels: list[tuple[str, list[str], list[list[float]]]] = []
    for model in models:
        dense = dense_group(spec, model)
        mine = [group for group in shown if group.model == model]
        lines: list[Group] = ([dense] if dense else []) + mine
        labels, values = [], []
        for group in lines:
            label = spec.method_label(group.method)
            if several and group.regime != "dense":
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
        panels.append((spec.model_label(model), labels, values))
    columns = min(3, len(panels))
    lines_of_panels = math.ceil(len(panels) / columns)
    tallest = max(len(labels) for _, labels, _ in panels)
    figure = Figure(figsize=(WIDTH, lines_of_panels * (0.75 + 0.25 * tallest)))
    axes = figure.subplots(lines_of_panels, columns, squeeze=False).ravel()
    for spare in axes[len(panels) :]:
        spare.set_visible(False)
    for index, (title, labels, values) in enumerate(panels):
        axis = axes[index]
        image = axis.imshow(values, vmin=0, vmax=100, aspect="auto")
        names = [CATEGORY_LABELS.get(name, name) for name in categories]
        axis.set_xticks(range(len(names)), names)
        if columns > 1:
            axis.tick_params(axis="x", rotation=30)
        same = index % columns > 0 and labels == panels[index - 1][1]
        axis.set_yticks(range(len(labels)), [""] * len(labels) if same else labels)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.set_title(title)
        _write_values(axis, values, 60)
    figure.colorbar(image, ax=list(axes[: len(panels)]), label="accuracy (%)", pad=0.02)
    return Drawing(figure, caption(spec, slug), tuple(rows[0]), rows)


def _line_rows(field: Field, group: Group, measured: Measured, x: str) -> dict[str, Any]:
    scale = field.column.scale
    ends = interval(measured)
    return {
        "model": group.model,
        "method": group.method,
        "regime": group.regime,
        "calibration": group.calibration,
        "x": x,
        "column": field.column.key,
        "value": f"{scale * measured.value:.4f}",
        "ci_low": "" if ends is None else f"{scale * ends[0]:.4f}",
        "ci_high": "" if ends is None else f"{scale * ends[1]:.4f}",
        "sd": "" if measured.sd is None else f"{scale * measured.sd:.4f}",
        "printed": "" if measured.printed is None else f"{scale * measured.printed:.4f}",
    }


def axis_label(field: Field) -> str:
    """Return a quantity with its unit."""
    if field.column.group == "perplexity":
        return field.column.head
    return f"{field.column.head} (%)" if field.column.scale == 100 else f"{field.column.head} (0–1)"


def _errors(measured: Sequence[Measured], scale: float) -> list[float]:
    """Return half widths of the bars: 95 % from the standard error, else the sd over seeds."""
    return [
        scale * (Z95 * one.stderr if one.stderr is not None else one.sd or 0.0) for one in measured
    ]


def _grid(models: Sequence[str], fields: Sequence[Field]) -> tuple[Figure, list[list[Any]]]:
    """Return a figure and its axes as [model][quantity].

    Several models make columns, whose quantities (rows) share their scale; the quantities of
    one model are laid out three in a row.
    """
    if len(models) == 1:
        lines = math.ceil(len(fields) / 3)
        figure = Figure(figsize=(WIDTH, 1.75 * lines + 0.5))
        axes = figure.subplots(lines, min(3, len(fields)), squeeze=False).ravel()
        for spare in axes[len(fields) :]:
            spare.set_visible(False)
        return figure, [list(axes[: len(fields)])]
    width = min(WIDTH, 2.1 * len(models) + 1.2)
    figure = Figure(figsize=(width, 1.2 * len(fields) + 0.6))
    axes = figure.subplots(len(fields), len(models), squeeze=False, sharex=True, sharey="row")
    return figure, [list(axes[:, column]) for column in range(len(models))]


def regimes(spec: Spec, results: Results, slug: str) -> Drawing:
    """Return every quantity over the sparsity regimes, a line a method, with 95 % intervals."""
    points = spec.experiment(slug, f"the figure {slug}")
    results.require(points)
    models = list(dict.fromkeys(point.model for point in points))
    pruned = [group for group in groups(points) if group.regime != "dense"]
    order = list(dict.fromkeys(group.regime for group in pruned))
    lines = list(dict.fromkeys((g.method, g.calibration) for g in pruned))
    several = len({c for _, c in lines if c != "none"}) > 1
    fields = all_fields(spec)
    figure, axes = _grid(models, fields)
    rows: list[dict[str, Any]] = []
    shift = 0.24 / max(1, len(lines) - 1)
    for column, model in enumerate(models):
        for row, field in enumerate(fields):
            axis = axes[column][row]
            dense = dense_group(spec, model)
            level = results.of(dense, field.quantity) if dense else None
            if level is not None and dense is not None:
                axis.axhline(
                    field.column.scale * level.value, color="0.4", linestyle="--", label="Dense"
                )
                rows.append(_line_rows(field, dense, level, "dense"))
            for index, (method, calibration) in enumerate(lines):
                mine = {
                    g.regime: g
                    for g in pruned
                    if (g.model, g.method, g.calibration) == (model, method, calibration)
                }
                found = [
                    (order.index(name), measured, group)
                    for name, group in mine.items()
                    if (measured := results.of(group, field.quantity)) is not None
                ]
                if not found:
                    continue
                label = spec.method_label(method)
                if several and calibration != "none":
                    label += f", {spec.calibration_label(calibration)}"
                offset = shift * (index - (len(lines) - 1) / 2)
                # No line from the unstructured regimes to the N:M patterns: no scale joins them.
                for names in (UNSTRUCTURED, PATTERNS):
                    part = [one for one in found if order[one[0]] in names]
                    _plot(
                        axis,
                        [x + offset for x, *_ in part],
                        [measured for _, measured, _ in part],
                        field.column.scale,
                        spec.base_method(method),
                        label,
                    )
                rows += [_line_rows(field, group, m, order[x]) for x, m, group in found]
            title = spec.model_label(model) if row == 0 and len(models) > 1 else ""
            _finish_axis(axis, field, column, title)
            axis.set_xticks(range(len(order)), [REGIME_LABELS[name] for name in order])
            axis.set_xlim(-0.4, len(order) - 0.6)
            _label_x(axis, "sparsity regime", row, len(models), len(fields))
    _legend(figure, axes)
    return Drawing(figure, caption(spec, slug), tuple(rows[0]), rows)


def calib_size(spec: Spec, results: Results, slug: str) -> Drawing:
    """Return every quantity over the number of texts in the calibration, a line a method."""
    points = spec.experiment(slug, f"the figure {slug}")
    results.require(points)
    models = list(dict.fromkeys(point.model for point in points))
    pruned = [group for group in groups(points) if group.calibration != "none"]
    lines = list(dict.fromkeys((g.method, g.regime) for g in pruned))
    several = len({regime for _, regime in lines}) > 1
    fields = [
        benchmark_field(spec, name)
        for task in ("perplexity", "mmlu", "unqover")
        if (name := spec.primary(task)) is not None
    ]
    fields += [field for field in all_fields(spec) if field.column.key == "dto"]
    figure, axes = _grid(models, fields)
    rows: list[dict[str, Any]] = []
    sizes = sorted({spec.config.calibrations[g.calibration].n_texts for g in pruned})
    for column, model in enumerate(models):
        for row, field in enumerate(fields):
            axis = axes[column][row]
            for method, regime in lines:
                found = sorted(
                    (
                        (spec.config.calibrations[g.calibration].n_texts, g)
                        for g in pruned
                        if (g.model, g.method, g.regime) == (model, method, regime)
                    ),
                    key=lambda pair: pair[0],
                )
                seen = [
                    (x, measured, group)
                    for x, group in found
                    if (measured := results.of(group, field.quantity)) is not None
                ]
                if not seen:
                    continue
                label = spec.method_label(method)
                label += f" {REGIME_LABELS[regime]}" if several else ""
                _plot(
                    axis,
                    [float(x) for x, *_ in seen],
                    [measured for _, measured, _ in seen],
                    field.column.scale,
                    spec.base_method(method),
                    label,
                )
                rows += [_line_rows(field, group, m, str(x)) for x, m, group in seen]
            axis.set_xscale("symlog", base=2, linthresh=1)
            title = spec.model_label(model) if row == 0 and len(models) > 1 else ""
            _finish_axis(axis, field, column, title)
            axis.set_xticks(sizes, [str(size) for size in sizes])
            axis.minorticks_off()
            _label_x(axis, "UltraChat texts", row, len(models), len(fields))
    _legend(figure, axes)
    return Drawing(figure, caption(spec, slug), tuple(rows[0]), rows)


ANNOTATED = 12  # layers up to which a heat map of masks also shows its numbers


def pattern_heatmap(spec: Spec, results: Results, slug: str) -> Drawing:
    """Return pattern disagreement with SparseGPT by layer and module: one panel a grid point.

    All panels share one colour scale, from 0 to the largest value.
    """
    shown = patterns.compared(spec, f"the figure {slug}")
    results.require([point for group in shown for point in group.checkpoints()])
    rows: list[dict[str, Any]] = []
    panels: list[tuple[Group, list[str], list[list[float]]]] = []
    for group in shown:
        values = patterns.by_matrix(results, group)
        places = {patterns.split(name): name for name in values}
        kinds = sorted({kind for _, kind in places}, key=patterns.kind_order)
        layers = range(max(layer for layer, _ in places) + 1)
        names = [[places.get((layer, kind)) for kind in kinds] for layer in layers]
        panels.append(
            (group, kinds, [[100 * values[n] if n else math.nan for n in line] for line in names])
        )
        for layer, kind in ((layer, kind) for layer in layers for kind in kinds):
            name = places.get((layer, kind))
            found = results.of(group, Quantity(patterns.SLUG, patterns.PATTERN, name or "-"))
            if found is None:
                continue
            rows.append(
                {
                    "model": group.model,
                    "method": group.method,
                    "regime": group.regime,
                    "calibration": group.calibration,
                    "layer": layer,
                    "module": kind,
                    "pattern_disagreement": f"{found.value:.6f}",
                    "pattern_disagreement_printed": (
                        "" if found.printed is None else f"{found.printed:.4f}"
                    ),
                }
            )
    columns = min(2, len(panels))
    lines = math.ceil(len(panels) / columns)
    deepest = max(len(values) for *_, values in panels)
    figure = Figure(
        figsize=(WIDTH, lines * (1.2 + (0.2 if deepest <= ANNOTATED else 0.13) * deepest))
    )
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for spare in axes[len(panels) :]:
        spare.set_visible(False)
    highest = max(100 * float(row["pattern_disagreement"]) for row in rows) or 1.0
    for axis, (group, kinds, values) in zip(axes, panels, strict=False):
        image = axis.imshow(values, vmin=0, vmax=highest, aspect="auto")
        short = [kind.rpartition(".")[2] for kind in kinds]
        unique = len(set(short)) == len(short)
        axis.set_xticks(range(len(kinds)), short if unique else kinds)
        if columns > 1 or not unique:
            axis.tick_params(axis="x", rotation=30)
        step = 1 if len(values) <= ANNOTATED else 4
        axis.set_yticks(range(0, len(values), step))
        axis.set_ylabel("decoder layer")
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.set_title(patterns.pair_label(spec, group), wrap=True)
        if len(values) <= ANNOTATED:
            _write_values(axis, values, 0.6 * highest)
    label = "differing groups of four (%)"
    figure.colorbar(image, ax=list(axes[: len(panels)]), label=label, pad=0.02)
    return Drawing(figure, caption(spec, slug), tuple(rows[0]), rows)


def _write_values(axis: Any, values: Sequence[Sequence[float]], light: float) -> None:
    """Write each value of a heat map into its cell, in white on values above ``light``."""
    for y, line in enumerate(values):
        for x, value in enumerate(line):
            if not math.isnan(value):
                color = "white" if value > light else "black"
                axis.text(x, y, f"{value:.1f}", ha="center", va="center", color=color, fontsize=7)


BOUNDS = {
    "bound_decode_tok_per_s": ("Bound, dense weights", "--"),
    "bound_2of4_decode_tok_per_s": ("Bound, 2:4 weights", ":"),
}


def throughput(spec: Spec, results: Results, slug: str) -> Drawing:
    """Return decode tokens/s over the batch size with the device's bounds: one panel a model.

    The bounds are those measured with the model's first checkpoint, dense where there is one.
    """
    served = [point for point, files in spec.files.items() if files["serving"]]
    if not served:
        raise UserError(
            f"the figure {slug} shows measured throughput, but this run measures none; set "
            "serving.experiment in the configuration or leave the figure out"
        )
    results.require(served)
    batches = {
        int(name.removeprefix("batch ")): name
        for name in results.categories("serving", "decode_tok_per_s")
    }
    sizes = sorted(batches)
    lines = sorted(groups(served), key=lambda group: group.regime != "dense")
    models = list(dict.fromkeys(group.model for group in lines))
    several = len({group.calibration for group in lines if group.regime != "dense"}) > 1
    figure = Figure(figsize=(WIDTH, 2.8 + 0.1 * len(lines)))
    axes = figure.subplots(1, len(models), squeeze=False, sharey=True)
    rows: list[dict[str, Any]] = []
    for axis, model in zip(axes[0], models, strict=True):
        mine = [group for group in lines if group.model == model]
        for group in mine:
            if group.regime == "dense":
                look, label = {"color": "0.4", "marker": "D"}, "Dense"
            else:
                base = spec.base_method(group.method)
                look = {"color": COLORS[base], "marker": MARKERS[base]}
                label = f"{spec.method_label(group.method)} {REGIME_LABELS[group.regime]}"
                if several:
                    label += f", {spec.calibration_label(group.calibration)}"
            rows += _throughput_line(axis, results, group, "decode_tok_per_s", batches, label, look)
        for metric, (label, style) in BOUNDS.items():
            look = {"color": "0.6", "linestyle": style}
            rows += _throughput_line(axis, results, mine[0], metric, batches, label, look)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(sizes, [str(size) for size in sizes])
        axis.minorticks_off()
        axis.grid(axis="y")
        axis.set_xlabel("batch size (sequences)")
        axis.set_title(spec.model_label(model))
    axes[0][0].set_ylabel("decode throughput (tokens/s, log scale)")
    _legend(figure, axes, columns=2)
    return Drawing(figure, caption(spec, slug), tuple(rows[0]), rows)


def _throughput_line(
    axis: Any, results: Results, group: Group, metric: str, batches: Mapping[int, str],
    label: str, look: Mapping[str, Any],
) -> list[dict[str, Any]]:  # fmt: skip
    found = {
        size: one.value
        for size, name in sorted(batches.items())
        if (one := results.of(group, Quantity("serving", metric, name))) is not None
    }
    axis.plot(list(found), list(found.values()), label=label, **look)
    return [
        {
            "model": group.model,
            "method": group.method,
            "regime": group.regime,
            "calibration": group.calibration,
            "metric": metric,
            "batch_size": size,
            "tok_per_s": f"{value:.4f}",
        }
        for size, value in found.items()
    ]


def _plot(axis: Any, x: Sequence[float], measured: Sequence[Measured], scale: float,
          method: str, label: str) -> None:  # fmt: skip
    axis.errorbar(
        x,
        [scale * one.value for one in measured],
        yerr=_errors(measured, scale),
        color=COLORS[method],
        marker=MARKERS[method],
        elinewidth=0.8,
        label=label,
    )


def _label_x(axis: Any, label: str, row: int, models: int, fields: int) -> None:
    """Label the x axis of the lowest panels only."""
    if row == fields - 1 or (models == 1 and row >= fields - 3):
        axis.set_xlabel(label)


def _finish_axis(axis: Any, field: Field, column: int, title: str) -> None:
    """Set grid, scale, label and title; perplexity is logarithmic where it spans a factor of 4."""
    axis.grid(axis="y")
    low, high = axis.get_ylim()
    if field.column.group == "perplexity" and low > 0 and high / low > 4:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
        axis.yaxis.set_minor_locator(mpl.ticker.NullLocator())
    if column == 0:
        axis.set_ylabel(axis_label(field))
    if title:
        axis.set_title(title)


def _legend(figure: Figure, axes: list[list[Any]], columns: int = 5) -> None:
    found: dict[str, Any] = {}
    for axis in (axis for line in axes for axis in line):
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(
        found.values(), found.keys(), loc="outside upper center", ncols=min(columns, len(found))
    )


def caption(spec: Spec, slug: str) -> str:
    """Return a figure's caption."""
    text = {
        "unqover_heatmap": (
            "UnQover accuracy (share of “unknown” answers, in percent) by question category for "
            "the dense model, SparseGPT and Debias-SparseGPT."
        ),
        "regimes": (
            "Perplexity, accuracy, bias and DTO over the sparsity regimes. Bars: 95% intervals "
            "from the standard error over items, or the standard deviation over seeds."
        ),
        "calib_size": (
            "Effect of the number of UltraChat texts in the calibration. Bars: 95% intervals "
            "from the standard error over items, or the standard deviation over seeds."
        ),
        "patterns": (
            "Share of aligned groups of four inputs that SparseGPT and Debias-SparseGPT prune at "
            "different places, in percent, by decoder layer and module."
        ),
        "throughput": (
            "Decode throughput over the batch size. Bounds: the lower of copy bandwidth over the "
            "bytes of the weights and matrix-product rate over their operations, both measured "
            "in the same run; 2:4 weights take 9/16 of the bytes (17/32 in float32)."
        ),
    }[slug]
    if spec.config.source == "world":
        text += " Measured in an invented world; not comparable to the paper."
    return text


BUILDERS: dict[str, Callable[[Spec, Results, str], Drawing]] = {
    "unqover_heatmap": unqover_heatmap,
    "regimes": regimes,
    "calib_size": calib_size,
    "patterns": pattern_heatmap,
    "throughput": throughput,
}


def draw(slug: str, spec: Spec, results: Results) -> Drawing:
    """Return one figure of a run, drawn in the package's own style."""
    with mpl.rc_context():
        mpl.style.use(str(STYLE))
        return BUILDERS[slug](spec, results, slug)


def save(drawing: Drawing, prefix: str) -> None:
    """Write a figure's files, each one whole or not at all."""
    with mpl.rc_context():
        mpl.style.use(str(STYLE))
        FigureCanvasPdf(drawing.figure)
        for suffix, metadata in METADATA.items():
            with atomic_path(f"{prefix}.{suffix}") as temporary:
                drawing.figure.savefig(temporary, format=suffix, metadata=dict(metadata))
    write_csv(f"{prefix}.csv", drawing.header, drawing.rows)


def run(args: argparse.Namespace) -> None:
    """Run ``make-figure``."""
    drawing = draw(args.figure, read_spec(args.spec), Results(args.results))
    save(drawing, args.out_prefix)
    print(f"{args.out_prefix}.pdf, .svg, .png, .csv: {len(drawing.rows)} values")
