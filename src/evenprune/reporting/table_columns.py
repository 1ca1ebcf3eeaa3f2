"""Columns of tables and panels of figures, with the number of results.csv that each shows."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..analysis import labels
from ..analysis.item_sums import DTO, dto_parts
from ..analysis.results import Group, Quantity, Run
from ..config.run_sheet import RunSheet, has_paper_form
from ..config.table_registry import TABLES
from ..config.tasks import FACTS, JUDGED, metrics_of
from ..io.errors import UserError
from ..stats.directions import direction
from .tables import Column

NOISE = 1e-9
UNSAFE = ("unsafe_rate", "says_unsafe_paper")  # without and with the paper's form of judging
EACH = {"judged": JUDGED, "options": [name for name, facts in FACTS.items() if facts.compared]}


def benchmark_column(sheet: RunSheet, slug: str, metric: str = "") -> Column:
    """Return the column of a benchmark's metric, the headline by default."""
    task, metric = sheet.config.benchmarks[slug].task, metric or sheet.headline(slug)
    label = labels.benchmark_label(sheet, slug)
    if metric != FACTS[task].headline:
        label += f" {metric}"
    scale = 1.0 if task in labels.TASK_DIGITS or metric in labels.NATS else 100.0
    digits = labels.TASK_DIGITS.get(task, 3 if metric in labels.NATS else 2)
    ability = FACTS[task].kinds.get(metric) == "ability"  # that a benchmark of bias measures too
    group = "performance" if ability else FACTS[task].group
    quantity, way = Quantity(slug, metric), direction(task, metric)
    return Column(slug, label, group, way, scale, digits, quantity=quantity)


# The distance to the optimum.
DTO_COLUMN = Column("dto", labels.DTO_LABEL, "dto", direction(*DTO[:2]), digits=3, quantity=DTO)


def category_order(names: Sequence[str]) -> list[str]:
    """Return UnQover's categories in the paper's order, others after them."""
    known, rest = list(labels.CATEGORY_LABELS), sorted(set(names) - set(labels.CATEGORY_LABELS))
    return [name for name in known if name in names] + rest


def fitted(run: Run, groups: Sequence[Group], column: Column) -> Column:
    """Return a column with as many decimals as leave its largest value two significant digits.

    One number of decimals for the whole column: what is far smaller than its largest value is
    near zero in it. Both ours and the paper's values count. What is 0 but for the rounding of
    floating point (below ``NOISE``) stays 0.
    """
    measured = [run.results.of(group, column.quantity) for group in groups]
    values = [one for each in measured if each for one in (each.value, each.printed) if one]
    largest = max((abs(value * column.scale) for value in values), default=0.0)
    if column.digits < 3 or not NOISE < largest < 10.0 ** (1 - column.digits):
        return column
    return replace(column, digits=1 - math.floor(math.log10(largest)))


# As tables.yaml describes them


def refused(slug: str, tasks: Iterable[str], kind: str = "table") -> UserError:
    """Return the error of a table or figure whose benchmarks the configuration does not have."""
    words = [labels.TASK_LABELS[task] for task in tasks]
    return UserError(
        f"the {kind} {slug} shows {' or '.join(words)}, but the configuration has no benchmark "
        f"with task {' or '.join(tasks)}; add one or leave the {kind} out"
    )


def columns_of(run: Run, slug: str) -> list[Column]:
    """Return the columns of a table, with what each shows; see ``tables.yaml``.

    Raises UserError where the run lacks the task that the table is about.
    """
    entry, sheet, columns = TABLES[slug], run.sheet, list[Column]()
    task, each = entry.get("task"), EACH.get(entry.get("each", ""), ())
    if task and sheet.primary(task) is None:
        raise refused(slug, [task])
    for name, benchmark in labels.column_order(sheet).items():
        span = {"span": labels.benchmark_label(sheet, name)}
        columns += [
            _column(sheet, span | one, task, name)
            for one in (entry["columns"] if benchmark.task in each else ())
            if one["metric"] != "says_unsafe_paper" or has_paper_form(benchmark)
        ]
    if each and not columns:
        raise refused(slug, each)
    for one in () if each else entry["columns"]:
        columns += [_column(sheet, one, task)] if isinstance(one, dict) else _named(run, one)
    digits = {sheet.primary(name): number for name, number in entry.get("digits", {}).items()}
    return [
        replace(column, digits=digits.get(column.quantity.benchmark, column.digits))
        for column in columns
    ]


def _named(run: Run, name: str) -> list[Column]:
    """Return the columns that one word stands for; none where the run lacks that benchmark."""
    sheet, order = run.sheet, labels.column_order(run.sheet)
    if name == "dto":
        return [DTO_COLUMN] if dto_parts(sheet) else []
    if name in ("all", "unjudged"):
        apart = JUDGED if name == "unjudged" else ("stereoset", *JUDGED)
        names = [slug for slug, entry in order.items() if entry.task not in apart]
        if name == "all" and not names:
            raise UserError(
                "this table or figure shows the benchmarks that have no table of their own, and "
                f"this configuration has none of these, only {', '.join(sheet.config.benchmarks)}; "
                "add one (such as mmlu), or leave it out and ask for the tables stereoset, safety"
            )
        columns = [benchmark_column(sheet, slug) for slug in names]
        return columns + (_named(run, "dto") if name == "all" else [])
    if name == "unsafe":
        judged = {slug: entry for slug, entry in order.items() if entry.task in JUDGED}
        if not judged:
            raise refused("safety", JUDGED)
        # What the judge says of the response alone, as the paper prints it, else of both.
        metrics = {n: UNSAFE[has_paper_form(entry)] for n, entry in judged.items()}
        columns = [
            replace(benchmark_column(sheet, *one), scale=1.0, digits=3) for one in metrics.items()
        ]
        return [replace(one, head=labels.benchmark_label(sheet, one.key)) for one in columns]
    shown, _, parts = name.partition(" by ")
    task, _, metric = shown.partition(" ")
    slug = benchmark_with(sheet, task, metric) if metric else sheet.primary(task)
    if slug is None:
        return []
    column = benchmark_column(sheet, slug, metric)
    if not parts:
        return [column]
    whole = column.quantity
    column = replace(column, head="Avg.", span=column.head if metric else labels.TASK_LABELS[task])
    names = category_order(run.results.categories(slug, whole.metric))
    heads = {name: labels.CATEGORY_LABELS.get(name, name.capitalize()) for name in names}
    return [
        replace(column, key=f"{slug}_{name}", head=head, quantity=whole._replace(category=name))
        for name, head in heads.items()
    ] + [column]


def benchmark_with(sheet: RunSheet, task: str, metric: str) -> str | None:
    """Return the first benchmark of a task whose options give it a metric, None where none does."""
    names = sheet.benchmarks(task).items()
    return next((n for n, one in names if metric in metrics_of(task, one.model_dump())), None)


def _column(sheet: RunSheet, given: dict[str, Any], task: str | None, slug: str = "") -> Column:
    """Return the column of a metric: of a benchmark, or of what is none, such as serving."""
    metric, part = given["metric"], given.get("of", "value")
    task = sheet.config.benchmarks[slug].task if slug else str(given.get("task", task))
    key = "_".join(filter(None, [slug, metric if part == "value" else part]))
    own = {k: v for k, v in given.items() if k not in ("metric", "task")}
    group = FACTS[task].group if task in FACTS else "plain"
    usual = {"group": group, "direction": direction(task, metric)}
    name = slug or (task if task not in FACTS else str(sheet.primary(task)))
    return Column(key, **{**usual, **own}, quantity=Quantity(name, metric))
