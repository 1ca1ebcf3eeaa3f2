"""Rows of tables: a cell's value, its printed counterpart, a dagger and bold; then whole tables.

A row is a checkpoint, as in most of the paper's tables, or a calibration.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..analysis.labels import REGIME_LABELS, calibration_label, method_label, model_label, words_of
from ..analysis.results import ALPHA, OURS, Group, Quantity, Run, dense_group, groups
from ..config.grids import Checkpoint
from ..config.table_registry import TABLES, experiments_of
from ..stats.directions import BEST_AT, gain
from ..stats.verdicts import LEVEL
from . import notes
from .tables import DTO, Cell, Column, Ends, Row, Rule, Table, columns_of, fitted, minus


def rate_ends(run: Run, group: Group, quantity: Quantity) -> Ends | None:
    """Return Wilson's 95 % interval of a rate of judged answers, as results.csv has it.

    None for all else, and for several seeds, whose mean is no rate of one sample.
    """
    if len(group.seeds) > 1 or quantity.benchmark not in run.sheet.config.benchmarks:
        return None
    names = (f"{quantity.metric}_low", f"{quantity.metric}_high")
    low, high = (run.results.of(group, quantity._replace(metric=name)) for name in names)
    return (low.value, high.value) if low and high else None


def make_cell(run: Run, group: Group, column: Column, marks: bool = True) -> Cell:
    """Return one number of a grid point: value, printed counterpart, a dagger if ``marks``."""
    slug, metric, category = quantity = column.quantity
    measured = run.results.of(group, quantity)
    if measured is None or column.of != "value":
        part = getattr(measured, column.of, None)
        return Cell(part, column.show(part))
    ends = rate_ends(run, group, quantity)
    display = column.with_ends(measured.value, ends if column.ends else None)
    if measured.sd is not None:
        display += f" ± {column.show(measured.sd)}"
    # A dagger: better than SparseGPT with p < 0.01. The change to the dense model has "*" where
    # Holm's p is below 0.05. Categories are not tested.
    entry, dagger, change = run.sheet.config.benchmarks.get(slug), False, ""
    if entry and marks and not category and (test := run.dagger_test(group, quantity)):
        better = gain(entry.task, metric, measured.value, measured.value - test[0]) > 0
        dagger = bool(better) and test[1] < ALPHA
    dense = None if category else run.significance.against_dense(group, slug, metric)
    if dense and dense["diff"] is not None:
        clear = dense["p_holm"] is not None and dense["p_holm"] < LEVEL
        change = show_difference(column, dense) + "*" * clear
    return Cell(
        *(measured.value, display, measured.printed, measured.sd, measured.error, ends),
        dagger=dagger,
        in_calibration=measured.in_calibration,
        source=quantity.path,
        change=change,
    )


def show_difference(
    column: Column, test: Mapping[str, Any], name: str = "diff", signed: bool = True
) -> str:
    """Return a number of a test in the unit of its difference: signed, or a ratio."""
    return f"× {test[name]:.3g}" if test["form"] == "ratio" else column.show(test[name], signed)


def checkpoint_row(run: Run, group: Group, columns: Sequence[Column], labels: tuple[str, ...],
                   rule: Rule = "", marks: bool = True) -> Row:  # fmt: skip
    """Return the row of a grid point; the label of Debias-SparseGPT is bold."""
    cells = {column.key: make_cell(run, group, column, marks) for column in columns}
    strong = 0 if run.sheet.base_method(group.method) == OURS else None
    return Row(labels, cells, group.identity, rule=rule, strong=strong)


# Bold


def rank(column: Column, value: float) -> float:
    """Return a number that is smaller for a better value, after rounding to what is shown."""
    shown, way = round(value * column.scale, column.digits), column.direction
    if way in BEST_AT:
        return abs(shown - BEST_AT[way] * column.scale)
    return -shown if way == "up" else shown


def emboldened(row: Row, keys: Iterable[str]) -> Row:
    """Return a row with some cells bold."""
    bold = {key: replace(row.cells[key], bold=True) for key in keys}
    return replace(row, cells={**row.cells, **bold})


def embolden(rows: list[Row], columns: Iterable[Column], positions: Sequence[int]) -> None:
    """Mark the best values of a block (rows at ``positions``) bold, in place; all of a tie.

    Values measured on calibration data do not compete. Nothing is marked where fewer than two
    rows have a value or all values are the same.
    """
    for column in (one for one in columns if one.direction):
        ranks = {
            position: rank(column, cell.value)
            for position in positions
            if (cell := rows[position].cell(column)).value is not None and not cell.in_calibration
        }
        if len(set(ranks.values())) > 1:
            for position, value in ranks.items():
                if value == min(ranks.values()):
                    rows[position] = emboldened(rows[position], [column.key])


def mark(kind: str, rows: list[Row], columns: Sequence[Column], positions: Sequence[int]) -> None:
    """Mark values of a block (rows at ``positions``) bold, in place, by a word of ``BOLD``."""
    for position in positions if kind != "best" else ():
        cells = rows[position].cells.items()
        rows[position] = emboldened(rows[position], [key for key, one in cells if one.dagger])
    if kind != "tested":
        embolden(rows, [f for f in columns if kind == "best" or f.quantity == DTO], positions)


# Whole tables


def made(
    run: Run,
    slug: str,
    rows: Sequence[Row],
    columns: Iterable[Column] = (),
    said: Iterable[str] | None = None,
    **words: str,
) -> Table:
    """Return a table with the words and widths of ``tables.yaml``.

    ``words`` are those that its caption leaves open, ``said`` are notes behind its own ones,
    without them only what keeps an invented world apart. Last comes how weights were stored.
    """
    entry, said = TABLES[slug], notes.provenance_notes(run.sheet) if said is None else said
    return Table(
        slug,
        notes.table_caption(run, slug, rows, words),
        tuple(entry.get("heads", ["Model + Method"])),
        tuple(columns),
        tuple(rows),
        (*entry.get("notes", ()), *said, *notes.weights_notes(run, rows)),
        tuple(entry.get("widths", ())),
    )


def blocks(found: Iterable[Group], *names: str) -> list[tuple[tuple[str, ...], list[Group]]]:
    """Return grid points by some of their parts, blocks and points in their order."""
    parts: dict[tuple[str, ...], list[Group]] = {}
    for group in found:
        parts.setdefault(tuple(getattr(group, name) for name in names), []).append(group)
    return list(parts.items())


def points_of(run: Run, slug: str) -> list[Checkpoint]:
    """Return the checkpoints of the experiment that a table shows."""
    return run.points(experiments_of(slug), f"the table {slug}")


def build(
    run: Run, slug: str, more: Callable[[Group], tuple[str, ...]] = lambda group: ()
) -> Table:
    """Return per model its dense row, or its name, and then a row a method.

    The pruned rows are in blocks by regime, or by the ``blocks`` of the table's entry; several
    blocks have headings. Labels name the calibration where there are several in a block, and
    ``more`` are those behind the first.
    """
    entry, columns, sheet = TABLES[slug], columns_of(run, slug), run.sheet
    points = points_of(run, slug)
    methods, names = entry.get("methods"), entry.get("blocks", ["regime"])
    chosen = [g for g in groups(points) if not methods or sheet.base_method(g.method) in methods]
    run.results.require([point for group in chosen for point in group.checkpoints()])
    columns = [fitted(run, groups(points), column) for column in columns]
    bold = entry.get("bold", "best")
    models = list(dict.fromkeys(point.model for point in points))
    pruned = [group for group in chosen if not group.is_base]
    several = len(blocks(pruned, *names)) > 1
    calibrations = {group.calibration for group in pruned} - {"none"}
    named = len(calibrations) > 1 and "calibration" not in names
    parts = ("method", *["calibration"] * named)
    bases = [dense_group(sheet, one) for one in models if "dense" in (methods or ["dense"])]
    dense = {one.model: one for one in bases if one}
    rows: list[Row] = []
    for model in models:
        rule: Rule = "full" if rows else ""
        label, base = model_label(sheet, model), dense.get(model)
        if base:
            rows.append(checkpoint_row(run, base, columns, (label, *more(base)), rule))
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
            for group in mine:
                words = (f"+ {words_of(sheet, group, *parts)}", *more(group))
                rows.append(checkpoint_row(run, group, columns, words, rule))
                rule = ""
            mark(bold, rows, columns, range(start, len(rows)))
    return made(
        run, slug, rows, columns, notes.notes(run, columns, [*dense.values(), *pruned], rows, bold),
        contents=notes.contents(columns) if "{contents}" in entry["caption"] else "",
        regimes=notes.regimes_phrase(points),
        model="" if len(models) > 1 else f" of {model_label(sheet, models[0])}",
        beside=", beside CrowS-Pairs" if sheet.primary("crows_pairs") else "",
    )  # fmt: skip


def calibrations(run: Run, slug: str) -> Table:
    """Return a row a calibration; where the entry asks, differences to the first one, in bold.

    The best value of a model and regime is bold. No daggers: what they are about stands in other
    tables.
    """
    sheet, columns, points = run.sheet, columns_of(run, slug), points_of(run, slug)
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
                row = checkpoint_row(run, group, columns, words, rule, marks=False)
                rows.append(row)
                if base and "difference" in TABLES[slug]:
                    rows.append(_change(columns, row, base, first))
                label, rule, base = "", "", base or row
        embolden(rows, columns, data)
    model, regime = found[0][0] if len(found) == 1 else ("", "")
    return made(
        run, slug, rows, columns, notes.notes(run, columns, shown, rows),
        fixed=f" ({model_label(sheet, model)}, {REGIME_LABELS[regime]})" if model else "",
        regimes=notes.regimes_phrase(points),
        first=f"calibration with {calibration_label(sheet, first)} alone." if shown else "first.",
    )  # fmt: skip


def _change(columns: list[Column], row: Row, base: Row, first: str) -> Row:
    """Return the row of the differences between two calibrations, in bold."""
    cells = {one.key: difference(one, row.cells[one.key], base.cells[one.key]) for one in columns}
    named = {**row.identity, "calibration": f"{row.identity['calibration']} - {first}"}
    return emboldened(Row(("", "Diff."), cells, named, "diff", strong=1), cells)


def difference(column: Column, above: Cell, below: Cell) -> Cell:
    """Return the cell of ``above`` minus ``below``, with a sign; the printed one likewise."""
    value, printed = minus(above.value, below.value), minus(above.printed, below.printed)
    if value is None:
        return Cell(None, column.show(None))
    known = above.in_calibration or below.in_calibration
    return Cell(value, column.show(value, signed=True), printed, in_calibration=known)
