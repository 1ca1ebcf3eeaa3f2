"""Rows of tables: a cell's value, the printed counterpart, a dagger and bold."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..analysis.results import ALPHA, Group, Quantity
from ..analysis.run import OURS, Run
from ..config.table_registry import TABLES
from ..stats.directions import BEST_AT, gain
from ..stats.measures import is_rate
from ..stats.verdicts import LEVEL
from .notes import BOLD, provenance_notes
from .table_columns import DTO, Field
from .tables import Cell, Column, Ends, Row, Rule, Table


def rate_ends(run: Run, group: Group, quantity: Quantity) -> Ends | None:
    """Return Wilson's 95 % interval of a rate of judged answers, as results.csv has it.

    None for all else, and for several seeds, whose mean is no rate of one sample.
    """
    entry = run.sheet.config.benchmarks.get(quantity.benchmark)
    if len(group.seeds) > 1 or entry is None or not is_rate(entry.task, quantity.metric):
        return None
    names = (f"{quantity.metric}_low", f"{quantity.metric}_high")
    low, high = (run.results.of(group, quantity._replace(metric=name)) for name in names)
    return (low.value, high.value) if low and high else None


def make_cell(run: Run, group: Group, field: Field, marks: bool = True) -> Cell:
    """Return one number of a grid point: value, printed counterpart, a dagger if ``marks``."""
    column, quantity = field.column, field.quantity
    slug, metric, category = quantity
    measured = run.results.of(group, quantity)
    if measured is None or field.of != "value":
        part = getattr(measured, field.of, None)
        return Cell(part, column.show(part))
    display, ends = column.show(measured.value), rate_ends(run, group, quantity)
    if measured.sd is not None:
        display += f" ± {column.show(measured.sd)}"
    if column.ends and ends is not None:
        display += f" [{', '.join(map(column.show, ends))}]"
    # A dagger: better than SparseGPT with p < 0.01. The change to the dense model has "*" where
    # Holm's p is below 0.05. Categories are not tested.
    entry, dagger, change = run.sheet.config.benchmarks.get(slug), False, ""
    if entry and marks and not category and (test := run.dagger_test(group, quantity)):
        better = gain(entry.task, metric, measured.value, measured.value - test[0]) > 0
        dagger = bool(better) and test[1] < ALPHA
    dense = None if category else run.significance.against_dense(group, slug, metric)
    if dense and dense["diff"] is not None:
        clear = dense["p_holm"] is not None and dense["p_holm"] < LEVEL
        change = show_difference(column, dense, "diff") + "*" * clear
    return Cell(
        *(measured.value, display, measured.printed, measured.sd, measured.error, ends),
        dagger=dagger,
        in_calibration=measured.in_calibration,
        source=quantity.path,
        change=change,
    )


def show_difference(column: Column, test: Mapping[str, Any], name: str) -> str:
    """Return a number of a test in the unit of its difference: signed, or a ratio."""
    ratio = test["form"] == "ratio"
    return f"× {test[name]:.3g}" if ratio else column.show(test[name], signed=True)


def checkpoint_row(run: Run, group: Group, fields: Sequence[Field], labels: tuple[str, ...],
                   rule: Rule = "", marks: bool = True) -> Row:  # fmt: skip
    """Return the row of a grid point; the label of Debias-SparseGPT is bold."""
    cells = {field.column.key: make_cell(run, group, field, marks) for field in fields}
    ours = run.sheet.base_method(group.method) == OURS
    return Row(labels, cells, group.identity, rule=rule, strong=ours)


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


def embolden(rows: list[Row], fields: Iterable[Field], positions: Sequence[int]) -> None:
    """Mark the best values of a block (rows at ``positions``) bold, in place; all of a tie.

    Values measured on calibration data do not compete. Nothing is marked where fewer than two
    rows have a value or all values are the same.
    """
    for column in (field.column for field in fields if field.column.direction):
        ranks = {
            position: rank(column, cell.value)
            for position in positions
            if (cell := rows[position].cells.get(column.key)) is not None
            and cell.value is not None
            and not cell.in_calibration
        }
        if len(set(ranks.values())) > 1:
            for position, value in ranks.items():
                if value == min(ranks.values()):
                    rows[position] = emboldened(rows[position], [column.key])


def mark(kind: str, rows: list[Row], fields: Sequence[Field], positions: Sequence[int]) -> None:
    """Mark values of a block (rows at ``positions``) bold, in place, by a word of ``BOLD``."""
    assert kind in BOLD
    for position in positions if kind != "best" else ():
        cells = rows[position].cells.items()
        rows[position] = emboldened(rows[position], [key for key, one in cells if one.dagger])
    if kind != "tested":
        embolden(rows, [f for f in fields if kind == "best" or f.quantity == DTO], positions)


# Whole tables


def made(
    run: Run,
    slug: str,
    rows: Sequence[Row],
    columns: Iterable[Column] = (),
    notes: Iterable[str] | None = None,
    **words: str,
) -> Table:
    """Return a table with the words and widths of ``tables.yaml``.

    ``words`` are those that its caption leaves open, ``notes`` stand behind its own ones, without
    them only what keeps an invented world apart.
    """
    entry = TABLES[slug]
    return Table(
        slug,
        entry["caption"].format_map(words) if words else entry["caption"],
        tuple(entry.get("heads", ["Model + Method"])),
        tuple(columns),
        tuple(rows),
        (*entry.get("notes", ()), *(provenance_notes(run.sheet) if notes is None else notes)),
        tuple(entry.get("widths", ())),
    )


def blocks(found: Iterable[Group], *names: str) -> list[tuple[tuple[str, ...], list[Group]]]:
    """Return grid points by some of their parts, blocks and points in their order."""
    parts: dict[tuple[str, ...], list[Group]] = {}
    for group in found:
        parts.setdefault(tuple(getattr(group, name) for name in names), []).append(group)
    return list(parts.items())
