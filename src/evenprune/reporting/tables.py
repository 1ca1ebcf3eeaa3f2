"""A table as data: columns, rows of cells, notes. The forms that it is written in decide nothing.

What is bold, what carries a dagger, how many digits: all is settled here. Columns are those that
``tables.yaml`` describes, with the number of results.csv that each shows.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..analysis import labels
from ..analysis.item_sums import DTO, dto_parts
from ..analysis.labels import number_text
from ..analysis.results import Group, Quantity, Run
from ..config.run_sheet import RunSheet, has_paper_form
from ..config.table_registry import TABLES
from ..config.tasks import FACTS, JUDGED, Direction, metrics_of
from ..io.errors import UserError
from ..stats.directions import direction

ColumnGroup = Literal["perplexity", "performance", "fairness", "dto", "plain"]
Rule = Literal["", "dashed", "full"]
Ends = tuple[float, float]
NONE = Quantity("", "")  # a column of what is no number of results.csv
NOISE = 1e-9
UNSAFE = ("unsafe_rate", "says_unsafe_paper")  # without and with the paper's form of judging
EACH = {"judged": JUDGED, "options": [name for name, facts in FACTS.items() if facts.compared]}
Z95 = 1.959964  # half width of a 95 % normal interval in standard errors


@dataclass(frozen=True)
class Column:
    """One value column.

    ``key`` names it in the CSV, ``span`` is a head shared with the neighbours of the same
    span. Values are multiplied by ``scale`` and shown with ``digits`` decimals. ``direction``
    says which values are good: up, down, half (near one half), zero or "" (not ranked). A column
    of ``text`` shows words, in the CSV too, one with ``ends`` the intervals of rates. ``quantity``
    is the number of results.csv that is shown, if any: its ``value``, ``stderr`` or ``n``.
    """

    key: str
    head: str
    group: ColumnGroup = "plain"
    direction: Direction = ""
    scale: float = 1.0
    digits: int = 2
    span: str = ""
    text: bool = False
    ends: bool = False
    quantity: Quantity = NONE
    of: Literal["value", "stderr", "n"] = "value"

    def show(self, value: float | None, signed: bool = False) -> str:
        """Return a value as shown in this column, a difference ``signed``; an en dash for none."""
        return "–" if value is None else number_text(value * self.scale, self.digits, signed)

    def with_ends(self, value: float, ends: Ends | None) -> str:
        """Return a value with the interval behind it, where there is one."""
        return self.show(value) + (f" [{', '.join(map(self.show, ends))}]" if ends else "")

    def plain(self, value: float | None) -> str:
        """Return a value as in the CSV: the same digits, an ASCII sign, empty for none."""
        return "" if value is None else f"{value * self.scale:.{self.digits}f}"


@dataclass(frozen=True)
class Cell:
    """One value: raw, as shown, the paper's (same scale as ``value``), and its marks.

    ``error`` is the standard error of ``value``, None where it is not known; ``ends`` those of its
    95 % interval where that is not the normal one. ``source`` is what results.csv calls it, as in
    a cell's path: BENCHMARK/METRIC[/CATEGORY]; "" where it is no number of one checkpoint.
    ``change`` is the difference to the dense model as the page shows it, "*" where it is
    significant; "" without a test.
    """

    value: float | None
    display: str
    printed: float | None = None
    sd: float | None = None
    error: float | None = None
    ends: Ends | None = None
    bold: bool = False
    dagger: bool = False
    in_calibration: bool = False
    source: str = ""
    change: str = ""

    @property
    def marks(self) -> str:
        """The signs behind the value."""
        return "†" * self.dagger + "‡" * self.in_calibration

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, None where one is missing."""
        return minus(self.value, self.printed)

    def interval(self, column: Column) -> Ends | None:
        """Return the 95 % interval of our value: its own, or the normal one of its standard error.

        Within the bounds of its column; None without either.
        """
        if self.ends is not None or self.value is None or self.error is None:
            return self.ends
        low, high = self.value - Z95 * self.error, self.value + Z95 * self.error
        if column.scale != 100:  # neither a share nor a bias score in percent
            return low, high
        return max(low, -1.0 if column.direction == "zero" else 0.0), min(high, 1.0)

    def covers(self, column: Column) -> bool | None:
        """Return whether our interval covers the printed value, None where either is missing.

        The printed value stands for all that are rounded to it.
        """
        ends = self.interval(column)
        if ends is None or self.printed is None:
            return None
        half = 0.5 * 10.0**-column.digits / column.scale
        return ends[0] <= self.printed + half and self.printed - half <= ends[1]

    def numbers(self, column: Column) -> dict[str, str]:
        """Return what the CSV says of it, by the end of the column's name."""
        low, high = self.interval(column) or (None, None)
        inside = self.covers(column)
        return {
            "": self.display if column.text else column.plain(self.value),
            "_printed": column.plain(self.printed),
            "_diff": column.plain(self.difference),
            "_low": column.plain(low),
            "_high": column.plain(high),
            "_covered": "" if inside is None else str(int(inside)),
            "_sd": column.plain(self.sd),
            "_dagger": "1" * self.dagger,
            "_in_calibration": "1" * self.in_calibration,
        }


EMPTY = Cell(None, "")


@dataclass(frozen=True)
class Row:
    """One line: the label cells, the value cells by column key, the identity for the CSV.

    ``kind``: data, diff (a difference of two data rows), heading (a line of its own across
    the table). ``rule`` is drawn above: none, dashed or full. ``strong`` is the place of the
    label in bold, None for none.
    """

    labels: tuple[str, ...]
    cells: Mapping[str, Cell] = field(default_factory=dict)
    identity: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["data", "diff", "heading"] = "data"
    rule: Rule = ""
    strong: int | None = None

    def cell(self, column: Column) -> Cell:
        """Return the cell of a column, an empty one where the row has none."""
        return self.cells.get(column.key, EMPTY)


@dataclass(frozen=True)
class Table:
    """A table: ``heads`` are the label columns, ``notes`` are sentences printed beneath it.

    ``widths`` gives label columns of running text their shares of the line in LaTeX; without
    it labels stay on one line.
    """

    slug: str
    caption: str
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    widths: tuple[float, ...] = ()


def minus(one: float | None, other: float | None) -> float | None:
    """Return a difference, None where a number is missing."""
    return None if one is None or other is None else one - other


def units(columns: Sequence[Column]) -> list[list[Column]]:
    """Return columns in groups that share a head."""
    spans = itertools.groupby(columns, lambda one: (one.span, "" if one.span else one.key))
    return [list(shared) for _, shared in spans]


# Columns


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
