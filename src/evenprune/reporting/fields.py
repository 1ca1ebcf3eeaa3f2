"""Columns of tables and figures: which quantity each shows, and how."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..base.errors import UserError
from ..plan.run_sheet import RunSheet
from ..plan.tasks import FACTS, JUDGED
from ..stats.directions import direction
from .labels import (
    CATEGORY_LABELS,
    DTO_LABEL,
    TASK_DIGITS,
    TASK_GROUPS,
    benchmark_label,
    column_order,
)
from .render import Column
from .results import Group, Quantity, Results, Significance

DTO = Quantity("dto", "dto")
NOISE = 1e-9


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
        if self.sheet.base_method(group.method) != "debias-sparsegpt":
            return None
        return self.significance.of(group, quantity.benchmark, quantity.metric)


def benchmark_field(run_sheet: RunSheet, slug: str) -> Field:
    """Return the column of a benchmark's headline metric."""
    task, metric = run_sheet.config.benchmarks[slug].task, run_sheet.headline(slug)
    label = benchmark_label(run_sheet, slug)
    if metric != FACTS[task].headline:
        label += f" {metric}"
    scale = 1.0 if task in TASK_DIGITS or metric == "likelihood_diff" else 100.0
    digits = TASK_DIGITS.get(task, 2)
    column = Column(slug, label, TASK_GROUPS[task], direction(task, metric), scale, digits)
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
