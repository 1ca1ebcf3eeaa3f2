"""What another calibration does: a row a calibration set."""

from dataclasses import replace

from ...analysis.results import groups
from ...plan.table_registry import TABLES
from ..cells import Field, Run, checkpoint_row, difference, embolden, identity
from ..described import blocks, fields_of, made, points_of
from ..labels import REGIME_LABELS, calibration_label, method_label, model_label
from ..notes import notes, regimes_phrase
from ..render import Rule, Table, TableRow


def build(run: Run, slug: str) -> Table:
    """Return a row a calibration; where the entry asks, differences to the first one, in bold.

    The best value of a model and regime is bold. No daggers: what they are about stands in other
    tables.
    """
    sheet, fields, points = run.sheet, fields_of(run, slug), points_of(run, slug)
    shown = [group for group in groups(points) if group.calibration != "none"]
    run.results.require([point for group in shown for point in group.checkpoints()])
    first = shown[0].calibration if shown else ""
    found, rows = blocks(shown, "model", "regime"), list[TableRow]()
    for (model, regime), here in found:
        if len(found) > 1:
            label = f"{model_label(sheet, model)}, {REGIME_LABELS[regime]}"
            rows.append(TableRow((label,), kind="heading", rule="full" if rows else ""))
        data: list[int] = []
        for (method,), mine in blocks(here, "method"):
            label = method_label(sheet, method)
            rule: Rule = "full" if rows and rows[-1].kind != "heading" else ""
            base: TableRow | None = None
            for group in mine:
                data.append(len(rows))
                words = (label, calibration_label(sheet, group.calibration))
                row = checkpoint_row(run, group, fields, words, rule, marks=False)
                rows.append(row)
                label, rule, base = "", "", base or row
                if row is not base and "difference" in TABLES[slug]:
                    rows.append(_change(fields, row, base, identity(group), first))
        embolden(rows, fields, data)
    alone = calibration_label(sheet, first) if shown else ""
    fixed = f" ({model_label(sheet, shown[0].model)}, {REGIME_LABELS[shown[0].regime]})"
    words_open = {
        "fixed": fixed if len(found) == 1 else "",
        "regimes": regimes_phrase(points),
        "first": f"calibration with {alone} alone.",
    }
    said = notes(run, fields, shown, rows)
    return made(run, slug, rows, (field.column for field in fields), said, words=words_open)


def _change(
    fields: list[Field], row: TableRow, base: TableRow, named: dict[str, str], first: str
) -> TableRow:
    """Return the row of the differences between two calibrations."""
    cells = {
        field.column.key: replace(
            difference(field.column, *(one.cells[field.column.key] for one in (row, base))),
            bold=True,
        )
        for field in fields
    }
    named = named | {"calibration": f"{named['calibration']} - {first}"}
    return TableRow(("", "Diff."), cells, named, "diff", strong=True, strong_at=1)
