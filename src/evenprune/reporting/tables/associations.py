"""StereoSet's association by bias type, and the groups that carry most of it."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...base.errors import UserError
from ...base.reading import expected_form
from ...plan.grids import Checkpoint
from ...stats.inference import t_quantile
from ...stats.records import Record, read_records
from ..cells import Run, benchmark_field, identity
from ..described import WIDEST, made, points_of
from ..labels import method_label, model_label
from ..render import Cell, Column, Table, TableRow
from ..results import Group, dense_group, experiment_of, groups
from . import rows

METRIC = "association"
MOST = 20  # groups
FEWEST = 5  # items, for an interval that says something
ITEMS = "items.jsonl"


def by_type(run: Run, slug: str) -> Table:
    """Return a row a checkpoint, a column a bias type, and all types together."""
    _benchmark(run, slug)
    return rows.build(run, slug)


def largest(run: Run, slug: str) -> Table:
    """Return the groups with the largest association in the dense model, and what became of it.

    A row a group of at least ``FEWEST`` items: its bias type, the number of its items and its mean
    association in each checkpoint, with the 95 % interval of t over its items. Of seeds, the first.
    """
    sheet, benchmark = run.sheet, _benchmark(run, slug)
    sheet.experiment(experiment_of(sheet, WIDEST), f"the table {slug}")
    shown = groups(points_of(run, slug))
    base = next((one for one in (dense_group(sheet, group.model) for group in shown) if one), None)
    if base is None:
        raise UserError(f"the table {slug} is of a dense model's associations; add method dense")
    mine = [base, *(one for one in shown if one.model == base.model and not one.is_base)]
    found = {one: _by_group(run, one.checkpoints()[0], benchmark) for one in mine}
    usual = benchmark_field(sheet, benchmark, METRIC).column
    columns = [
        replace(usual, key=f"value{k}", head=_head(run, one, mine)) for k, one in enumerate(mine)
    ]
    known = {name: values for name, values in found[base].items() if len(values) >= FEWEST}
    order = sorted(known, key=lambda name: (-abs(math.fsum(known[name]) / len(known[name])), name))
    made_rows = []
    for category, target in order[:MOST]:
        cells = {
            column.key: _cell(column, found[one].get((category, target), []))
            for column, one in zip(columns, mine, strict=True)
        }
        count = str(len(known[category, target]))
        named = {**identity(base), "group": target, "category": category}
        made_rows.append(TableRow((target, category, count), cells, named))
    return made(run, slug, made_rows, columns, words={"model": model_label(sheet, base.model)})


def _benchmark(run: Run, slug: str) -> str:
    """Return the StereoSet benchmark that is scored about other groups; UserError without."""
    for name, entry in run.sheet.benchmarks("stereoset").items():
        if entry.counterfactuals:
            return name
    raise UserError(
        f"the table {slug} needs a benchmark of the task stereoset with counterfactuals, found "
        "none; add counterfactuals: 2 to it, or leave the table out"
    )


def _by_group(
    run: Run, point: Checkpoint, benchmark: str
) -> Mapping[tuple[str, str], Sequence[float]]:
    """Return the associations of a checkpoint's items, by bias type and group."""
    path = run.sheet.result_folder(point, benchmark) / ITEMS
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    with expected_form("records of StereoSet", path, "evaluate again"):
        items: Sequence[Record] = read_records(path, ("category", "cluster", METRIC))
        for row in items:
            if row[METRIC] is not None:
                values[str(row["category"]), str(row["cluster"])].append(float(row[METRIC]))
    return values


def _cell(column: Column, values: Sequence[float]) -> Cell:
    """Return the mean of a group's associations with its interval."""
    if not values:
        return Cell(None, "–")
    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return Cell(mean, column.show(mean))
    error = float(np.std(values, ddof=1)) / math.sqrt(n)
    width = t_quantile(0.975, n - 1) * error
    ends = (mean - width, mean + width)
    low, high = (column.show(one) for one in ends)
    return Cell(mean, f"{column.show(mean)} [{low}, {high}]", error=error, ends=ends)


def _head(run: Run, group: Group, mine: Sequence[Group]) -> str:
    """Return how a checkpoint is called at the head of its column."""
    if group.is_base:
        return "dense"
    words = [method_label(run.sheet, group.method)]
    if len({one.regime for one in mine if not one.is_base}) > 1:
        words.append(rows.REGIME_LABELS[group.regime])
    return ", ".join(words)
