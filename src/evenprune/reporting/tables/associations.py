"""The groups that carry most of StereoSet's association."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...analysis.results import Group, dense_group, groups
from ...base.errors import UserError
from ...base.reading import expected_form
from ...plan.finished import ITEMS
from ...plan.table_registry import TABLES
from ...stats.inference import t_quantile
from ...stats.records import read_records
from ..cells import Run, benchmark_field, identity
from ..described import benchmark_with, made, points_of, refused
from ..labels import model_label
from ..render import Cell, Column, Table, TableRow
from .answer import name_of

MOST = 20  # groups
FEWEST = 5  # items, for an interval that says something


def build(run: Run, slug: str) -> Table:
    """Return the groups with the largest association in the dense model, and what became of it.

    A row a group of at least ``FEWEST`` items: its bias type, the number of its items and its mean
    association in each checkpoint, with the 95 % interval of t over its items. Of several seeds an
    item has their mean.
    """
    sheet, task, metric = run.sheet, TABLES[slug]["task"], TABLES[slug]["metric"]
    benchmark = benchmark_with(sheet, task, metric)
    if benchmark is None:
        raise refused(slug, [task])
    shown = groups(points_of(run, slug))
    base = next((one for one in (dense_group(sheet, group.model) for group in shown) if one), None)
    if base is None:
        raise UserError(f"the table {slug} is of a dense model's associations; add method dense")
    mine = [base, *(one for one in shown if one.model == base.model and not one.is_base)]
    model = model_label(sheet, base.model)
    found = {one: _values(run, one, benchmark, metric) for one in mine}
    usual = benchmark_field(sheet, benchmark, metric).column
    heads = [name_of(sheet, one.checkpoints()[0]).removeprefix(f"{model}, ") for one in mine]
    columns = [replace(usual, key=f"value{k}", head=head) for k, head in enumerate(heads)]
    known = {name: values for name, values in found[base].items() if len(values) >= FEWEST}
    order = sorted(known, key=lambda name: (-abs(math.fsum(known[name]) / len(known[name])), name))
    rows = []
    for category, target in order[:MOST]:
        cells = {
            column.key: _cell(column, found[one].get((category, target), []))
            for column, one in zip(columns, mine, strict=True)
        }
        count = str(len(known[category, target]))
        named = {**identity(base), "group": target, "category": category}
        rows.append(TableRow((target, category, count), cells, named))
    return made(run, slug, rows, columns, words={"model": model})


def _values(
    run: Run, group: Group, benchmark: str, metric: str
) -> Mapping[tuple[str, str], Sequence[float]]:
    """Return the items' values of a metric, means over the seeds, by bias type and group."""
    seeds: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for point in group.checkpoints():
        path = run.sheet.result_folder(point, benchmark) / ITEMS
        with expected_form("records of StereoSet", path, "evaluate again"):
            for row in read_records(path, ("item_id", "category", "cluster", metric)):
                if row[metric] is not None:
                    key = (str(row["category"]), str(row["cluster"]), str(row["item_id"]))
                    seeds[key].append(float(row[metric]))
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (category, target, _), one in seeds.items():
        values[category, target].append(math.fsum(one) / len(one))
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
