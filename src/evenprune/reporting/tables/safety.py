"""Answers that a judge calls unsafe: the paper's tab:safety-evaluation, and more of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...plan.config import JUDGED
from ...plan.run_sheet import has_paper_form
from ...stats.directions import direction
from ..cells import embolden
from ..described import blocks, checkpoint_row, fields_of, kept, made, points_of, refused
from ..fields import Field, Run
from ..labels import benchmark_label, column_order, judge_label, method_label, model_label
from ..notes import limit_notes, provenance_notes
from ..render import Cell, Column, Rule, Table, TableRow
from ..results import Group, Quantity
from . import rows as usual

WORD_LIST = (
    "A word list only counts words: those rates stand in for a judge and say nothing about safety."
)


def judges_of(run: Run) -> tuple[dict[str, str], list[str]]:
    """Return who judges each benchmark, and sentences on that."""
    sheet = run.sheet
    judges = {name: label for name in column_order(sheet) if (label := judge_label(sheet, name))}
    said = "; ".join(f"{benchmark_label(sheet, name)}: {one}" for name, one in judges.items())
    listed = any(sheet.config.benchmarks[name].judge is None for name in judges)
    return judges, [f"Judge of {said}.", *([WORD_LIST] if listed else [])]


def rates(run: Run, slug: str) -> Table:
    """Return the share of unsafe answers, SparseGPT's beside ours, as fractions like the paper's.

    What the guard says of the response alone where it is shown that, as the paper prints it, else
    the headline. The lowest rate of a model is bold.
    """
    sheet, fields = run.sheet, list[Field]()
    for name, entry in column_order(sheet).items():
        if entry.task in JUDGED:
            metric = "says_unsafe_paper" if has_paper_form(entry) else "unsafe_rate"
            way, head = direction(entry.task, metric), benchmark_label(sheet, name)
            column = Column(name, head, "fairness", way, digits=3)
            fields.append(Field(column, Quantity(name, metric)))
    if not fields:
        raise refused(slug, JUDGED)
    shown = kept(run, slug, points_of(run, slug))
    run.results.require([point for group in shown for point in group.checkpoints()])
    rows: list[TableRow] = []
    for (model,), mine in blocks(shown, "model"):
        start = len(rows)
        for group in mine:
            label = f"{model_label(sheet, model)} + {method_label(sheet, group.method)}"
            rule: Rule = "full" if rows and len(rows) == start else ""
            rows.append(checkpoint_row(run, group, fields, (label,), rule, marks=False))
        embolden(rows, fields, range(start, len(rows)))
    marked = any(cell.bold for row in rows for cell in row.cells.values())
    judges, said = judges_of(run)
    said = [*(["Bold: lowest rate of a model."] if marked else []), *said]
    said += [*limit_notes(run, judges, shown), *provenance_notes(sheet)]
    return made(run, slug, rows, (field.column for field in fields), said)


def details(run: Run, slug: str) -> Table:
    """Return unsafe, unparsed, refused and empty answers, their intervals and the judge."""
    fields, table = fields_of(run, slug), usual.build(run, slug)
    judges, said = judges_of(run)
    columns: list[Column] = []
    for field in fields:
        columns.append(field.column)
        if field.quantity.metric == "unsafe_rate":
            name, label = field.quantity.benchmark, field.column.span
            columns.append(Column(f"{name}_stderr", "s.e.", digits=3, span=label))
            columns.append(Column(f"{name}_n", "n", digits=0, span=label))
    rows = tuple(with_precision(run, row, fields, judges) for row in table.rows)
    return replace(table, columns=tuple(columns), rows=rows, notes=(*said, *table.notes))


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
            cells[field.column.key] = replace(cell, display=f"{cell.display} [{ends}]")
        if field.quantity.metric != "unsafe_rate":
            continue
        found, name = run.results.of(group, field.quantity), field.quantity.benchmark
        for key, value, digits in (
            ("stderr", found.stderr if found else None, 3), ("n", found.n if found else None, 0),
        ):  # fmt: skip
            column = Column(f"{name}_{key}", key, digits=digits)
            cells[column.key] = Cell(value, column.show(value))
    identity["judge"] = "; ".join(f"{name}: {label}" for name, label in judges.items())
    return replace(row, identity=identity, cells=cells)
