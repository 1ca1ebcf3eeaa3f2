"""The paper's main form of a table: per model the dense row, then a row a method."""

from collections.abc import Sequence

from ..plan.run_sheet import RunSheet
from .cells import BEST, Bold, identity, make_cells
from .fields import Field, Run, fitted
from .labels import REGIME_LABELS, calibration_label, method_label, model_label
from .notes import notes
from .render import Rule, Table, TableRow
from .results import Group, dense_group, groups


def method_rows(
    run: Run,
    experiment: str,
    asked_by: str,
    fields: Sequence[Field],
    methods: Sequence[str] | None = None,
    bold: Bold = BEST,
) -> tuple[list[TableRow], list[Group]]:
    """Return the rows of the paper's main form: per model the dense row, then a row a method.

    With several regimes each has a heading; with several calibrations each method's label
    names it. ``methods`` keeps some base methods only.
    """
    run_sheet = run.sheet
    points = run_sheet.experiment(experiment, asked_by)
    run.results.require(points)
    pruned = [
        group
        for group in groups(points)
        if not group.is_base and (methods is None or run_sheet.base_method(group.method) in methods)
    ]
    several_regimes = len({group.regime for group in pruned}) > 1
    calibrated = {group.calibration for group in pruned} - {"none"}
    rows: list[TableRow] = []
    shown: list[Group] = []
    for model in dict.fromkeys(point.model for point in points):
        rule: Rule = "full" if rows else ""
        dense = dense_group(run_sheet, model)
        label = model_label(run_sheet, model)
        if dense is not None:
            cells = make_cells(run, dense, fields)
            rows.append(TableRow((label,), cells, identity(dense), rule=rule))
            shown.append(dense)
        else:
            rows.append(TableRow((label,), kind="heading", rule=rule))
        mine = [group for group in pruned if group.model == model]
        for regime in dict.fromkeys(group.regime for group in mine):
            rule = "dashed"
            if several_regimes:
                rows.append(
                    TableRow((f"Sparsity {REGIME_LABELS[regime]}",), kind="heading", rule=rule)
                )
                rule = ""
            start = len(rows)
            for group in (group for group in mine if group.regime == regime):
                label = f"+ {method_label(run_sheet, group.method)}"
                if len(calibrated) > 1 and group.calibration != "none":
                    label += f", {calibration_label(run_sheet, group.calibration)}"
                cells = make_cells(run, group, fields)
                ours = run_sheet.base_method(group.method) == "debias-sparsegpt"
                rows.append(TableRow((label,), cells, identity(group), rule=rule, strong=ours))
                shown.append(group)
                rule = ""
            bold.mark(rows, fields, range(start, len(rows)))
    return rows, shown


def method_table(run: Run, slug: str, experiment: str, caption: str, fields: Sequence[Field],
                 methods: Sequence[str] | None = None, bold: Bold = BEST) -> Table:  # fmt: skip
    """Return a table of the paper's main form."""
    asked_by = f"the table {slug}"
    grid = groups(run.sheet.experiment(experiment, asked_by))
    fields = [fitted(run, grid, field) for field in fields]
    rows, shown = method_rows(run, experiment, asked_by, fields, methods, bold)
    return Table(
        slug,
        caption,
        ("Model + Method",),
        tuple(field.column for field in fields),
        tuple(rows),
        tuple(notes(run, fields, shown, rows, bold)),
    )


def widest_experiment(run_sheet: RunSheet) -> str:
    """Return the experiment for tables that are none of the paper's: regimes, main, or any."""
    return next(
        name
        for name in ("regimes", "main", *run_sheet.experiments)
        if name in run_sheet.experiments
    )
