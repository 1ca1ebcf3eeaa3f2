"""Say where one number of a table comes from, and check it on the way.

The cell is MODEL/METHOD/REGIME/CALIBRATION/BENCHMARK[/METRIC[/CATEGORY]], in the names of the
configuration. Its value is read again from results.csv and from the file of every seed, whose
checksums are compared, and computed again from the records of the items where the metric is a
function of them; then it is found in the table. A number that is not the same everywhere is an
error.
"""

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..base.errors import UserError, shown
from ..base.reading import iter_csv, read_json
from ..plan.config import TABLES
from ..plan.grids import Checkpoint
from ..plan.run_sheet import RunSheet, read_run_sheet
from ..stats import inference
from ..stats.measures import ITEM_SCORES, MEASURES, is_rate
from . import dto, mask_diffs
from .cell_path import FORM, find, parse
from .explain_origin import commands, files_of, method_of, rebased, recompute, sources_of
from .fields import Run
from .make_table import build_table
from .measurements import PAIRED, RATIO, ratio_to_dense, ratio_values, read_part
from .results import Group, Measured, Quantity, Results, Significance
from .significance import METHOD

EXACT, RECOMPUTED = 1e-9, 1e-6  # relative; records are rounded
NORMAL = 1.959964


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``explain``."""
    add = parser.add_argument
    add("table", metavar="TABLE", help="name of a table, such as main")
    add("--cell", required=True, metavar="PATH", help=FORM)
    add("--results", type=Path, default=Path("results"), help="folder of a run (default: results)")
    add("--json", action="store_true", help="print JSON instead of text")


def explain(folder: Path, table: str, cell: str) -> dict[str, Any]:
    """Return all that is known of one cell of a table of the run in ``folder``.

    Raises UserError for a cell that is not there, with the nearest names, and for a number that
    is not the same in all files that have it.
    """
    if table not in TABLES:
        raise UserError(f"expected one of the tables {', '.join(TABLES)}, got {shown(table)}")
    sheet = rebased(read_run_sheet(folder / "run_sheet.json"), folder)
    files = (folder / "results.csv", folder / "significance.csv")
    run = Run(sheet, Results(files[0]), Significance(files[1]))
    group, quantity = parse(run, cell)
    measured = run.results.of(group, quantity)
    if measured is None:  # parse has found it
        raise AssertionError(cell)
    paired = _paired(sheet, group, quantity)
    if paired is not None:  # with several seeds the geometric mean, as tables have it
        measured = replace(measured, value=paired.value, n=paired.n)
    column, seen = find(build_table(table, sheet, *files), group, quantity, measured.value)
    _check_printed_table(folder, table, group, column.key, column.plain(seen.value))
    point = group.checkpoints()[0]
    return {
        "table": table,
        "column": column.key,
        "shown": seen.display,
        "cell": "/".join(part for part in (*group_key(group), *quantity) if part),
        "value": measured.value,
        "n": measured.n,
        "interval": interval(run, group, quantity, measured),
        "printed": measured.printed,
        "in_calibration": measured.in_calibration,
        "seeds": [_seed(run, one, quantity) for one in group.checkpoints()],
        "method": method_of(sheet, point),
        "sources": sources_of(sheet, folder, point, quantity),
        "tests": _tests(files[1], group, quantity),
        "commands": commands(sheet, folder, group, quantity.benchmark, table),
    }


def group_key(group: Group) -> tuple[str, str, str, str]:
    """Return model, method, regime and calibration."""
    return group.model, group.method, group.regime, group.calibration


def _check_printed_table(folder: Path, table: str, group: Group, key: str, text: str) -> None:
    """Raise UserError where the table's CSV has not the text that the values give."""
    path = folder / "tables" / f"{table}.csv"
    names = ("model", "method", "regime", "calibration")
    rows = [
        row
        for _, row in iter_csv(path, (*names, key), what="a table", remedy="make the table again")
        if tuple(row[name] for name in names) == group_key(group)
    ]
    if text not in [row[key] for row in rows]:
        raise UserError(
            f"expected {text} as {key} of {'/'.join(group_key(group))} in {path}, found "
            f"{', '.join(row[key] for row in rows) or 'no such row'}; make the table again"
        )


def interval(
    run: Run, group: Group, quantity: Quantity, measured: Measured
) -> dict[str, Any] | None:
    """Return the 95 % interval of a value, None where its spread is not known.

    ``kind``: wilson (a share of items, of one seed), t over clusters (a distance to the optimum), t
    over rounds (a ratio of throughput or energy), or normal: the standard error over items, with
    several seeds together with that over seeds, within the bounds of the metric.
    """
    entry = run.sheet.config.benchmarks.get(quantity.benchmark)
    key = (entry.task if entry else quantity.benchmark, quantity.metric)
    paired = _paired(run.sheet, group, quantity)
    if measured.n and entry and (key in ITEM_SCORES or is_rate(*key)):
        found = inference.wilson(round(measured.value * measured.n), measured.n)
        kind, low, high = "wilson", found.low, found.high
    elif paired is not None:
        if paired.low is None or paired.high is None:
            return None
        kind, low, high = "t over rounds", paired.low, paired.high
    elif measured.error is None:
        return None
    else:
        bounds = MEASURES[key].bounds if key in MEASURES else (-math.inf, math.inf)
        half = NORMAL * measured.error
        kind, low, high = "normal", measured.value - half, measured.value + half
        ends = [
            run.results.of(group, quantity._replace(metric=f"{quantity.metric}_{end}"))
            for end in ("low", "high")
        ]
        if measured.sd is None and ends[0] and ends[1]:
            kind, low, high = "t over clusters", ends[0].value, ends[1].value
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return {"low": low, "high": high, "level": 0.95, "kind": kind}


def _paired(run_sheet: RunSheet, group: Group, quantity: Quantity) -> inference.PairedRatio | None:
    """Return the paired ratio to the dense model that a quantity is, None for any other one."""
    metric = quantity.metric.removesuffix(RATIO)
    if quantity.benchmark != "serving" or metric not in PAIRED or metric == quantity.metric:
        return None
    return ratio_to_dense(run_sheet, group, metric, quantity.category)


def _seed(run: Run, point: Checkpoint, quantity: Quantity) -> dict[str, Any]:
    """Return the files and numbers of one seed, checked against each other."""
    value = run.results.one(point, quantity)
    if value is None:  # Results.of has found all seeds
        raise AssertionError(point)
    found: dict[str, Any] = {"seed": point.seed, "value": value.value, "n": value.n}
    found |= {"stderr": value.stderr, **files_of(run.sheet, point, quantity)}
    if "metrics" in found:
        stored = _stored(read_json(found["metrics"]), quantity)
        _compare(stored, value.value, EXACT, quantity, found["metrics"])
    elif "measurement" in found:
        stored = _stored(read_part(found["measurement"], point), quantity)
        _compare(stored, value.value, EXACT, quantity, found["measurement"])
    again = _again(run, point, quantity, found)
    if again is not None:
        _compare(again, value.value, RECOMPUTED, quantity, found.get("items", "the items"))
    return found | {"recomputed": again}


def _again(run: Run, point: Checkpoint, quantity: Quantity, files: dict[str, Any]) -> float | None:
    """Return a number computed again from records, None where it is no function of them alone."""
    slug, metric, category = quantity
    if slug in run.sheet.config.benchmarks:
        task = run.sheet.config.benchmarks[slug].task
        return recompute(Path(files["items"]), task, metric, category)
    if slug == dto.SLUG:
        for one in dto.definitions(run.sheet):
            if one.name == metric:
                return dto.distance_sums(run.sheet, point, one).value
    if slug == "serving":
        for name, place, ratio in ratio_values(run.sheet, point):
            if (name, place) == (metric, category):
                return ratio["value"]
    if slug == mask_diffs.SLUG:
        for name, place, measured in mask_diffs.mask_values(Path(files["masks"])):
            if (name, place) == (metric, category):
                return float(measured["value"])
    return None


def _stored(content: dict[str, Any], quantity: Quantity) -> float | None:
    part = content["metrics"]
    if quantity.category:
        part = content["categories"].get(quantity.category, {})
    return part[quantity.metric]["value"] if quantity.metric in part else None


def _compare(
    found: float | None, value: float, tolerance: float, quantity: Quantity, path: str
) -> None:
    """Raise UserError where a number that a file gives is not that of results.csv."""
    if found is not None and not math.isclose(found, value, rel_tol=tolerance, abs_tol=tolerance):
        raise UserError(
            f"expected {quantity.metric} {value:.10g} of results.csv in {path}, which gives "
            f"{found:.10g}; run collect-results again, or evaluate that checkpoint again"
        )


def _tests(path: Path, group: Group, quantity: Quantity) -> list[dict[str, str]]:
    """Return the rows of significance.csv on a value, without their empty columns.

    What a debiasing method is compared with comes first, then the dense model.
    """
    if quantity.category:
        return []
    wanted = (*group_key(group), quantity.benchmark, quantity.metric)
    names = ("model", "method", "regime", "calibration", "benchmark", "metric")
    found = [
        {name: text for name, text in row.items() if text and name not in names}
        for _, row in iter_csv(path, (*names, "against"))
        if tuple(row[name] for name in names) == wanted
    ]
    return sorted(found, key=lambda row: row.get("against") != METHOD)


def as_text(found: dict[str, Any]) -> str:
    """Return what ``explain`` found, as lines for people."""
    lines = [f"{found['cell']} in table {found['table']}: {found['shown']}"]
    lines.append(f"value: {found['value']:.10g}" + (f", n = {found['n']:,}" if found["n"] else ""))
    ends = found["interval"]
    if ends:
        lines.append(f"95 % interval ({ends['kind']}): {ends['low']:.6g} to {ends['high']:.6g}")
    if found["printed"] is not None:
        lines.append(f"printed in the paper: {found['printed']:g}")
    if found["in_calibration"]:
        lines.append("no clean test: its calibration pairs are of the same data")
    for one in found["seeds"]:
        checked = one["recomputed"]
        lines.append(
            f"seed {one['seed']}: {one['value']:.10g}"
            + ("" if checked is None else ", the same again from the records of its items")
        )
        lines += [
            f"  {name.replace('_', ' ')}: {one[name]}"
            for name in one
            if name not in ("seed", "value", "n", "stderr", "recomputed") and one[name]
        ]
    for name, value in found["method"].items():
        text = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        lines.append(f"{name}: {text}")
    for source in found["sources"]:
        revision = source["revision"] or "no revision"
        lines.append(f"{source['use']}: {source['name']} ({source['origin']}, {revision})")
    for test in found["tests"]:
        parts = ", ".join(f"{name} {value}" for name, value in test.items())
        lines.append(f"test: {parts}")
    lines.append("commands:")
    return "\n".join([*lines, *(f"  {command}" for command in found["commands"])])


def run(args: argparse.Namespace) -> None:
    """Run ``explain``."""
    found = explain(args.results, args.table, args.cell)
    print(json.dumps(found, indent=1, ensure_ascii=False) if args.json else as_text(found))
