"""Cells of tables: values with their printed counterparts, daggers and bold."""

import dataclasses
from collections.abc import Sequence

from ..plan.run_sheet import RunSheet
from ..stats.directions import LEVEL, better
from ..stats.measures import is_rate
from .fields import DTO, Field, Run
from .render import Cell, Column, TableRow
from .results import ALPHA, Group, Quantity, Results


def rate_ends(
    run_sheet: RunSheet, results: Results, group: Group, quantity: Quantity
) -> tuple[float, float] | None:
    """Return Wilson's 95 % interval of a rate of judged answers, as results.csv has it.

    None for all else, and for several seeds, whose mean is no rate of one sample.
    """
    entry = run_sheet.config.benchmarks.get(quantity.benchmark)
    if len(group.seeds) > 1 or entry is None or not is_rate(entry.task, quantity.metric):
        return None
    low, high = (
        results.of(group, quantity._replace(metric=f"{quantity.metric}_{end}"))
        for end in ("low", "high")
    )
    return None if low is None or high is None else (low.value, high.value)


def make_cells(
    run: Run, group: Group, fields: Sequence[Field], marks: bool = True
) -> dict[str, Cell]:
    """Return the cells of one grid point: values, printed counterparts, daggers if ``marks``."""
    cells = {}
    for field in fields:
        measured = run.results.of(group, field.quantity)
        if measured is None:
            cells[field.column.key] = Cell(None, field.column.show(None))
            continue
        if field.of != "value":
            part = getattr(measured, field.of)
            cells[field.column.key] = Cell(part, field.column.show(part))
            continue
        display = field.column.show(measured.value)
        ends = rate_ends(run.sheet, run.results, group, field.quantity)
        if measured.sd is not None:
            display += f" ± {field.column.show(measured.sd)}"
        if field.column.ends and ends is not None:
            display += f" [{', '.join(map(field.column.show, ends))}]"
        cells[field.column.key] = Cell(
            measured.value,
            display,
            measured.printed,
            measured.sd,
            measured.error,
            ends,
            dagger=marks and is_improvement(run, group, field.quantity, measured.value),
            in_calibration=measured.in_calibration,
            source="/".join(part for part in field.quantity if part),
            change=change_of(run, group, field),
        )
    return cells


def change_of(run: Run, group: Group, field: Field) -> str:
    """Return the difference to the dense model as text, with "*" where Holm's p is below 0.05."""
    benchmark, metric, category = field.quantity
    test = None if category else run.significance.against_dense(group, benchmark, metric)
    if not test or test["diff"] is None:
        return ""
    clear = test["p_holm"] is not None and test["p_holm"] < LEVEL
    return field.column.show(test["diff"], signed=True) + "*" * clear


def is_improvement(run: Run, group: Group, quantity: Quantity, value: float) -> bool:
    """Return whether a test says that this grid point improves on SparseGPT, p < 0.01."""
    if quantity.category or quantity.benchmark not in run.sheet.config.benchmarks:
        return False
    tested = run.dagger_test(group, quantity)
    if tested is None or tested[1] >= ALPHA:
        return False
    task = run.sheet.config.benchmarks[quantity.benchmark].task
    return better(task, quantity.metric, value, value - tested[0])


def rank(column: Column, value: float) -> float:
    """Return a number that is smaller for a better value, after rounding to what is shown."""
    shown = round(value * column.scale, column.digits)
    if column.direction in ("half", "zero"):
        return abs(shown - (column.scale / 2 if column.direction == "half" else 0))
    return -shown if column.direction == "up" else shown


def embolden(rows: list[TableRow], fields: Sequence[Field], positions: Sequence[int]) -> None:
    """Mark the best values of a block (rows at ``positions``) bold, in place; all of a tie.

    Values measured on calibration data do not compete. Nothing is marked where fewer than two
    rows have a value or all values are the same.
    """
    for field in fields:
        key = field.column.key
        ranks = {
            position: rank(field.column, cell.value)
            for position in positions
            if (cell := rows[position].cells.get(key)) is not None
            and cell.value is not None
            and not cell.in_calibration
        }
        if not field.column.direction or len(set(ranks.values())) < 2:
            continue
        best = min(ranks.values())
        for position in (position for position, value in ranks.items() if value == best):
            cells = dict(rows[position].cells)
            cells[key] = dataclasses.replace(cells[key], bold=True)
            rows[position] = dataclasses.replace(rows[position], cells=cells)


# What is bold, by the word of tables.yaml: the best value of a block's column, or as in the paper
# where daggers stand, what is significant, and the lowest DTO of a block.
BOLD = {
    "best": "Bold: best pruned value of a block.",
    "significant": "Bold: improvements with a dagger, and the best pruned DTO of a block.",
    "tested": "Bold: improvements with a dagger.",
}


def mark(
    kind: str, rows: list[TableRow], fields: Sequence[Field], positions: Sequence[int]
) -> None:
    """Mark values of a block (rows at ``positions``) bold, in place, by a word of ``BOLD``."""
    for position in positions if kind != "best" else ():
        cells = {
            key: dataclasses.replace(cell, bold=cell.bold or cell.dagger)
            for key, cell in rows[position].cells.items()
        }
        rows[position] = dataclasses.replace(rows[position], cells=cells)
    if kind != "tested":
        embolden(rows, [f for f in fields if kind == "best" or f.quantity == DTO], positions)


def identity(group: Group) -> dict[str, str]:
    """Return the columns that name a grid point in a table's CSV."""
    return {**group.named, "seeds": " ".join(map(str, group.seeds))}


def difference(column: Column, above: Cell, below: Cell) -> Cell:
    """Return the cell of ``above`` minus ``below``, with a sign; the printed one likewise."""
    if above.value is None or below.value is None:
        return Cell(None, column.show(None))
    value = above.value - below.value
    printed = None
    if above.printed is not None and below.printed is not None:
        printed = above.printed - below.printed
    known = above.in_calibration or below.in_calibration
    return Cell(value, column.show(value, signed=True), printed, in_calibration=known)
