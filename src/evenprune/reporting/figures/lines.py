"""Quantities over something, a line a method: a panel a model and quantity."""

from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import UserError
from ...plan.facts import REGIMES
from ...plan.run_sheet import RunSheet
from ..fields import Field, all_fields, benchmark_field
from ..labels import (
    COLORS,
    METHOD_LABELS,
    REGIME_LABELS,
    calibration_label,
    method_label,
    model_label,
)
from ..plots import (
    Drawing,
    add_legend,
    finish_axis,
    label_x,
    line_rows,
    panel_grid,
    plot_line,
)
from ..results import Group, Measured, Results, dense_group, groups

BIAS = ("stereoset", "crows_pairs", "unqover", "bbq")
Seen = list[tuple[float, Measured, Group]]


def _panels(
    run_sheet: RunSheet,
    models: Sequence[str],
    fields: Sequence[Field],
    x_label: str,
    panel: Callable[[Any, str, Field], list[dict[str, Any]]],
    finish: Callable[[Any], None] = lambda axis: None,
) -> Drawing:
    """Return panels of quantities by model; ``panel`` draws one and returns its rows."""
    figure, axes = panel_grid(models, fields)
    rows: list[dict[str, Any]] = []
    for column, model in enumerate(models):
        for row, field in enumerate(fields):
            axis = axes[column][row]
            rows += panel(axis, model, field)
            title = model_label(run_sheet, model) if row == 0 and len(models) > 1 else ""
            finish_axis(axis, field, column, title)
            finish(axis)
            label_x(axis, x_label, row, len(models), len(fields))
    add_legend(figure, axes)
    return Drawing(figure, tuple(rows[0]), rows)


def _seen(results: Results, field: Field, found: Sequence[tuple[float, Group]]) -> Seen:
    """Return (place, value, grid point) of those that have one."""
    return [
        (x, measured, group)
        for x, group in found
        if (measured := results.of(group, field.quantity)) is not None
    ]


def _draw(axis: Any, run_sheet: RunSheet, field: Field, seen: Seen, label: str) -> None:
    values, base = [one for _, one, _ in seen], run_sheet.base_method(seen[0][2].method)
    plot_line(axis, [x for x, *_ in seen], values, field.column.scale, base, label)


def regimes(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return every quantity over the sparsity regimes, a line a method, with 95 % intervals."""
    points = run_sheet.experiment(slug, f"the figure {slug}")
    results.require(points)
    pruned = [group for group in groups(points) if not group.is_base]
    order = list(dict.fromkeys(group.regime for group in pruned))
    lines = list(dict.fromkeys((g.method, g.calibration) for g in pruned))
    several = len({c for _, c in lines if c != "none"}) > 1
    shift = 0.24 / max(1, len(lines) - 1)

    def panel(axis: Any, model: str, field: Field) -> list[dict[str, Any]]:
        rows, dense = [], dense_group(run_sheet, model)
        level = results.of(dense, field.quantity) if dense else None
        if level is not None and dense is not None:
            axis.axhline(field.column.scale * level.value, color=COLORS["dense"], linestyle="--",
                         label=METHOD_LABELS["dense"])  # fmt: skip
            rows.append(line_rows(field, dense, level, "dense"))
        for index, line in enumerate(lines):
            offset = shift * (index - (len(lines) - 1) / 2)
            mine = [g for g in pruned if (g.model, g.method, g.calibration) == (model, *line)]
            found = _seen(results, field, [(order.index(g.regime) + offset, g) for g in mine])
            label = method_label(run_sheet, line[0])
            if several and line[1] != "none":
                label += f", {calibration_label(run_sheet, line[1])}"
            # No line from the unstructured regimes to those of groups: no scale joins them.
            for structured in (False, True):
                part = [one for one in found if REGIMES[one[2].regime].structured == structured]
                if part:
                    _draw(axis, run_sheet, field, part, label)
            rows += [line_rows(field, group, m, group.regime) for _, m, group in found]
        return rows

    def finish(axis: Any) -> None:
        axis.set_xticks(range(len(order)), [REGIME_LABELS[name] for name in order])
        axis.set_xlim(-0.4, len(order) - 0.6)

    models = list(dict.fromkeys(point.model for point in points))
    return _panels(run_sheet, models, all_fields(run_sheet), "sparsity regime", panel, finish)


def calib_size(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return every quantity over the number of texts in the calibration, a line a method."""
    points = run_sheet.experiment(slug, f"the figure {slug}")
    results.require(points)
    pruned = [group for group in groups(points) if group.calibration != "none"]
    lines = list(dict.fromkeys((g.method, g.regime) for g in pruned))
    several = len({regime for _, regime in lines}) > 1
    names = [run_sheet.primary(task) for task in ("perplexity", "mmlu", "unqover")]
    fields = [benchmark_field(run_sheet, name) for name in names if name is not None]
    fields += [field for field in all_fields(run_sheet) if field.column.key == "dto"]
    texts = {group: run_sheet.config.calibrations[group.calibration].n_texts for group in pruned}
    sizes = sorted(set(texts.values()))

    def panel(axis: Any, model: str, field: Field) -> list[dict[str, Any]]:
        rows = []
        for method, regime in lines:
            mine = [g for g in pruned if (g.model, g.method, g.regime) == (model, method, regime)]
            mine.sort(key=lambda group: texts[group])
            seen = _seen(results, field, [(texts[group], group) for group in mine])
            if seen:
                label = method_label(run_sheet, method)
                label += f" {REGIME_LABELS[regime]}" if several else ""
                _draw(axis, run_sheet, field, seen, label)
            rows += [line_rows(field, group, m, str(x)) for x, m, group in seen]
        axis.set_xscale("symlog", base=2, linthresh=1)
        return rows

    def finish(axis: Any) -> None:
        axis.set_xticks(sizes, [str(size) for size in sizes])
        axis.minorticks_off()

    models = list(dict.fromkeys(point.model for point in points))
    return _panels(run_sheet, models, fields, "UltraChat texts", panel, finish)


def frontier(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return each measure of bias over perplexity: how much less bias, and what that costs.

    The variants of one method on one calibration are joined in the order of their perplexity.
    Raises UserError without a benchmark of perplexity or of bias.
    """
    points = run_sheet.experiment(slug, f"the figure {slug}")
    results.require(points)
    cost = run_sheet.primary("perplexity")
    named = [name for task in BIAS if (name := run_sheet.primary(task)) is not None]
    if cost is None or not named:
        raise UserError(
            f"expected benchmarks of perplexity and of bias ({', '.join(BIAS)}) for the figure "
            f"{slug}, found {', '.join([*named, *([cost] if cost else [])]) or 'none'}; add them, "
            f"or leave the figure {slug} out"
        )
    over = benchmark_field(run_sheet, cost)
    pruned = [group for group in groups(points) if not group.is_base]
    # One line: a method's variants of one regime and calibration.
    lines: dict[tuple[str, str, str, str], list[Group]] = {}
    for group in pruned:
        key = (group.model, run_sheet.base_method(group.method), group.regime, group.calibration)
        lines.setdefault(key, []).append(group)
    several = len({key[2] for key in lines}) > 1
    calibrations = {key[3] for key in lines} - {"none"}

    def panel(axis: Any, model: str, field: Field) -> list[dict[str, Any]]:
        rows, dense = [], dense_group(run_sheet, model)
        mine = {key: members for key, members in lines.items() if key[0] == model}
        if dense is not None:
            mine = {(model, "dense", "dense", "none"): [dense], **mine}
        if field.column.direction == "half":
            axis.axhline(50, color="0.2", linewidth=0.7)
        for (_, base, regime, calibration), members in mine.items():
            costs = [(results.of(group, over.quantity), group) for group in members]
            found = _seen(results, field, [(x.value, group) for x, group in costs if x])
            rows += [line_rows(field, group, y, f"{x:.4f}") for x, y, group in found]
            found.sort(key=lambda one: one[0])
            label = METHOD_LABELS[base]
            if base != "dense" and several:
                label += f" {REGIME_LABELS[regime]}"
            if calibration != "none" and len(calibrations) > 1:
                label += f", {calibration_label(run_sheet, calibration)}"
            values = [y for _, y, _ in found]
            plot_line(axis, [x for x, *_ in found], values, field.column.scale, base, label,
                      linewidth=0.8)  # fmt: skip
        return rows

    models = list(dict.fromkeys(group.model for group in pruned))
    fields = [benchmark_field(run_sheet, one) for one in named]
    return _panels(run_sheet, models, fields, over.column.head, panel)
