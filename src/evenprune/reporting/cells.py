"""Columns of tables and figures with the quantity that each shows, and their cells.

A cell has its value, the printed counterpart, a dagger and bold.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..analysis.results import ALPHA, Group, Quantity, Results, Significance
from ..base.errors import UserError
from ..plan.run_sheet import RunSheet
from ..plan.tasks import FACTS, JUDGED
from ..stats.directions import better, direction
from ..stats.measures import is_rate
from ..stats.verdicts import KINDS, LEVEL
from .labels import (
    CATEGORY_LABELS,
    DTO_LABEL,
    NATS,
    TASK_DIGITS,
    TASK_GROUPS,
    benchmark_label,
    column_order,
)
from .render import Cell, Column, Rule, TableRow

DTO = Quantity("dto", "dto")
NOISE = 1e-9
OURS = "debias-sparsegpt"
# Abilities that a benchmark of bias measures too.
ABILITIES = [key for key, kind in KINDS.items() if kind == "ability"]


@dataclass(frozen=True)
class Field:
    """A column and the quantity it shows: its ``value``, ``stderr`` or ``n``."""

    column: Column
    quantity: Quantity
    of: str = "value"


@dataclass(frozen=True)
class Run:
    """What a table is made from."""

    sheet: RunSheet
    results: Results
    significance: Significance

    def dagger_test(self, group: Group, quantity: Quantity) -> tuple[float, float] | None:
        """Return (difference to SparseGPT, p) of the test that the paper's dagger stands for.

        Debias-SparseGPT's only; None for other methods and where nothing was tested.
        """
        if self.sheet.base_method(group.method) != OURS:
            return None
        return self.significance.of(group, quantity.benchmark, quantity.metric)


def benchmark_field(run_sheet: RunSheet, slug: str, metric: str = "") -> Field:
    """Return the column of a benchmark's metric, the headline by default."""
    task, metric = run_sheet.config.benchmarks[slug].task, metric or run_sheet.headline(slug)
    label = benchmark_label(run_sheet, slug)
    if metric != FACTS[task].headline:
        label += f" {metric}"
    scale = 1.0 if task in TASK_DIGITS or metric in NATS else 100.0
    digits = TASK_DIGITS.get(task, 3 if metric in NATS else 2)
    group = "performance" if (task, metric) in ABILITIES else TASK_GROUPS[task]
    column = Column(slug, label, group, direction(task, metric), scale, digits)
    return Field(column, Quantity(slug, metric))


def dto_field() -> Field:
    """Return the column of the distance to the optimum."""
    return Field(Column("dto", DTO_LABEL, "dto", direction("dto", "dto"), digits=3), DTO)


def has_dto(run_sheet: RunSheet) -> bool:
    """Return whether the run has the two benchmarks that DTO needs."""
    return bool(run_sheet.primary("mmlu") and run_sheet.primary("unqover"))


def all_fields(run_sheet: RunSheet) -> list[Field]:
    """Return a column for every benchmark but those with a table of their own, then DTO.

    Raises UserError where all of the run's have one.
    """
    apart = ("stereoset", *JUDGED)
    shown = [slug for slug, entry in column_order(run_sheet).items() if entry.task not in apart]
    if not shown:
        raise UserError(
            "this table or figure shows the benchmarks that have no table of their own, and this "
            f"configuration has none of these, only {', '.join(run_sheet.config.benchmarks)}; add "
            "one (such as mmlu), or leave it out and ask for the tables stereoset, safety"
        )
    fields = [benchmark_field(run_sheet, slug) for slug in shown]
    return fields + ([dto_field()] if has_dto(run_sheet) else [])


def fitted(run: Run, shown: Sequence[Group], field: Field) -> Field:
    """Return a field with as many decimals as leave its largest value two significant digits.

    One number of decimals for the whole column: what is far smaller than its largest value is
    near zero in it. Both ours and the paper's values count. What is 0 but for the rounding of
    floating point (below ``NOISE``) stays 0.
    """
    found = [run.results.of(group, field.quantity) for group in shown]
    values = [one for each in found if each for one in (each.value, each.printed) if one]
    largest = max((abs(value * field.column.scale) for value in values), default=0.0)
    if field.column.digits < 3 or not NOISE < largest < 10.0 ** (1 - field.column.digits):
        return field
    digits = 1 - math.floor(math.log10(largest))
    return replace(field, column=replace(field.column, digits=digits))


def category_order(names: Iterable[str]) -> list[str]:
    """Return UnQover's categories in the paper's order, others after them."""
    place = {name: index for index, name in enumerate(CATEGORY_LABELS)}
    return sorted(names, key=lambda name: (place.get(name, len(place)), name))


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
    return show_difference(field.column, test, "diff") + "*" * clear


def show_difference(column: Column, test: Mapping[str, Any], name: str) -> str:
    """Return a number of a test in the unit of its difference: signed, or a ratio."""
    if test["form"] == "ratio":
        return f"× {test[name]:.3g}"
    return column.show(test[name], signed=True)


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
            cells[key] = replace(cells[key], bold=True)
            rows[position] = replace(rows[position], cells=cells)


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
            key: replace(cell, bold=cell.bold or cell.dagger)
            for key, cell in rows[position].cells.items()
        }
        rows[position] = replace(rows[position], cells=cells)
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


def checkpoint_row(run: Run, group: Group, fields: Sequence[Field], labels: tuple[str, ...],
                   rule: Rule = "", marks: bool = True) -> TableRow:  # fmt: skip
    """Return the row of a grid point; the label of Debias-SparseGPT is bold."""
    cells = make_cells(run, group, fields, marks)
    ours = run.sheet.base_method(group.method) == OURS
    return TableRow(labels, cells, identity(group), rule=rule, strong=ours)
