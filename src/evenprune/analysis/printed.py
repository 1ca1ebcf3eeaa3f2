"""The numbers printed in the paper, to stand beside ours.

``printed.csv`` holds one printed number a row with its source: ``table`` is the LaTeX
label in the paper, ``row`` the row as printed, ``value`` the digits as printed (percent
for accuracies and CrowS-Pairs), ``metric`` our name for the column: the task, ``task/category``
or ``task:metric``; of a matrix's masks ``masks:metric/layer.module``. ``calibration`` of a
difference row is ``diff``. A row without a model is a benchmark's size, ``task:size``.
"""

import functools
from decimal import Decimal
from pathlib import Path

import pandas as pd

from ..config.declared import as_declared
from ..config.grids import Checkpoint
from ..config.run_sheet import RunSheet
from ..config.tasks import FACTS
from ..io.reading import iter_csv

# Part of this module's code, see codedigest.py.
DATA_FILES = ("printed.csv",)
DIFFERENCE = "diff"  # in the place of a calibration: a row of differences
KEY = ("model", "method", "regime", "calibration", "metric")
PERCENT_TASKS = ("hellaswag", "mmlu", "unqover", "bbq", "crows_pairs")


@functools.cache
def printed_rows() -> tuple[dict[str, str], ...]:
    """Return every row of ``printed.csv``."""
    return tuple(row for _, row in iter_csv(Path(__file__).with_name(DATA_FILES[0])))


@functools.cache
def printed_values() -> dict[tuple[str, ...], tuple[float, str]]:
    """Return {(model, method, regime, calibration, metric): (value, tables)}.

    Percentages become fractions. A number that is printed in several tables is in all of
    them the same (a test checks it); where the digits differ the longer ones count.
    """
    rows = pd.DataFrame([row for row in printed_rows() if row["model"]])  # else a benchmark's size
    found = rows.groupby(list(KEY), sort=False).agg(
        value=("value", lambda values: max(values, key=len)),
        tables=("table", lambda names: " ".join(dict.fromkeys(names))),
    )
    return {key: (scaled(value, key[-1]), tables) for key, value, tables in found.itertuples()}


def scaled(value: str, metric: str) -> float:
    """Return a printed value on the scale of results.csv: fractions for percentages."""
    percent = ":" not in metric and metric.split("/")[0] in PERCENT_TASKS
    return float(Decimal(value) / 100) if percent else float(value)


def printed_value(
    run_sheet: RunSheet, point: Checkpoint, benchmark: str, metric: str, category: str = ""
) -> tuple[float, str] | None:
    """Return (value, tables) of the printed counterpart of one of our numbers, None without one.

    Only the task's own headline, measured as the paper is declared to be (``config/declared.py``),
    has a counterpart, UnQover's confidence and entropy, DTO of two such benchmarks, decode
    throughput and CO2, the differences of masks, and of the safety benchmarks what a guard model
    says of the response alone. Nothing of an invented world has.
    """
    config, declared = run_sheet.config, functools.partial(as_declared, run_sheet.config)
    if config.source == "world":
        return None
    name = f"{benchmark}:{metric}"
    if benchmark == "dto":
        slugs = {task: declared(task, point.model) for task in ("mmlu", "unqover")}
        known = all(slug and slug == run_sheet.primary(task) for task, slug in slugs.items())
        if metric != "dto" or not known:
            return None
        name = "dto"
    elif benchmark not in ("serving", "masks"):
        entry = config.benchmarks.get(benchmark)
        if entry is None or benchmark != declared(entry.task, point.model):
            return None
        name = entry.task if metric == FACTS[entry.task].headline else f"{entry.task}:{metric}"
    name = "/".join(filter(None, [name, category]))
    return printed_values().get((point.model, point.method, point.regime, point.calibration, name))
