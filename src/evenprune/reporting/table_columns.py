"""Columns of tables and panels of figures, with the number of results.csv that each shows."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..analysis import labels
from ..analysis.results import Group, Quantity
from ..analysis.run import Run
from ..config.run_sheet import RunSheet, has_paper_form
from ..config.table_registry import TABLES
from ..config.tasks import FACTS, JUDGED, metrics_of
from ..io.errors import UserError
from ..stats.directions import direction
from .tables import Column

DTO = Quantity("dto", "dto")
NOISE = 1e-9
EACH = {"judged": JUDGED, "options": [name for name, facts in FACTS.items() if facts.compared]}


@dataclass(frozen=True)
class Field:
    """A column and the quantity it shows: its ``value``, ``stderr`` or ``n``."""

    column: Column
    quantity: Quantity
    of: str = "value"

    def with_column(self, **changes: Any) -> "Field":
        """Return it with a column of other looks."""
        return replace(self, column=replace(self.column, **changes))


def benchmark_field(sheet: RunSheet, slug: str, metric: str = "") -> Field:
    """Return the column of a benchmark's metric, the headline by default."""
    task, metric = sheet.config.benchmarks[slug].task, metric or sheet.headline(slug)
    label = labels.benchmark_label(sheet, slug)
    if metric != FACTS[task].headline:
        label += f" {metric}"
    scale = 1.0 if task in labels.TASK_DIGITS or metric in labels.NATS else 100.0
    digits = labels.TASK_DIGITS.get(task, 3 if metric in labels.NATS else 2)
    ability = FACTS[task].kinds.get(metric) == "ability"  # that a benchmark of bias measures too
    group = "performance" if ability else FACTS[task].group
    column = Column(slug, label, group, direction(task, metric), scale, digits)
    return Field(column, Quantity(slug, metric))


# The distance to the optimum.
DTO_FIELD = Field(Column("dto", labels.DTO_LABEL, "dto", direction("dto", "dto"), digits=3), DTO)


def dto_fields(sheet: RunSheet) -> list[Field]:
    """Return the column of the DTO where the run has the two benchmarks that it needs."""
    return [DTO_FIELD] if sheet.primary("mmlu") and sheet.primary("unqover") else []


def all_fields(sheet: RunSheet) -> list[Field]:
    """Return a column for every benchmark but those with a table of their own, then DTO.

    Raises UserError where all of the run's have one.
    """
    apart = ("stereoset", *JUDGED)
    names = [slug for slug, entry in labels.column_order(sheet).items() if entry.task not in apart]
    if not names:
        raise UserError(
            "this table or figure shows the benchmarks that have no table of their own, and this "
            f"configuration has none of these, only {', '.join(sheet.config.benchmarks)}; add "
            "one (such as mmlu), or leave it out and ask for the tables stereoset, safety"
        )
    return [*(benchmark_field(sheet, slug) for slug in names), *dto_fields(sheet)]


def category_order(names: Sequence[str]) -> list[str]:
    """Return UnQover's categories in the paper's order, others after them."""
    known, rest = list(labels.CATEGORY_LABELS), sorted(set(names) - set(labels.CATEGORY_LABELS))
    return [name for name in known if name in names] + rest


def fitted(run: Run, groups: Sequence[Group], field: Field) -> Field:
    """Return a field with as many decimals as leave its largest value two significant digits.

    One number of decimals for the whole column: what is far smaller than its largest value is
    near zero in it. Both ours and the paper's values count. What is 0 but for the rounding of
    floating point (below ``NOISE``) stays 0.
    """
    measured = [run.results.of(group, field.quantity) for group in groups]
    values = [one for each in measured if each for one in (each.value, each.printed) if one]
    largest = max((abs(value * field.column.scale) for value in values), default=0.0)
    if field.column.digits < 3 or not NOISE < largest < 10.0 ** (1 - field.column.digits):
        return field
    return field.with_column(digits=1 - math.floor(math.log10(largest)))


# As tables.yaml describes them


def refused(slug: str, tasks: Iterable[str]) -> UserError:
    """Return the error of a table whose benchmarks the configuration does not have."""
    words = [labels.TASK_LABELS[task] for task in tasks]
    return UserError(
        f"the table {slug} shows {' or '.join(words)}, but the configuration has no benchmark "
        f"with task {' or '.join(tasks)}; add one or leave the table out"
    )


def fields_of(run: Run, slug: str) -> list[Field]:
    """Return the columns of a table, with what each shows; see ``tables.yaml``.

    Raises UserError where the run lacks the task that the table is about.
    """
    entry, sheet, fields = TABLES[slug], run.sheet, list[Field]()
    task = entry.get("task")
    if task and sheet.primary(task) is None:
        raise refused(slug, [task])
    if each := entry.get("each"):
        for name, benchmark in labels.column_order(sheet).items():
            span = {"span": labels.benchmark_label(sheet, name)}
            fields += [
                _field(sheet, span | one, task, name)
                for one in entry["columns"]
                if benchmark.task in EACH[each]
                and (one["metric"] != "says_unsafe_paper" or has_paper_form(benchmark))
            ]
        if not fields:
            raise refused(slug, EACH[each])
    else:
        for one in entry["columns"]:
            fields += [_field(sheet, one, task)] if isinstance(one, dict) else _named(run, one)
    digits = {sheet.primary(name): number for name, number in entry.get("digits", {}).items()}
    return [
        field.with_column(digits=digits.get(field.quantity.benchmark, field.column.digits))
        for field in fields
    ]


def _named(run: Run, name: str) -> list[Field]:
    """Return the columns that one word stands for; none where the run lacks that benchmark."""
    sheet, order = run.sheet, labels.column_order(run.sheet)
    judged = {slug: entry for slug, entry in order.items() if entry.task in JUDGED}
    if name == "all":
        return all_fields(sheet)
    if name == "dto":
        return dto_fields(sheet)
    if name == "unjudged":
        return [benchmark_field(sheet, slug) for slug in order if slug not in judged]
    if name == "unsafe":
        if not judged:
            raise refused("safety", JUDGED)
        return [
            # What the judge says of the response alone, as the paper prints it, else of both.
            benchmark_field(
                sheet, slug, "says_unsafe_paper" if has_paper_form(entry) else "unsafe_rate"
            ).with_column(head=labels.benchmark_label(sheet, slug), scale=1.0, digits=3)
            for slug, entry in judged.items()
        ]
    shown, _, parts = name.partition(" by ")
    task, _, metric = shown.partition(" ")
    slug = benchmark_with(sheet, task, metric) if metric else sheet.primary(task)
    if slug is None:
        return []
    field = benchmark_field(sheet, slug, metric)
    if not parts:
        return [field]
    span, whole = field.column.head if metric else labels.TASK_LABELS[task], field.quantity
    fields = []
    for category in category_order(run.results.categories(slug, whole.metric)):
        head = labels.CATEGORY_LABELS.get(category, category.capitalize())
        part = field.with_column(key=f"{slug}_{category}", head=head, span=span)
        fields.append(replace(part, quantity=whole._replace(category=category)))
    return [*fields, field.with_column(head="Avg.", span=span)]


def benchmark_with(sheet: RunSheet, task: str, metric: str) -> str | None:
    """Return the first benchmark of a task whose options give it a metric, None where none does."""
    names = sheet.benchmarks(task).items()
    return next((n for n, one in names if metric in metrics_of(task, one.model_dump())), None)


def _field(sheet: RunSheet, given: dict[str, Any], task: str | None, slug: str = "") -> Field:
    """Return the column of a metric: of a benchmark, or of what is none, such as serving."""
    metric, part = given["metric"], given.get("of", "value")
    task = sheet.config.benchmarks[slug].task if slug else str(given.get("task", task))
    key = "_".join(filter(None, [slug, metric if part == "value" else part]))
    own = {k: v for k, v in given.items() if k not in ("metric", "task", "of")}
    group = FACTS[task].group if task in FACTS else "plain"
    usual = {"group": group, "direction": direction(task, metric)}
    name = slug or (task if task not in FACTS else str(sheet.primary(task)))
    return Field(Column(key, **{**usual, **own}), Quantity(name, metric), part)
