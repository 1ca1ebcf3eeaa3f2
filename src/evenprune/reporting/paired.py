"""The numbers of a run that the paper prints too."""

from dataclasses import dataclass

from ..analysis import mask_diffs
from ..analysis.printed import printed_value
from ..analysis.results import Group, Quantity, Results, groups
from ..base.errors import UserError
from ..plan.run_sheet import RunSheet
from ..plan.tasks import FACTS
from ..stats.directions import direction
from .cells import DTO, benchmark_field, dto_field, rate_ends
from .labels import CATEGORY_LABELS, benchmark_label
from .render import Cell, Column

# Words for the numbers that are no benchmark's headline.
NAMES = {
    "confidence_correct": "confidence (correct)",
    "confidence_wrong": "confidence (wrong)",
    "entropy_correct": "entropy (correct)",
    "entropy_wrong": "entropy (wrong)",
    "says_unsafe_paper": "unsafe",
    "decode_tok_per_s": "Throughput (tok/s)",
    "kg_co2e_per_mtok": "CO₂ (kg/Mtok)",
    mask_diffs.DISAGREEMENT: "weight disagreement",
    mask_diffs.PATTERN: "pattern disagreement",
    mask_diffs.JACCARD: "Jaccard",
    mask_diffs.FROBENIUS: "relative Frobenius",
}


@dataclass(frozen=True)
class Pair:
    """One number of a grid point with its printed counterpart, and the labels that print it."""

    group: Group
    quantity: Quantity
    name: str
    column: Column
    cell: Cell
    tables: str


def number_column(run_sheet: RunSheet, quantity: Quantity) -> Column:
    """Return how a number is shown: as in the paper's tables."""
    if quantity == DTO:
        return dto_field().column
    if quantity.benchmark == mask_diffs.SLUG:
        return Column(quantity.metric, quantity.metric, digits=4)
    if quantity.benchmark == "serving":
        digits = 4 if quantity.metric == "kg_co2e_per_mtok" else 2
        way = direction("serving", quantity.metric)
        return Column(quantity.metric, quantity.metric, "performance", way, digits=digits)
    headline = benchmark_field(run_sheet, quantity.benchmark)
    if quantity.metric == headline.quantity.metric:
        return headline.column
    return Column(quantity.metric, quantity.metric, headline.column.group, digits=3)


def name_of(run_sheet: RunSheet, quantity: Quantity) -> str:
    """Return a number's name: the benchmark, its category, and the metric that is no headline."""
    if quantity == DTO:
        return dto_field().column.head
    words = [NAMES.get(quantity.metric, quantity.metric)]
    benchmark = run_sheet.config.benchmarks.get(quantity.benchmark)
    if benchmark:
        headline = quantity.metric == FACTS[benchmark.task].headline
        words = [benchmark_label(run_sheet, quantity.benchmark), *([] if headline else words)]
    if quantity.category:
        words.append(CATEGORY_LABELS.get(quantity.category, quantity.category))
    return " ".join(words)


def pairs(run_sheet: RunSheet, results: Results) -> list[Pair]:
    """Return every number with a printed counterpart: checkpoints in the order of the experiments.

    A number that several tables print stands once.
    """
    points = [point for grid in run_sheet.experiments.values() for point in grid]
    found = []
    for group in groups(list(dict.fromkeys(points))):
        first = group.checkpoints()[0]
        for quantity in results.quantities(first):
            printed = printed_value(run_sheet, first, *quantity)
            measured = results.of(group, quantity)
            if printed is None or measured is None:
                continue
            column = number_column(run_sheet, quantity)
            cell = Cell(
                measured.value, column.show(measured.value), printed[0], measured.sd,
                measured.error, rate_ends(run_sheet, results, group, quantity),
            )  # fmt: skip
            name = name_of(run_sheet, quantity)
            found.append(Pair(group, quantity, name, column, cell, printed[1]))
    return found


def require_pairs(found: list[Pair], asked_by: str) -> list[Pair]:
    """Return pairs; UserError where there are none, as in an invented world."""
    if not found:
        raise UserError(
            f"{asked_by} shows numbers that the paper prints too, and this run has none: expected "
            "the paper's models, methods and calibrations by their catalogue names, measured as "
            "in plan/declared.py; leave it out of other runs"
        )
    return found
