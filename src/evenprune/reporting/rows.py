"""Tables with a row a checkpoint, as most of the paper's are, and with a row a calibration."""

from dataclasses import replace

from ..analysis import labels
from ..analysis.labels import REGIME_LABELS, calibration_label, method_label, model_label
from ..analysis.results import Group, dense_group, groups
from ..analysis.run import Run
from ..config.grids import Checkpoint
from ..config.table_registry import TABLES
from .cells import blocks, checkpoint_row, embolden, emboldened, made, mark
from .notes import contents, notes, regimes_phrase
from .table_columns import Field, fields_of, fitted
from .tables import Cell, Column, Row, Rule, Table


def points_of(run: Run, slug: str) -> list[Checkpoint]:
    """Return the checkpoints of the experiment that a table shows."""
    return run.points(TABLES[slug].get("experiments", [slug]), f"the table {slug}")


def build(run: Run, slug: str) -> Table:
    """Return per model its dense row, or its name, and then a row a method.

    The pruned rows are in blocks by regime, or by the ``blocks`` of the table's entry; several
    blocks have headings. Labels name the calibration where there are several in a block.
    """
    entry, fields, sheet = TABLES[slug], fields_of(run, slug), run.sheet
    points = points_of(run, slug)
    methods, names = entry.get("methods"), entry.get("blocks", ["regime"])
    chosen = [g for g in groups(points) if not methods or sheet.base_method(g.method) in methods]
    run.results.require([point for group in chosen for point in group.checkpoints()])
    fields = [fitted(run, groups(points), field) for field in fields]
    bold = entry.get("bold", "best")
    models = list(dict.fromkeys(point.model for point in points))
    pruned = [group for group in chosen if not group.is_base]
    several = len(blocks(pruned, *names)) > 1
    calibrations = {group.calibration for group in pruned} - {"none"}
    named = len(calibrations) > 1 and "calibration" not in names
    rows, shown = list[Row](), list[Group]()

    def words(group: Group) -> str:
        text = f"+ {method_label(sheet, group.method)}"
        with_data = named and group.calibration != "none"
        return f"{text}, {calibration_label(sheet, group.calibration)}" if with_data else text

    for model in models:
        rule: Rule = "full" if rows else ""
        label, dense = model_label(sheet, model), dense_group(sheet, model)
        if dense is not None and "dense" in (methods or ["dense"]):
            rows.append(checkpoint_row(run, dense, fields, (label,), rule))
            shown.append(dense)
        else:
            rows.append(Row((label,), kind="heading", rule=rule))
        for key, mine in blocks((one for one in pruned if one.model == model), *names):
            rule = "dashed"
            if several:
                heads = [f"Sparsity {REGIME_LABELS[key[0]]}"]
                heads += [calibration_label(sheet, one) for one in key[1:]]
                rows.append(Row((", ".join(heads),), kind="heading", rule=rule))
                rule = ""
            start = len(rows)
            rows += [checkpoint_row(run, group, fields, (words(group),)) for group in mine]
            rows[start] = replace(rows[start], rule=rule)
            mark(bold, rows, fields, range(start, len(rows)))
            shown += mine
    return made(
        run, slug, rows, (field.column for field in fields),
        notes(run, fields, shown, rows, bold),
        contents=contents(fields) if "{contents}" in entry["caption"] else "",
        regimes=regimes_phrase(points),
        model="" if len(models) > 1 else f" of {model_label(sheet, models[0])}",
        beside=", beside CrowS-Pairs" if sheet.primary("crows_pairs") else "",
    )  # fmt: skip


def judged(run: Run, slug: str) -> Table:
    """Return the usual rows; the CSV says in each who judged."""
    table, sheet = build(run, slug), run.sheet
    judges = {name: labels.judge_label(sheet, name) for name in sheet.benchmarks()}
    text = "; ".join(f"{name}: {label}" for name, label in judges.items() if label)
    named = ({**row.identity, "judge": text} if row.identity else {} for row in table.rows)
    rows = (replace(row, identity=own) for row, own in zip(table.rows, named))
    return replace(table, rows=tuple(rows))


def calibrations(run: Run, slug: str) -> Table:
    """Return a row a calibration; where the entry asks, differences to the first one, in bold.

    The best value of a model and regime is bold. No daggers: what they are about stands in other
    tables.
    """
    sheet, fields, points = run.sheet, fields_of(run, slug), points_of(run, slug)
    shown = [group for group in groups(points) if group.calibration != "none"]
    run.results.require([point for group in shown for point in group.checkpoints()])
    first = shown[0].calibration if shown else ""
    found, rows = blocks(shown, "model", "regime"), list[Row]()
    for (model, regime), here in found:
        if len(found) > 1:
            label = f"{model_label(sheet, model)}, {REGIME_LABELS[regime]}"
            rows.append(Row((label,), kind="heading", rule="full" if rows else ""))
        data: list[int] = []
        for (method,), mine in blocks(here, "method"):
            label = method_label(sheet, method)
            rule: Rule = "full" if rows and rows[-1].kind != "heading" else ""
            base: Row | None = None
            for group in mine:
                data.append(len(rows))
                words = (label, calibration_label(sheet, group.calibration))
                row = checkpoint_row(run, group, fields, words, rule, marks=False)
                rows.append(row)
                if base and "difference" in TABLES[slug]:
                    rows.append(_change(fields, row, base, first))
                label, rule, base = "", "", base or row
        embolden(rows, fields, data)
    fixed = f" ({model_label(sheet, shown[0].model)}, {REGIME_LABELS[shown[0].regime]})"
    return made(
        run, slug, rows, (field.column for field in fields), notes(run, fields, shown, rows),
        fixed=fixed if len(found) == 1 else "",
        regimes=regimes_phrase(points),
        first=f"calibration with {calibration_label(sheet, first) if shown else ''} alone.",
    )  # fmt: skip


def _change(fields: list[Field], row: Row, base: Row, first: str) -> Row:
    """Return the row of the differences between two calibrations, in bold."""
    cells = {
        column.key: difference(column, row.cells[column.key], base.cells[column.key])
        for column in (field.column for field in fields)
    }
    named = {**row.identity, "calibration": f"{row.identity['calibration']} - {first}"}
    return emboldened(Row(("", "Diff."), cells, named, "diff", strong=True, strong_at=1), cells)


def difference(column: Column, above: Cell, below: Cell) -> Cell:
    """Return the cell of ``above`` minus ``below``, with a sign; the printed one likewise."""
    if above.value is None or below.value is None:
        return Cell(None, column.show(None))
    value, known = above.value - below.value, above.in_calibration or below.in_calibration
    both = above.printed is not None and below.printed is not None
    printed = above.printed - below.printed if both else None  # type: ignore[operator]
    return Cell(value, column.show(value, signed=True), printed, in_calibration=known)
