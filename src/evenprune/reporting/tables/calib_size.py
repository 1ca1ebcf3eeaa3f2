"""Ablations of the calibration data: the paper's tab:ultrachat_scaling and others."""

from collections.abc import Callable

from ..cells import embolden, identity, make_cells
from ..fields import Run, ablation_fields
from ..labels import REGIME_LABELS, calibration_label, method_label, model_label
from ..notes import notes
from ..render import Rule, Table, TableRow
from ..results import Group, groups


def build(run: Run, slug: str) -> Table:
    """Return a calibration ablation: a row a calibration set (tab:ultrachat_scaling and others)."""
    run_sheet = run.sheet
    fields = ablation_fields(run, by_category=slug == "calib_source")
    points = run_sheet.experiment(slug, f"the table {slug}")
    run.results.require(points)
    shown = [group for group in groups(points) if group.calibration != "none"]
    varying: list[tuple[str, Callable[[Group], str]]] = [
        ("Model", lambda group: model_label(run_sheet, group.model)),
        ("Regime", lambda group: REGIME_LABELS[group.regime]),
        ("Method", lambda group: method_label(run_sheet, group.method)),
    ]
    heads = [(name, label) for name, label in varying if len({label(g) for g in shown}) > 1]
    rows: list[TableRow] = []
    previous = None
    for block in dict.fromkeys((g.model, g.regime) for g in shown):
        start, before = len(rows), True
        for group in (g for g in shown if (g.model, g.regime) == block):
            lead = (group.model, group.regime, group.method)
            same = lead == previous
            labels = ["" if same else label(group) for _, label in heads]
            rule: Rule = "" if same or previous is None else "dashed"
            whole = not run_sheet.config.calibrations[group.calibration].categories
            if same and whole and not before:
                rule = "full"  # above the sets of all bias types, as in the paper
            before = whole
            labels.append(calibration_label(run_sheet, group.calibration))
            # No daggers: SparseGPT, which they compare to, is not in these tables.
            cells = make_cells(run, group, fields, marks=False)
            rows.append(TableRow(tuple(labels), cells, identity(group), rule=rule))
            previous = lead
        embolden(rows, fields, range(start, len(rows)))
    what = {
        "calib_size": "number of UltraChat texts in the calibration",
        "calib_source": "source and bias type of the calibration pairs",
    }[slug]
    fixed = [label(shown[0]) for name, label in varying if shown and name not in dict(heads)]
    caption = f"Effect of the {what}" + (f" ({', '.join(fixed)})." if fixed else ".")
    return Table(
        slug,
        caption,
        (*(name for name, _ in heads), "Calibration data"),
        tuple(field.column for field in fields),
        tuple(rows),
        tuple(notes(run, fields, shown, rows)),
    )
