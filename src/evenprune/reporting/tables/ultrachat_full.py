"""Every score by calibration: the paper's tab:debias-sparsegpt-ultrachat-appendix."""

from ..cells import DAGGERS, identity, make_cells
from ..fields import Run, all_fields, fitted
from ..labels import REGIME_LABELS, calibration_label, method_label, model_label
from ..notes import notes
from ..render import Rule, Table, TableRow
from ..results import dense_group, groups

EXPERIMENT = "ultrachat"


def build(run: Run, slug: str) -> Table:
    """Return all scores of the experiment ``ultrachat``, by regime, calibration and method.

    The paper's tab:debias-sparsegpt-ultrachat-appendix, which has no marks at all; in ours only
    what carries a dagger is bold.
    """
    run_sheet, fields = run.sheet, all_fields(run.sheet)
    points = run_sheet.experiment(EXPERIMENT, f"the table {slug}")
    run.results.require(points)
    fields = [fitted(run, groups(points), field) for field in fields]
    rows: list[TableRow] = []
    shown = []
    for model in dict.fromkeys(point.model for point in points):
        rows.append(
            TableRow((model_label(run_sheet, model),), kind="heading", rule="full" if rows else "")
        )
        dense = dense_group(run_sheet, model)
        if dense is not None:
            cells = make_cells(run, dense, fields)
            rows.append(TableRow(("Dense", "–", "–"), cells, identity(dense)))
            shown.append(dense)
        mine = [one for one in groups(points) if one.model == model and not one.is_base]
        blocks = dict.fromkeys((group.regime, group.calibration) for group in mine)
        previous = None
        for regime, calibration in blocks:
            start, rule = len(rows), _rule(rows)
            label = REGIME_LABELS[regime] if regime != previous else ""
            name = calibration_label(run_sheet, calibration, short=True)
            previous = regime
            for group in mine:
                if (group.regime, group.calibration) != (regime, calibration):
                    continue
                ours = run_sheet.base_method(group.method) == "debias-sparsegpt"
                labels = (label, name, method_label(run_sheet, group.method))
                cells = make_cells(run, group, fields)
                rows.append(
                    TableRow(labels, cells, identity(group), rule=rule, strong=ours, strong_at=2)
                )
                shown.append(group)
                label, name, rule = "", "", ""
            DAGGERS.mark(rows, fields, range(start, len(rows)))
    return Table(
        slug,
        "All scores with and without UltraChat texts in the calibration.",
        ("Regime", "Calibration data", "Method"),
        tuple(field.column for field in fields),
        tuple(rows),
        ("SS: StereoSet.", *notes(run, fields, shown, rows, DAGGERS)),
    )


def _rule(rows: list[TableRow]) -> Rule:
    return "dashed" if rows else ""
