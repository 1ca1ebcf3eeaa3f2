"""One model across sparsity regimes: the paper's tab:qwen-sparsity-all."""

from ..cells import SIGNIFICANT, identity, make_cells
from ..fields import Run, all_fields, fitted
from ..labels import REGIME_LABELS, method_label, model_label
from ..notes import notes
from ..render import Rule, Table, TableRow
from ..results import dense_group, groups


def build(run: Run, slug: str) -> Table:
    """Return the regimes of one model, a row a method (tab:qwen-sparsity-all).

    With several models in the experiment each has a heading.
    """
    run_sheet, fields = run.sheet, all_fields(run.sheet)
    points = run_sheet.experiment(slug, f"the table {slug}")
    run.results.require(points)
    fields = [fitted(run, groups(points), field) for field in fields]
    shown = []
    rows: list[TableRow] = []
    models = list(dict.fromkeys(point.model for point in points))
    for model in models:
        if len(models) > 1:
            label = model_label(run_sheet, model)
            rows.append(TableRow((label,), kind="heading", rule="full" if rows else ""))
        dense = dense_group(run_sheet, model)
        if dense is not None:
            cells = make_cells(run, dense, fields)
            rows.append(TableRow(("Dense", "–"), cells, identity(dense)))
            shown.append(dense)
        mine = [one for one in groups(points) if one.model == model and not one.is_base]
        for regime in dict.fromkeys(group.regime for group in mine):
            start = len(rows)
            label, rule = f"Sparsity {REGIME_LABELS[regime]}", _rule(rows)
            for group in (group for group in mine if group.regime == regime):
                ours = run_sheet.base_method(group.method) == "debias-sparsegpt"
                labels = (label, method_label(run_sheet, group.method))
                cells = make_cells(run, group, fields)
                rows.append(
                    TableRow(labels, cells, identity(group), rule=rule, strong=ours, strong_at=1)
                )
                shown.append(group)
                label, rule = "", ""
            SIGNIFICANT.mark(rows, fields, range(start, len(rows)))
    names = "" if len(models) > 1 else f" of {model_label(run_sheet, models[0])}"
    return Table(
        slug,
        f"Evaluation{names} across sparsity regimes.",
        ("Regime", "Method"),
        tuple(field.column for field in fields),
        tuple(rows),
        tuple(notes(run, fields, shown, rows, SIGNIFICANT)),
    )


def _rule(rows: list[TableRow]) -> Rule:
    return "dashed" if rows else ""
