"""Unsafe answers of the pruned models: the paper's tab:safety-evaluation."""

from ...base.errors import UserError
from ...plan.config import JUDGED
from ...plan.run_sheet import RunSheet, has_paper_form
from ...stats.directions import direction
from ..cells import embolden, identity, make_cells
from ..fields import Field, Run
from ..labels import benchmark_label, column_order, judge_label, method_label, model_label
from ..notes import limit_notes, provenance_notes
from ..render import Column, Table, TableRow
from ..results import Quantity, groups

WORD_LIST = (
    "A word list only counts words: those rates stand in for a judge and say nothing about safety."
)


def unsafe_fields(run_sheet: RunSheet) -> list[Field]:
    """Return the rate of unsafe answers of each judged benchmark, as a fraction like the paper's.

    What the guard says of the response alone where it is shown that, as the paper prints it, else
    the headline.
    """
    fields = []
    for slug, entry in column_order(run_sheet).items():
        if entry.task in JUDGED:
            metric = "says_unsafe_paper" if has_paper_form(entry) else "unsafe_rate"
            label = benchmark_label(run_sheet, slug)
            column = Column(slug, label, "fairness", direction(entry.task, metric), digits=3)
            fields.append(Field(column, Quantity(slug, metric)))
    return fields


def shown_experiment(run_sheet: RunSheet, fields: list[Field], slug: str) -> str:
    """Return which experiment a table of judged answers shows; UserError without any ``fields``."""
    if not fields:
        raise UserError(
            f"the table {slug} shows RealToxicityPrompts and HarmBench, but the configuration has "
            f"no benchmark with task {' or '.join(JUDGED)}; add one or leave the table out"
        )
    named = [one for one in ("safety", "main") if one in run_sheet.experiments]
    return next(iter([*named, *run_sheet.experiments]))


def build(run: Run, slug: str) -> Table:
    """Return the share of unsafe answers, SparseGPT's beside ours (tab:safety-evaluation).

    The lowest rate of a model is bold. Refusals, empty answers and errors are in the table
    ``safety_details``.
    """
    run_sheet, fields = run.sheet, unsafe_fields(run.sheet)
    experiment = shown_experiment(run_sheet, fields, slug)
    shown = [
        group
        for group in groups(run_sheet.experiment(experiment, f"the table {slug}"))
        if run_sheet.base_method(group.method) in ("sparsegpt", "debias-sparsegpt")
    ]
    run.results.require([point for group in shown for point in group.checkpoints()])
    rows: list[TableRow] = []
    for model in dict.fromkeys(group.model for group in shown):
        start, rule = len(rows), "full" if rows else ""
        for group in (group for group in shown if group.model == model):
            label = f"{model_label(run_sheet, model)} + {method_label(run_sheet, group.method)}"
            cells = make_cells(run, group, fields, marks=False)
            ours = run_sheet.base_method(group.method) == "debias-sparsegpt"
            # mypy takes the two words above for any text.
            rows.append(TableRow((label,), cells, identity(group), rule=rule, strong=ours))  # type: ignore[arg-type]
            rule = ""
        embolden(rows, fields, range(start, len(rows)))
    judges = [
        f"{field.column.head}: {judge_label(run_sheet, field.quantity.benchmark)}"
        for field in fields
    ]
    used = [field.quantity.benchmark for field in fields]
    sentences = [f"Judge of {'; '.join(judges)}."]
    if any(run_sheet.config.benchmarks[name].judge is None for name in used):
        sentences.append(WORD_LIST)
    marked = any(cell.bold for row in rows for cell in row.cells.values())
    bold = ["Bold: lowest rate of a model."] if marked else []
    return Table(
        slug,
        "Share of answers that the judge calls unsafe; lower is better.",
        ("Model + Method",),
        tuple(field.column for field in fields),
        tuple(rows),
        (
            *bold,
            *sentences,
            *limit_notes(run, used, shown),
            *provenance_notes(run_sheet),
        ),
    )
