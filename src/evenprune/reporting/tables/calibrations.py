"""What another calibration does: a row a calibration set."""

import dataclasses
from collections.abc import Callable

from ..cells import BEST, difference, embolden, identity
from ..described import blocks, checkpoint_row, fields_of, made, points_of
from ..fields import Run
from ..labels import REGIME_LABELS, calibration_label, method_label, model_label
from ..notes import notes, regimes_phrase
from ..render import Cell, Rule, Table, TableRow
from ..results import Group, groups


def ablation(run: Run, slug: str) -> Table:
    """Return a calibration ablation: what all rows share is in the caption.

    No daggers: SparseGPT, which they compare to, is not in these tables.
    """
    sheet, fields, points = run.sheet, fields_of(run, slug), points_of(run, slug)
    run.results.require(points)
    shown = [group for group in groups(points) if group.calibration != "none"]
    labels: dict[str, Callable[[Group], str]] = {
        "Model": lambda group: model_label(sheet, group.model),
        "Regime": lambda group: REGIME_LABELS[group.regime],
        "Method": lambda group: method_label(sheet, group.method),
    }
    heads = [name for name, label in labels.items() if len({label(one) for one in shown}) > 1]
    rows, previous = list[TableRow](), None
    for (model, regime), mine in blocks(shown, "model", "regime"):
        start, before = len(rows), True
        for group in mine:
            lead = (model, regime, group.method)
            same = lead == previous
            rule: Rule = "" if same or previous is None else "dashed"
            whole = not sheet.config.calibrations[group.calibration].categories
            if same and whole and not before:
                rule = "full"  # above the sets of all bias types, as in the paper
            before, previous = whole, lead
            words = ["" if same else labels[name](group) for name in heads]
            words.append(calibration_label(sheet, group.calibration))
            row = checkpoint_row(run, group, fields, tuple(words), rule, marks=False)
            rows.append(dataclasses.replace(row, strong=False))
        embolden(rows, fields, range(start, len(rows)))
    fixed = [label(shown[0]) for name, label in labels.items() if shown and name not in heads]
    words_open = {"fixed": f" ({', '.join(fixed)})" if fixed else ""}
    said = notes(run, fields, shown, rows)
    return made(run, slug, rows, (one.column for one in fields), said, heads, words_open)


def differences(run: Run, slug: str) -> Table:
    """Return a row a calibration, and the difference to the first one, which is bold throughout.

    The best value of all rows of a model and regime is bold too. No daggers: the differences that
    they are about stand in other tables.
    """
    sheet, fields, points = run.sheet, fields_of(run, slug), points_of(run, slug)
    shown = [group for group in groups(points) if group.calibration != "none"]
    run.results.require([point for group in shown for point in group.checkpoints()])
    first = next((group.calibration for group in shown), None)
    found, rows = blocks(shown, "model", "regime"), list[TableRow]()
    for (model, regime), here in found:
        if len(found) > 1:
            label = f"{model_label(sheet, model)}, {REGIME_LABELS[regime]}"
            rows.append(TableRow((label,), kind="heading", rule="full" if rows else ""))
        data: list[int] = []
        for (method,), mine in blocks(here, "method"):
            label = method_label(sheet, method)
            rule: Rule = "full" if rows and rows[-1].kind != "heading" else ""
            base: dict[str, Cell] = {}
            for group in mine:
                data.append(len(rows))
                name = calibration_label(sheet, group.calibration)
                row = checkpoint_row(run, group, fields, (label, name), rule, marks=False)
                rows.append(row)
                label, rule = "", ""
                if group.calibration == first:
                    base = dict(row.cells)
                elif base:
                    change = {}
                    for key, column in ((one.column.key, one.column) for one in fields):
                        cell = difference(column, row.cells[key], base[key])
                        change[key] = dataclasses.replace(cell, bold=True)
                    named = identity(group) | {"calibration": f"{group.calibration} - {first}"}
                    rows.append(
                        TableRow(("", "Diff."), change, named, "diff", strong=True, strong_at=1)
                    )
        BEST.mark(rows, fields, data)
    words = f"calibration with {calibration_label(sheet, first)} alone." if first else "first."
    return made(
        run, slug, rows, (field.column for field in fields), notes(run, fields, shown, rows),
        words={"regimes": regimes_phrase(points), "first": words},
    )  # fmt: skip
