"""Which protocol gives the numbers that the paper prints for the dense models: not in the paper."""

import math
import statistics
from typing import Any

from ...base.errors import UserError
from ...plan.run_sheet import RunSheet
from ...plan.tasks import FACTS
from ..fields import Run
from ..labels import TASK_LABELS, protocol_words
from ..notes import provenance_notes
from ..printed import printed_values
from ..render import Cell, Column, Rule, Table, TableRow
from ..results import Quantity, dense_group

COLUMNS = (
    Column("mean_distance", "mean", direction="down", digits=2, span="Distance to print"),
    Column("largest_distance", "largest", direction="down", digits=2, span="Distance to print"),
    Column("within", "within 1", digits=0, span="Models"),
    Column("models", "of", digits=0, span="Models"),
)
NEAR = 1.0  # a distance that counts as the printed number


def distances(run: Run, slug: str, models: list[str]) -> dict[str, float]:
    """Return how far a benchmark's headline is from the printed one, by dense model.

    In points of 100; of a perplexity 100 times the absolute natural logarithm of the ratio, that
    is about per cent. Models of which nothing is printed or measured are left out.
    """
    entry = run.sheet.config.benchmarks[slug]
    found = {}
    for model in models:
        printed = printed_values().get((model, "dense", "dense", "none", entry.task))
        group = dense_group(run.sheet, model)
        if printed is None or group is None:
            continue
        ours = run.results.of(group, Quantity(slug, run.sheet.headline(slug)))
        if ours is None:
            continue
        if entry.task == "perplexity":
            found[model] = 100 * abs(math.log(ours.value / printed[0]))
        else:
            found[model] = 100 * abs(ours.value - printed[0])
    return found


def build(run: Run, slug: str) -> Table:
    """Return a row a benchmark, those of a task from the nearest to the printed numbers on.

    A benchmark of more models comes first: distances over other models do not compare. Raises
    UserError where no dense model of the run is in the paper.
    """
    sheet = run.sheet
    models = list(dict.fromkeys(point.model for point in sheet.files if point.is_base))
    rows: list[TableRow] = []
    for task in FACTS:
        found = {name: distances(run, name, models) for name in sheet.benchmarks(task)}
        ranked = sorted(
            (name for name in found if found[name]),
            key=lambda name: (-len(found[name]), statistics.fmean(found[name].values()), name),
        )
        for place, name in enumerate(ranked):
            values = found[name]
            shown: dict[str, float] = {
                "mean_distance": statistics.fmean(values.values()),
                "largest_distance": max(values.values()),
                "within": sum(value <= NEAR for value in values.values()),
                "models": len(values),
            }
            cells = {
                column.key: Cell(shown[column.key], column.show(shown[column.key]), bold=place == 0)
                for column in COLUMNS
            }
            rule: Rule = "full" if rows and place == 0 else ""
            labels = (TASK_LABELS[task] if place == 0 else "", name, _words(sheet, name))
            rows.append(TableRow(labels, cells, _identity(sheet, name, place), rule=rule))
    if not rows:
        raise UserError(
            f"the table {slug} compares dense models with the numbers that the paper prints, but "
            "no dense model of this run is in the paper; use models of config/paper.yaml"
        )
    return Table(
        slug,
        "How far each protocol is from the numbers printed for the dense models: points of 100, of "
        "a perplexity 100 times the logarithm of the ratio. The nearest first.",
        ("Task", "Benchmark", "Protocol"),
        COLUMNS,
        tuple(rows),
        (
            "A protocol is near by chance where many are tried: take one that also fits the "
            "other models and the pruned rows. A benchmark of fewer models comes last.",
            *provenance_notes(sheet),
        ),
    )


def _words(sheet: RunSheet, name: str) -> str:
    entry = sheet.config.benchmarks[name]
    words = protocol_words(entry)
    if sheet.headline(name) != FACTS[entry.task].headline:
        words.append(sheet.headline(name))
    if entry.limit:
        words.append(f"{entry.limit} items")
    return ", ".join(words) or "as the task is by default"


def _identity(sheet: RunSheet, name: str, place: int) -> dict[str, Any]:
    entry = sheet.config.benchmarks[name]
    return {"task": entry.task, "benchmark": name, "rank": str(place + 1)}
