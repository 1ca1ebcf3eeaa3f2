"""The effect of UltraChat texts beside the calibration pairs: the paper's qwen_ultrachat_effect."""

import dataclasses

from ..cells import BEST, difference, identity, make_cells
from ..fields import Run, ablation_fields
from ..labels import REGIME_LABELS, calibration_label, method_label, model_label
from ..notes import notes, regimes_phrase
from ..render import Cell, Rule, Table, TableRow
from ..results import Group, groups


def build(run: Run, slug: str) -> Table:
    """Return the effect of added texts (tab:qwen_ultrachat_effect).

    A row a calibration, and the difference to the first one, which is bold throughout. The best
    value of all rows of a model and regime is bold too.
    """
    run_sheet = run.sheet
    fields = [
        field
        for field in ablation_fields(run, by_category=False)
        if field.column.group != "perplexity"
    ]
    points = run_sheet.experiment(slug, f"the table {slug}")
    shown = [group for group in groups(points) if group.calibration != "none"]
    run.results.require([point for group in shown for point in group.checkpoints()])
    first = next((group.calibration for group in shown), None)
    blocks = list(dict.fromkeys((group.model, group.regime) for group in shown))
    rows: list[TableRow] = []
    for model, regime in blocks:
        if len(blocks) > 1:
            label = f"{model_label(run_sheet, model)}, {REGIME_LABELS[regime]}"
            rows.append(TableRow((label,), kind="heading", rule="full" if rows else ""))
        here = [group for group in shown if (group.model, group.regime) == (model, regime)]
        data: list[int] = []
        for method in dict.fromkeys(group.method for group in here):
            label, rule = method_label(run_sheet, method), _rule(rows)
            ours = run_sheet.base_method(method) == "debias-sparsegpt"
            base: dict[str, Cell] = {}
            for group in (group for group in here if group.method == method):
                # No daggers: the differences that they are about stand in other tables.
                cells = make_cells(run, group, fields, marks=False)
                labels = (label, calibration_label(run_sheet, group.calibration))
                data.append(len(rows))
                rows.append(TableRow(labels, cells, identity(group), rule=rule, strong=ours))
                label, rule = "", ""
                if group.calibration == first:
                    base = cells
                elif base:
                    change = {
                        field.column.key: dataclasses.replace(
                            difference(
                                field.column, cells[field.column.key], base[field.column.key]
                            ),
                            bold=True,
                        )
                        for field in fields
                    }
                    named = identity(group) | {"calibration": f"{group.calibration} - {first}"}
                    rows.append(
                        TableRow(("", "Diff."), change, named, "diff", strong=True, strong_at=1)
                    )
        BEST.mark(rows, fields, data)
    return _table(run, slug, fields, shown, rows, first)


def _table(
    run: Run, slug: str, fields: list, shown: list[Group], rows: list[TableRow], first: str | None
) -> Table:
    caption = "Effect of adding UltraChat texts to the calibration pairs"
    caption += f" at {regimes_phrase(run, slug, f'the table {slug}')}. Diff.: change against the "
    caption += (
        f"calibration with {calibration_label(run.sheet, first)} alone." if first else "first."
    )
    return Table(
        slug,
        caption,
        ("Method", "Calibration data"),
        tuple(field.column for field in fields),
        tuple(rows),
        tuple(notes(run, fields, shown, rows)),
    )


def _rule(rows: list[TableRow]) -> Rule:
    return "full" if rows and rows[-1].kind != "heading" else ""
