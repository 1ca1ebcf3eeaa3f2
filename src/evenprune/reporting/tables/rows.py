"""Tables with a row a checkpoint, and those that turn or sort such rows."""

from collections.abc import Sequence
from dataclasses import replace

from ...base.errors import UserError
from ...plan.shown import TABLES
from ..cells import BEST, DAGGERS, SIGNIFICANT, Bold, make_cells
from ..described import blocks, checkpoint_row, fields_of, kept, made, points_of
from ..fields import Field, Run, fitted
from ..labels import REGIME_LABELS, calibration_label, method_label, model_label
from ..notes import contents, limit_notes, notes, provenance_notes, regimes_phrase
from ..render import Column, Rule, Table, TableRow
from ..results import Group, dense_group, groups

BOLD = {"best": BEST, "significant": SIGNIFICANT, "tested": DAGGERS}


def build(run: Run, slug: str) -> Table:
    """Return the paper's main form of a table: per model the dense row, then a row a method."""
    entry, fields = TABLES[slug], fields_of(run, slug)
    points = points_of(run, slug)
    run.results.require(points)
    fields = [fitted(run, groups(points), field) for field in fields]
    bold = BOLD[entry.get("bold", "best")]
    models = list(dict.fromkeys(point.model for point in points))
    pruned = [group for group in kept(run, slug, points) if not group.is_base]
    rows, shown = (_by_label if "rows" in entry else _by_method)(
        run, models, pruned, fields, bold, entry.get("rows", [])
    )
    words = {
        "contents": contents(fields) if "{contents}" in entry["caption"] else "",
        "regimes": regimes_phrase(points),
        "model": "" if len(models) > 1 else f" of {model_label(run.sheet, models[0])}",
        "beside": ", beside CrowS-Pairs" if run.sheet.primary("crows_pairs") else "",
    }
    said = notes(run, fields, shown, rows, bold)
    return made(run, slug, rows, (field.column for field in fields), said, words=words)


def _by_method(
    run: Run,
    models: Sequence[str],
    pruned: Sequence[Group],
    fields: Sequence[Field],
    bold: Bold,
    _: Sequence[str],
) -> tuple[list[TableRow], list[Group]]:
    """Return rows with one label: the model's, then a method's.

    With several regimes each has a heading; with several calibrations each method's label names it.
    """
    sheet, rows, shown = run.sheet, list[TableRow](), list[Group]()
    several_regimes = len({group.regime for group in pruned}) > 1
    several = len({group.calibration for group in pruned} - {"none"}) > 1
    for model in models:
        rule: Rule = "full" if rows else ""
        dense, label = dense_group(sheet, model), model_label(sheet, model)
        if dense is not None:
            rows.append(checkpoint_row(run, dense, fields, (label,), rule))
            shown.append(dense)
        else:
            rows.append(TableRow((label,), kind="heading", rule=rule))
        for (regime,), mine in blocks((one for one in pruned if one.model == model), "regime"):
            rule = "dashed"
            if several_regimes:
                words = f"Sparsity {REGIME_LABELS[regime]}"
                rows.append(TableRow((words,), kind="heading", rule=rule))
                rule = ""
            start = len(rows)
            for group in mine:
                label = f"+ {method_label(sheet, group.method)}"
                if several and group.calibration != "none":
                    label += f", {calibration_label(sheet, group.calibration)}"
                rows.append(checkpoint_row(run, group, fields, (label,), rule))
                rule = ""
            shown += mine
            bold.mark(rows, fields, range(start, len(rows)))
    return rows, shown


def _by_label(
    run: Run,
    models: Sequence[str],
    pruned: Sequence[Group],
    fields: Sequence[Field],
    bold: Bold,
    names: Sequence[str],
) -> tuple[list[TableRow], list[Group]]:
    """Return rows with a column of labels for the regime, the calibration if asked, the method.

    With several models, or calibrations, each model has a heading.
    """
    sheet, rows, shown = run.sheet, list[TableRow](), list[Group]()
    lead = "" if len(names) > 1 else "Sparsity "
    for model in models:
        if len(models) > 1 or len(names) > 1:
            label = model_label(sheet, model)
            rows.append(TableRow((label,), kind="heading", rule="full" if rows else ""))
        dense = dense_group(sheet, model)
        if dense is not None:
            rows.append(checkpoint_row(run, dense, fields, ("Dense", *("–" for _ in names))))
            shown.append(dense)
        previous = ""
        for (regime, *rest), mine in blocks((one for one in pruned if one.model == model), *names):
            start = len(rows)
            labels = ["" if regime == previous else f"{lead}{REGIME_LABELS[regime]}"]
            labels += [calibration_label(sheet, one, short=True) for one in rest]
            previous = regime
            for group in mine:
                words = (*labels, method_label(sheet, group.method))
                rule: Rule = "dashed" if rows and group is mine[0] else ""
                rows.append(checkpoint_row(run, group, fields, words, rule, at=len(names)))
                labels = ["" for _ in labels]
            shown += mine
            bold.mark(rows, fields, range(start, len(rows)))
    return rows, shown


def by_kind(run: Run, slug: str) -> Table:
    """Return the usual rows, instruction-tuned models under a heading and base models under one.

    Where the catalogue says which is which; others come last.
    """
    table = build(run, slug)
    rows, models = table.rows, run.sheet.config.models
    parts: dict[bool | None, list[list[TableRow]]] = {True: [], False: [], None: []}
    for row, following in zip(rows, [*rows[1:], rows[-1]], strict=True):
        if row.rule == "full" or row is rows[0]:
            # The dense row, or a model's name where it has none: the next row says whose.
            model = row.identity.get("model") or following.identity["model"]
            current: list[TableRow] = []
            parts[models[model].instruction_tuned].append(current)
        current.append(row)
    found: list[TableRow] = []
    for tuned, words in ((True, "Instruction-tuned Models"), (False, "Base Models"), (None, "")):
        if parts[tuned] and words:
            found.append(TableRow((words,), kind="heading", rule="full" if found else ""))
        for index, block in enumerate(parts[tuned]):
            # Behind a heading and at the very top the line above is drawn already.
            first: Rule = "full" if found and (index or words) else ""
            found += [replace(block[0], rule=first), *block[1:]]
    return replace(table, rows=tuple(found))


def transposed(run: Run, slug: str) -> Table:
    """Return a row a number and a column a dense model; a line above the first one of a kind."""
    fields, points = fields_of(run, slug), points_of(run, slug)
    models = dict.fromkeys(point.model for point in points)
    dense = [group for model in models if (group := dense_group(run.sheet, model)) is not None]
    if not dense:
        raise UserError(
            f"the table {slug} shows dense models, but its experiment has none; add the method "
            "dense to it or leave the table out"
        )
    run.results.require([point for group in dense for point in group.checkpoints()])
    rows = []
    for field in fields:
        named = field.quantity.metric
        cells = {
            group.model: make_cells(run, group, [field], marks=False)[field.column.key]
            for group in dense
        }
        head = "Accuracy" if field is fields[0] else field.column.head
        rule: Rule = "full" if named.endswith("_correct") else ""
        rows.append(TableRow((head,), cells, {"metric": named}, rule=rule, form=field.column))
    columns = [Column(group.model, model_label(run.sheet, group.model)) for group in dense]
    limits = limit_notes(run, [fields[0].quantity.benchmark], dense)
    return made(run, slug, rows, columns, [*limits, *provenance_notes(run.sheet)])
