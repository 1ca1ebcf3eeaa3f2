"""This run's numbers beside the printed ones: not in the paper."""

import math
import statistics

from ...analysis.printed import printed_values
from ...analysis.results import Quantity, dense_group
from ...base.errors import UserError
from ...plan.run_sheet import RunSheet
from ...plan.tasks import FACTS
from ..beside import agreement, show_difference, show_interval, signs
from ..cells import Run, identity
from ..described import fields_of, made
from ..labels import (
    REGIME_LABELS,
    TASK_LABELS,
    calibration_label,
    method_label,
    model_label,
    protocol_words,
)
from ..notes import provenance_notes
from ..paired import Pair, pairs, require_pairs
from ..render import Cell, Column, Rule, Table, TableRow, numbers_of

NEAR = 1.0  # a distance that counts as the printed number


def numbers(run: Run, slug: str) -> Table:
    """Return ours, its interval, the paper's value and the difference of every shared number.

    Raises UserError where no number has a printed counterpart, as in an invented world.
    """
    found = require_pairs(pairs(run.sheet, run.results), f"the table {slug}")
    rows: list[TableRow] = []
    previous = None
    for pair in found:
        group = pair.group.key
        labels = _labels(run, pair) if group != previous else ("", "")
        rule: Rule = "dashed" if group != previous and rows else ""
        cells = _cells(pair.column, pair.cell)
        rows.append(TableRow((*labels, pair.name), cells, _identity(pair), rule=rule))
        previous = group
    whole = agreement((pair.column, pair.cell) for pair in found)
    said = f"Differences are computed before rounding. {signs(whole)}".strip()
    columns = [field.column for field in fields_of(run, slug)]
    said_all = [said, *provenance_notes(run.sheet)]
    return made(run, slug, rows, columns, said_all, words={"agreement": whole.words()})


def _labels(run: Run, pair: Pair) -> tuple[str, str]:
    sheet, group = run.sheet, pair.group
    if group.is_base:
        return model_label(sheet, group.model), "dense"
    words = [method_label(sheet, group.method), REGIME_LABELS[group.regime]]
    if group.calibration != "none":
        words.append(calibration_label(sheet, group.calibration))
    return model_label(sheet, group.model), ", ".join(words)


def _cells(column: Column, cell: Cell) -> dict[str, Cell]:
    return {
        "ours": Cell(cell.value, column.show(cell.value)),
        "interval": Cell(None, show_interval(column, cell)),
        "printed": Cell(cell.printed, column.show(cell.printed)),
        "difference": Cell(None, show_difference(column, cell)),
    }


def _identity(pair: Pair) -> dict[str, str]:
    """Return a row of the CSV: the numbers in the units of the tables."""
    said = numbers_of(pair.column, pair.cell)
    return {
        "tables": pair.tables,
        **identity(pair.group),
        **pair.quantity._asdict(),
        "ci_low": said["_low"],
        "ci_high": said["_high"],
        "covered": said["_covered"],
    }


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
        change = ours.value - printed[0]
        if entry.task == "perplexity":
            change = math.log(ours.value / printed[0])
        found[model] = 100 * abs(change)
    return found


def protocols(run: Run, slug: str) -> Table:
    """Return a row a benchmark, those of a task from the nearest to the printed numbers on.

    A benchmark of more models comes first: distances over other models do not compare. Raises
    UserError where no dense model of the run is in the paper.
    """
    sheet = run.sheet
    models = list(dict.fromkeys(point.model for point in sheet.files if point.is_base))
    rows, columns = list[TableRow](), [field.column for field in fields_of(run, slug)]
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
                for column in columns
            }
            rule: Rule = "full" if rows and place == 0 else ""
            labels = (TASK_LABELS[task] if place == 0 else "", name, _words(sheet, name))
            named = {"task": task, "benchmark": name, "rank": str(place + 1)}
            rows.append(TableRow(labels, cells, named, rule=rule))
    if not rows:
        raise UserError(
            f"the table {slug} compares dense models with the numbers that the paper prints, but "
            "no dense model of this run is in the paper; use models of config/paper.yaml"
        )
    return made(run, slug, rows, columns)


def _words(sheet: RunSheet, name: str) -> str:
    entry = sheet.config.benchmarks[name]
    words = protocol_words(entry)
    if sheet.headline(name) != FACTS[entry.task].headline:
        words.append(sheet.headline(name))
    words += [f"{entry.limit} items"] if entry.limit else []
    return ", ".join(words) or "as the task is by default"
