"""Tables with a row a checkpoint, as most of the paper's are."""

from dataclasses import replace

from ...analysis.results import Group, dense_group, groups
from ...plan.table_registry import TABLES
from ..cells import Run, checkpoint_row, fitted, mark
from ..described import blocks, fields_of, kept, made, points_of
from ..labels import REGIME_LABELS, calibration_label, judge_label, method_label, model_label
from ..notes import contents, notes, regimes_phrase
from ..render import Rule, Table, TableRow


def build(run: Run, slug: str) -> Table:
    """Return per model its dense row, or its name, and then a row a method.

    The pruned rows are in blocks by regime, or by the ``blocks`` of the table's entry; several
    blocks have headings. Labels name the calibration where there are several in a block.
    """
    entry, fields, sheet = TABLES[slug], fields_of(run, slug), run.sheet
    points = points_of(run, slug)
    chosen = kept(slug, sheet, points)
    run.results.require([point for group in chosen for point in group.checkpoints()])
    fields = [fitted(run, groups(points), field) for field in fields]
    bold = entry.get("bold", "best")
    names = entry.get("blocks", ["regime"])
    models = list(dict.fromkeys(point.model for point in points))
    pruned = [group for group in chosen if not group.is_base]
    several = len(blocks(pruned, *names)) > 1
    calibrations = {group.calibration for group in pruned} - {"none"}
    named = len(calibrations) > 1 and "calibration" not in names
    rows, shown = list[TableRow](), list[Group]()

    def words(group: Group) -> str:
        text = f"+ {method_label(sheet, group.method)}"
        with_data = named and group.calibration != "none"
        return f"{text}, {calibration_label(sheet, group.calibration)}" if with_data else text

    for model in models:
        rule: Rule = "full" if rows else ""
        label, dense = model_label(sheet, model), dense_group(sheet, model)
        if dense is not None and "dense" in entry.get("methods", ["dense"]):
            rows.append(checkpoint_row(run, dense, fields, (label,), rule))
            shown.append(dense)
        else:
            rows.append(TableRow((label,), kind="heading", rule=rule))
        for key, mine in blocks((one for one in pruned if one.model == model), *names):
            rule = "dashed"
            if several:
                heads = [f"Sparsity {REGIME_LABELS[key[0]]}"]
                heads += [calibration_label(sheet, one) for one in key[1:]]
                rows.append(TableRow((", ".join(heads),), kind="heading", rule=rule))
                rule = ""
            start = len(rows)
            rows += [checkpoint_row(run, group, fields, (words(group),)) for group in mine]
            rows[start] = replace(rows[start], rule=rule)
            mark(bold, rows, fields, range(start, len(rows)))
            shown += mine
    opened = {
        "contents": contents(fields) if "{contents}" in entry["caption"] else "",
        "regimes": regimes_phrase(points),
        "model": "" if len(models) > 1 else f" of {model_label(sheet, models[0])}",
        "beside": ", beside CrowS-Pairs" if sheet.primary("crows_pairs") else "",
    }
    said = notes(run, fields, shown, rows, bold)
    return made(run, slug, rows, (field.column for field in fields), said, words=opened)


def judged(run: Run, slug: str) -> Table:
    """Return the usual rows; the CSV says in each who judged."""
    table, sheet = build(run, slug), run.sheet
    judges = {name: judge_label(sheet, name) for name in sheet.benchmarks()}
    text = "; ".join(f"{name}: {label}" for name, label in judges.items() if label)
    rows = [
        replace(row, identity={**row.identity, "judge": text}) if row.identity else row
        for row in table.rows
    ]
    return replace(table, rows=tuple(rows))
