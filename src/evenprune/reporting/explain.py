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
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..base.errors import UserError, nearest, shown
from ..base.pages import fill
from ..base.reading import iter_csv, read_json
from ..plan.config import TABLES
from ..plan.grids import Checkpoint
from ..plan.run_sheet import RunSheet, read_run_sheet
from ..stats import inference
from ..stats.measures import ITEM_SCORES, MEASURES, is_rate
from . import dto, mask_diffs
from .estimates import checkpoint_sums
from .explain_origin import commands, files_of, method_of, rebased, recompute, sources_of
from .fields import Run
from .make_table import build_table
from .measurements import PAIRED, RATIO, ratio_to_dense, ratio_values, read_part
from .render import Cell, Column, Table
from .results import POINT, Group, Measured, Quantity, Results, Significance, groups
from .significance import METHOD

# Part of this module's code, see codedigest.py.
DATA_FILES = ("explain.txt.j2",)
TEMPLATE = Path(__file__).with_name(DATA_FILES[0])
FORM = "MODEL/METHOD/REGIME/CALIBRATION/BENCHMARK[/METRIC[/CATEGORY]]"
# Benchmarks of results.csv that are none of the configuration, with what is meant by default.
DERIVED = {"dto": "dto", "serving": "decode_tok_per_s", "masks": "pattern_disagreement"}

EXACT, RECOMPUTED = 1e-9, 1e-6  # relative; records are rounded
NORMAL = 1.959964


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``explain``."""
    add = parser.add_argument
    add("table", choices=TABLES, metavar="TABLE", help="name of a table, such as main")
    add("--cell", required=True, metavar="PATH", help=FORM)
    add("--results", type=Path, default=Path("results"), help="folder of a run (default: results)")
    add("--json", action="store_true", help="print JSON instead of text")


def explain(folder: Path, table: str, cell: str) -> dict[str, Any]:
    """Return all that is known of one cell of a table of the run in ``folder``.

    Raises UserError for a cell that is not there, with the nearest names, and for a number that
    is not the same in all files that have it.
    """
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
        "cell": "/".join(part for part in (*group.key, *quantity) if part),
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


def _check_printed_table(folder: Path, table: str, group: Group, key: str, text: str) -> None:
    """Raise UserError where the table's CSV has not the text that the values give."""
    path = folder / "tables" / f"{table}.csv"
    rows = [
        row
        for _, row in iter_csv(path, (*POINT, key), what="a table", remedy="make the table again")
        if tuple(row[name] for name in POINT) == group.key
    ]
    if text not in [row[key] for row in rows]:
        raise UserError(
            f"expected {text} as {key} of {'/'.join(group.key)} in {path}, found "
            f"{', '.join(row[key] for row in rows) or 'no such row'}; make the table again"
        )


def near(word: str, known: Iterable[str]) -> str:
    """Return what a wrong word may have meant, as the end of a sentence."""
    names = list(dict.fromkeys(known))
    if found := nearest(word, names, 3):
        return found.removeprefix("; ")
    return f"there are {', '.join(names[:12])}" + (", …" if len(names) > 12 else "")


def parse(run: Run, text: str) -> tuple[Group, Quantity]:
    """Return the grid point and the quantity of a cell's path.

    Raises UserError, with the nearest names, for one that the run does not have.
    """
    words = text.split("/", 6)
    if len(words) < 5 or not all(words):
        raise UserError(f"expected a cell as {FORM}, got {shown(text)}")
    point = (words[0], words[1], words[2], words[3])
    slug = words[4]
    known = {one.key: one for one in groups(sorted(run.sheet.files))}
    if point not in known:
        for index, (kind, word) in enumerate(zip(POINT, point, strict=True)):
            fitting = [key[index] for key in known if key[:index] == point[:index]]
            if word not in fitting:
                before = "/".join(point[:index])
                where = f" of {before}" if before else ""
                raise UserError(
                    f"this run has no {kind} {shown(word)}{where}; {near(word, fitting)}"
                )
    benchmarks = run.sheet.config.benchmarks
    if slug not in benchmarks and slug not in DERIVED:
        raise UserError(
            f"this run has no benchmark {shown(slug)}; {near(slug, [*benchmarks, *DERIVED])}"
        )
    default = DERIVED[slug] if slug in DERIVED else run.sheet.headline(slug)
    metric = words[5] if len(words) > 5 else default
    category = words[6] if len(words) > 6 else ""
    group, quantity = known[point], Quantity(slug, metric, category)
    if run.results.of(group, quantity) is None:
        have = run.results.names(group.checkpoints()[0], slug)
        if not have:
            raise UserError(f"{'/'.join(point)} has no values of {slug} in this run")
        wanted = f"{metric}/{category}" if category else metric
        raise UserError(f"{'/'.join(words[:5])} has no {shown(wanted)}; {near(wanted, have)}")
    return group, quantity


def find(table: Table, group: Group, quantity: Quantity, value: float) -> tuple[Column, Cell]:
    """Return the column and cell of a table that shows a value.

    Raises UserError where the table has no such row, or no column of the quantity.
    """
    keyed = [row for row in table.rows if all(name in row.identity for name in POINT)]
    if not keyed:
        raise UserError(
            f"the table {table.slug} has no cells of one checkpoint; name a table of values"
        )
    rows = [row for row in keyed if tuple(row.identity[name] for name in POINT) == group.key]
    if not rows:
        have = ["/".join(row.identity[name] for name in POINT) for row in keyed]
        wanted = "/".join(group.key)
        raise UserError(f"the table {table.slug} has no row {wanted}; {near(wanted, have)}")
    columns = _columns(table, quantity)
    for row in rows:
        for column in columns:
            cell = row.cells.get(column.key)
            if cell is not None and cell.value is not None and abs(cell.value - value) < 1e-12:
                return column, cell
    have = [column.key for column in table.columns]
    name = "/".join(part for part in quantity if part)
    raise UserError(f"the table {table.slug} does not show {name}; its columns are {_list(have)}")


def _columns(table: Table, quantity: Quantity) -> Sequence[Column]:
    """Return the columns whose key can stand for a quantity, the most exact one first."""
    slug, metric, category = quantity
    keys = [f"{slug}_{metric}", metric, slug, f"{slug}_{category}"]
    found = [column for key in keys for column in table.columns if column.key == key]
    return found + [one for one in table.columns if category and one.key.startswith(f"{metric}_")]


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", …" if len(names) > 20 else "")


def interval(
    run: Run, group: Group, quantity: Quantity, measured: Measured
) -> dict[str, Any] | None:
    """Return the 95 % interval of a value, None where its spread is not known.

    ``kind``: wilson (a share of items without clusters, of one seed), t over clusters (a distance
    to the optimum), t over rounds (a ratio of throughput or energy), or normal: the standard error
    of results.csv, with several seeds together with that over seeds, within the metric's bounds.
    """
    entry = run.sheet.config.benchmarks.get(quantity.benchmark)
    key = (entry.task if entry else quantity.benchmark, quantity.metric)
    paired = _paired(run.sheet, group, quantity)
    sums = checkpoint_sums(run.sheet, group.checkpoints()[0], quantity) if entry else []
    share = key in ITEM_SCORES and not (sums and sums[0].clusters)
    if measured.n and (share or is_rate(*key)):
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
    wanted = (*group.key, quantity.benchmark, quantity.metric)
    names = (*POINT, "benchmark", "metric")
    found = [
        {name: text for name, text in row.items() if text and name not in names}
        for _, row in iter_csv(path, (*names, "against"))
        if tuple(row[name] for name in names) == wanted
    ]
    return sorted(found, key=lambda row: row.get("against") != METHOD)


def as_text(found: dict[str, Any]) -> str:
    """Return what ``explain`` found, as lines for people."""
    return fill(TEMPLATE, found)


def run(args: argparse.Namespace) -> None:
    """Run ``explain``."""
    found = explain(args.results, args.table, args.cell)
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n" if args.json else as_text(found)
    print(text, end="")
