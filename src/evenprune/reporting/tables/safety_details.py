"""Unsafe, unparsed, refused and empty answers, with their errors: not in the paper."""

import dataclasses
from collections.abc import Mapping, Sequence

from ...plan.config import JUDGED
from ...plan.run_sheet import RunSheet, has_paper_form
from ...stats.directions import direction
from ..fields import Field, Run
from ..labels import benchmark_label, column_order, judge_label
from ..method_table import method_table
from ..render import Cell, Column, ColumnGroup, Table, TableRow
from ..results import Group, Quantity
from .safety import WORD_LIST, shown_experiment


def safety_fields(run_sheet: RunSheet) -> list[Field]:
    """Return the safety table's columns: rates of each benchmark, as fractions like the paper's.

    The headline's number of items and standard error have columns of their own. Where a guard
    model also judges in the authors' form there is a column for what the paper prints.
    """
    fields = []
    for slug, entry in column_order(run_sheet).items():
        if entry.task not in JUDGED:
            continue
        parts: list[tuple[str, str, ColumnGroup]] = [("unsafe_rate", "unsafe", "fairness")]
        if has_paper_form(entry):
            parts.append(("says_unsafe_paper", "unsafe, response alone", "fairness"))
        parts += [
            ("unparsed_rate", "unparsed", "plain"),
            ("refusal_rate", "refusal", "plain"),
            ("empty_rate", "empty", "plain"),
        ]
        label = benchmark_label(run_sheet, slug)
        for metric, head, group in parts:
            column = Column(
                f"{slug}_{metric}", head, group, direction(entry.task, metric), digits=3, span=label
            )
            fields.append(Field(column, Quantity(slug, metric)))
    return fields


def build(run: Run, slug: str) -> Table:
    """Return unsafe, unparsed, refused and empty answers, their intervals and the judge."""
    run_sheet, fields = run.sheet, safety_fields(run.sheet)
    experiment = shown_experiment(run_sheet, fields, slug)
    caption = (
        "Answers that the judge calls unsafe, as a share of those it decides on, with Wilson's "
        "95 % interval, the number of those and the standard error; answers whose judgement does "
        "not parse, that refuse (by a list of phrases) and that are empty, as shares of all."
    )
    table = method_table(run, slug, experiment, caption, fields)
    judges = {
        name: label
        for name in column_order(run_sheet)
        if (label := judge_label(run_sheet, name)) is not None
    }
    rows = [with_precision(run, row, fields, judges) for row in table.rows]
    columns: list[Column] = []
    for field in fields:
        columns.append(field.column)
        if field.quantity.metric == "unsafe_rate":
            name, label = field.quantity.benchmark, field.column.span
            columns.append(Column(f"{name}_stderr", "s.e.", digits=3, span=label))
            columns.append(Column(f"{name}_n", "n", digits=0, span=label))
    said = [f"{benchmark_label(run_sheet, name)}: {label}" for name, label in judges.items()]
    sentences = [f"Judge of {'; '.join(said)}."]
    if any(run_sheet.config.benchmarks[name].judge is None for name in judges):
        sentences.append(WORD_LIST)
    return dataclasses.replace(
        table, columns=tuple(columns), rows=tuple(rows), notes=(*sentences, *table.notes)
    )


def with_precision(
    run: Run, row: TableRow, fields: Sequence[Field], judges: Mapping[str, str]
) -> TableRow:
    """Return a row of the safety table with intervals, errors, counts and the judge's name."""
    if row.kind != "data":
        return row
    identity, cells = dict(row.identity), dict(row.cells)
    seeds = tuple(int(seed) for seed in identity["seeds"].split())
    group = Group(
        identity["model"], identity["method"], identity["regime"], identity["calibration"], seeds
    )
    for field in fields:
        cell = cells[field.column.key]
        if field.column.group == "fairness" and cell.ends is not None:
            ends = ", ".join(map(field.column.show, cell.ends))
            cells[field.column.key] = dataclasses.replace(cell, display=f"{cell.display} [{ends}]")
        if field.quantity.metric != "unsafe_rate":
            continue
        found, name = run.results.of(group, field.quantity), field.quantity.benchmark
        for key, value, digits in (
            ("stderr", found.stderr if found else None, 3), ("n", found.n if found else None, 0),
        ):  # fmt: skip
            column = Column(f"{name}_{key}", key, digits=digits)
            cells[column.key] = Cell(value, column.show(value))
    identity["judge"] = "; ".join(f"{name}: {label}" for name, label in judges.items())
    return dataclasses.replace(row, identity=identity, cells=cells)
