"""Tables as ``tables.yaml`` describes them: their experiment, columns, words and checkpoints."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..analysis.results import Group, Quantity, experiment_of, groups
from ..base.errors import UserError
from ..plan.grids import Checkpoint
from ..plan.run_sheet import RunSheet, has_paper_form
from ..plan.table_registry import TABLES
from ..plan.tasks import FACTS, JUDGED, metrics_of
from ..stats.directions import direction
from .cells import (
    Field,
    Run,
    all_fields,
    benchmark_field,
    category_order,
    dto_field,
    has_dto,
)
from .labels import CATEGORY_LABELS, TASK_GROUPS, TASK_LABELS, benchmark_label, column_order
from .notes import provenance_notes
from .render import Column, Table, TableRow

EACH = {"judged": JUDGED, "options": [name for name, facts in FACTS.items() if facts.compared]}
WIDEST = ("regimes", "main", "*")


def points_of(run: Run, slug: str) -> list[Checkpoint]:
    """Return the checkpoints of the experiment that a table shows."""
    name = experiment_of(run.sheet, TABLES[slug].get("experiments", [slug]))
    return run.sheet.experiment(name, f"the table {slug}")


def refused(slug: str, tasks: Iterable[str]) -> UserError:
    """Return the error of a table whose benchmarks the configuration does not have."""
    words = [TASK_LABELS[task] for task in tasks]
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
    for each, columns in itertools.groupby(entry["columns"], _each):
        if not each:
            for one in columns:
                fields += _named(run, one) if isinstance(one, str) else [_field(sheet, one, task)]
            continue
        given = list(columns)
        for name, benchmark in column_order(sheet).items():
            if benchmark.task in EACH[each]:
                fields += [
                    _field(sheet, {"span": benchmark_label(sheet, name), **one}, task, name)
                    for one in given
                    if one["metric"] != "says_unsafe_paper" or has_paper_form(benchmark)
                ]
        if not fields:
            raise refused(slug, EACH[each])
    for one, digits in entry.get("digits", {}).items():
        fields = [
            replace(field, column=replace(field.column, digits=digits))
            if field.quantity.benchmark == sheet.primary(one)
            else field
            for field in fields
        ]
    return fields


def _each(column: Any) -> str:
    return "" if isinstance(column, str) else column.get("each", "")


def _named(run: Run, name: str) -> list[Field]:
    """Return the columns that one word stands for; none where the run lacks that benchmark."""
    sheet = run.sheet
    if name == "all":
        return all_fields(sheet)
    if name == "unjudged":
        shown = column_order(sheet).items()
        return [benchmark_field(sheet, slug) for slug, one in shown if one.task not in JUDGED]
    if name == "unsafe":
        judged = {slug: one for slug, one in column_order(sheet).items() if one.task in JUDGED}
        if not judged:
            raise refused("safety", JUDGED)
        return [_unsafe(sheet, slug) for slug in judged]
    if name == "dto":
        return [dto_field()] if has_dto(sheet) else []
    named, _, parts = name.partition(" by ")
    task, _, metric = named.partition(" ")
    slug = benchmark_with(sheet, task, metric) if metric else sheet.primary(task)
    if slug is None:
        return []
    field = benchmark_field(sheet, slug, metric)
    if not parts:
        return [field]
    found, span = list[Field](), field.column.head if metric else TASK_LABELS[task]
    metric = field.quantity.metric
    for category in category_order(run.results.categories(slug, metric)):
        head = CATEGORY_LABELS.get(category, category.capitalize())
        column = replace(field.column, key=f"{slug}_{category}", head=head, span=span)
        found.append(Field(column, Quantity(slug, metric, category)))
    return [*found, replace(field, column=replace(field.column, head="Avg.", span=span))]


def benchmark_with(sheet: RunSheet, task: str, metric: str) -> str | None:
    """Return the first benchmark of a task whose options give it a metric, None where none does."""
    found = sheet.benchmarks(task).items()
    return next((n for n, one in found if metric in metrics_of(task, one.model_dump())), None)


def _unsafe(sheet: RunSheet, slug: str) -> Field:
    """Return the rate that the paper prints: what the judge says of the response alone.

    Where it was not shown that, what it says of prompt and response.
    """
    entry = sheet.config.benchmarks[slug]
    metric = "says_unsafe_paper" if has_paper_form(entry) else "unsafe_rate"
    way, head = direction(entry.task, metric), benchmark_label(sheet, slug)
    return Field(Column(slug, head, "fairness", way, digits=3), Quantity(slug, metric))


def _field(sheet: RunSheet, given: dict[str, Any], task: str | None, slug: str = "") -> Field:
    """Return the column of a metric: of a benchmark, or of what is none, such as serving."""
    metric, task, part = given["metric"], given.get("task", task), given.get("of", "value")
    key = metric if part == "value" else part
    key = f"{slug}_{key}" if slug else key
    task = sheet.config.benchmarks[slug].task if slug else str(task)
    own = {k: v for k, v in given.items() if k not in ("each", "metric", "task", "of")}
    usual = {"group": TASK_GROUPS.get(task, "plain"), "direction": direction(task, metric)}
    name = slug or (task if task not in FACTS else str(sheet.primary(task)))
    return Field(Column(key, **{**usual, **own}), Quantity(name, metric), part)


def made(
    run: Run,
    slug: str,
    rows: Sequence[TableRow],
    columns: Iterable[Column] = (),
    notes: Iterable[str] | None = None,
    heads: Iterable[str] = (),
    words: dict[str, str] | None = None,
) -> Table:
    """Return a table with the words and widths of ``tables.yaml``.

    ``words`` are those that its caption leaves open, ``notes`` stand behind its own ones, without
    them only what keeps an invented world apart.
    """
    entry = TABLES[slug]
    caption = entry["caption"]
    return Table(
        slug,
        caption.format_map(words) if words else caption,
        (*heads, *entry.get("heads", ["Model + Method"])),
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


def kept(slug: str, sheet: RunSheet, points: Sequence[Checkpoint]) -> list[Group]:
    """Return the grid points whose base method a table shows: all where it names none."""
    methods = TABLES[slug].get("methods")
    return [
        group
        for group in groups(points)
        if methods is None or sheet.base_method(group.method) in methods
    ]
