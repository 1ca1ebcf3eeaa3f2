"""Say where one number of a table comes from, and check it on the way.

The cell is MODEL/METHOD/REGIME/CALIBRATION/BENCHMARK[/METRIC[/CATEGORY]], in the names of the
configuration. It is found in the table, which is made again from results.csv. The value of every
seed is read again from its file, whose checksums are compared, and computed again from the records
of the items where the metric is a function of them. A number that is not the same everywhere is an
error.
"""

import argparse
import itertools
import json
import math
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..analysis import mask_diffs
from ..analysis.frames import Place, metric_values
from ..analysis.item_sums import DTO, benchmarks_behind
from ..analysis.measurements import ratio_values, read_part
from ..analysis.results import POINT, Group, Quantity, Run, groups, read_run
from ..analysis.significance import METHOD
from ..config.config import TABLES
from ..config.finished import ITEMS, METRICS, SUMMARY, read_result
from ..config.grids import Checkpoint
from ..config.run_sheet import RunSheet, read_run_sheet
from ..io.checksums import again, read_sealed, sha256_cached
from ..io.errors import UserError, few, nearest, shown
from ..io.pages import fill
from ..io.reading import expected_form, iter_csv, read_json
from ..stats.measures import MEASURES
from .forms import point_of
from .make_tables import build_table
from .tables import Cell, Column, Table

# Part of this module's code, see codedigest.py.
DATA_FILES = ("explain.txt.j2",)
TEMPLATE = Path(__file__).with_name(DATA_FILES[0])
FORM = "MODEL/METHOD/REGIME/CALIBRATION/BENCHMARK[/METRIC[/CATEGORY]]"
# Benchmarks of results.csv that are none of the configuration, with what is meant by default.
DERIVED = {"dto": "dto", "serving": "decode_tok_per_s", "masks": "pattern_disagreement"}
EXACT, RECOMPUTED = 1e-9, 1e-6  # relative; records are rounded
WINDOWS = ("gptq2048", "gptq2048+bos", "documents")  # whose perplexity follows from the records


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
    if not (folder / "run_sheet.json").exists():
        raise UserError(
            f"expected a run's results in {folder}, found no run here; name its folder with "
            "--results, or make one: snakemake --cores all"
        )
    config = read_run_sheet(folder / "run_sheet.json").config
    # Its files lie below the folder, wherever the run was made.
    sheet = RunSheet(config.model_copy(update={"results": str(folder)}))
    tests = folder / "significance.csv"
    run = read_run(sheet, folder / "results.csv", tests)
    group, quantity = parse(run, cell)
    column, seen = find(build_table(run, table), group, quantity)
    _check_written_table(folder, table, group, column.key, column.plain(seen.value))
    seeds = [_seed(run, one, quantity) for one in group.checkpoints()]
    point, ends = group.checkpoints()[0], seen.interval(column)
    return {
        "table": table,
        "column": column.key,
        "shown": seen.display,
        "cell": "/".join([*group.key, quantity.path]),
        "value": seen.value,
        "paired": quantity.benchmark == "serving" and seen.value not in [s["value"] for s in seeds],
        "n": seeds[0]["n"] if len(seeds) == 1 else None,
        "interval": ends and {"low": ends[0], "high": ends[1], "level": 0.95},
        "printed": seen.printed,
        "in_calibration": seen.in_calibration,
        "seeds": seeds,
        "method": method_of(sheet, point),
        "sources": sources_of(sheet, folder, point, quantity),
        "tests": _tests(tests, group, quantity),
        "commands": commands(sheet, folder, group, quantity.benchmark, table),
    }


# The cell


def near(word: str, known: Iterable[str]) -> str:
    """Return what a wrong word may have meant, as the end of a sentence."""
    names = list(dict.fromkeys(known))
    return nearest(word, names, 3).removeprefix("; ") or f"there are {few(names, 20) or 'none'}"


def parse(run: Run, text: str) -> tuple[Group, Quantity]:
    """Return the grid point and the quantity of a cell's path.

    Raises UserError, with the nearest names, for one that the run does not have.
    """
    words = text.split("/", 6)
    if len(words) < 5 or not all(words):
        raise UserError(f"expected a cell as {FORM}, got {shown(text)}")
    known = {one.key: one for one in groups(run.sheet.checkpoints)}
    usual = {one: run.sheet.headline(one) for one in run.sheet.config.benchmarks} | DERIVED
    for index, (kind, word) in enumerate(zip((*POINT, "benchmark"), words, strict=False)):
        before = tuple(words[:index])
        fitting = [key[index] for key in known if key[:index] == before] if index < 4 else usual
        if word not in fitting:
            where = f" of {'/'.join(before)}" if index in (1, 2, 3) else ""
            raise UserError(f"this run has no {kind} {shown(word)}{where}; {near(word, fitting)}")
    group = known[Place(*words[:4])]
    quantity = Quantity(*words[4:]) if len(words) > 5 else Quantity(words[4], usual[words[4]])
    if run.results.of(group, quantity) is None:
        here = run.results.quantities(group.checkpoints()[0])
        have = [one.path.partition("/")[2] for one in here if one.benchmark == words[4]]
        wanted = quantity.path.partition("/")[2]
        raise UserError(f"{'/'.join(words[:5])} has no {shown(wanted)}; {near(wanted, have)}")
    return group, quantity


def find(table: Table, group: Group, quantity: Quantity) -> tuple[Column, Cell]:
    """Return the column and cell of a table that shows a quantity of a grid point.

    Raises UserError where the table has no such row, or no cell of the quantity.
    """
    keys = [key for row in table.rows if (key := point_of(row))]
    if not keys:
        raise UserError(
            f"the table {table.slug} has no cells of one checkpoint; name a table of values"
        )
    wanted = "/".join(group.key)
    if wanted not in keys:
        raise UserError(f"the table {table.slug} has no row {wanted}; {near(wanted, keys)}")
    rows = [row for row in table.rows if point_of(row) == wanted]
    for row, column in itertools.product(rows, table.columns):
        if (cell := row.cell(column)).source == quantity.path:
            return column, cell
    shows = ", ".join(dict.fromkeys(cell.source for cell in rows[0].cells.values() if cell.source))
    raise UserError(
        f"the table {table.slug} does not show {quantity.path}; it shows {shows or 'words'}"
    )


def _check_written_table(folder: Path, table: str, group: Group, key: str, text: str) -> None:
    """Raise UserError where the table's CSV has not the text that the values give."""
    path = folder / "tables" / f"{table}.csv"
    rows = iter_csv(path, (*POINT, key), what="a table", remedy="make the table again")
    have = [row[key] for _, row in rows if tuple(row[name] for name in POINT) == group.key]
    if text not in have:
        raise UserError(
            f"expected {text} as {key} of {'/'.join(group.key)} in {path}, found "
            f"{', '.join(have) or 'no such row'}; make the table again"
        )


# Where it comes from


def files_of(sheet: RunSheet, point: Checkpoint, quantity: Quantity) -> dict[str, Any]:
    """Return the files behind a number of one checkpoint, by what they are.

    A benchmark's are compared with their checksums. Raises UserError for one that is not as it was
    written.
    """
    slug, model = quantity.benchmark, sheet.folder(point)
    files: dict[str, Any] = {}
    if slug in sheet.config.benchmarks:
        folder = sheet.result_folder(point, slug)
        result = read_result(folder)
        files |= {"items": str(folder / ITEMS), "items_sha256": result["records"]["sha256"]}
        files |= {"metrics": str(folder / METRICS)}
        files["checkpoint_digest"] = result.get("model_sha256")
    elif slug == DTO.benchmark:
        for part in benchmarks_behind(sheet, slug):
            files[f"items_{part}"] = str(sheet.result_folder(point, part) / ITEMS)
    elif slug == mask_diffs.SLUG:
        files["masks"] = sheet.masks(point)
    elif slug == "serving":
        files["measurement"] = sheet.measurement(point)
    files["checkpoint"] = model
    if not point.is_base:
        files |= {name: f"{model}/{name}.json" for name in ("manifest", "provenance")}
    files["calibration"] = sheet.calibration_manifest(point)
    return {name: value for name, value in files.items() if value}


def method_of(sheet: RunSheet, point: Checkpoint) -> dict[str, Any]:
    """Return the method with the options that its manifest records; UserError without one."""
    record: dict[str, Any] = {"method": point.method}
    if point.is_base:
        return record
    base = sheet.base_method(point.method)
    if base != point.method:
        record["variant of"] = base
    path = Path(sheet.folder(point)) / "manifest.json"
    remedy = f"prune again: run {again(path.parent)}"
    if not path.is_file():
        raise UserError(f"expected {path}, found none; {remedy}")
    with expected_form("method and options", path, "prune again"):
        options = read_sealed(path, remedy)["options"].items()
        record["options"] = {name: value for name, value in options if value is not None}
    return record | {"manifest sha256": sha256_cached(path)}


def sources_of(
    sheet: RunSheet, folder: Path, point: Checkpoint, quantity: Quantity
) -> list[dict[str, Any]]:
    """Return the model and data sets behind a number, each with its origin and revision."""
    config, wanted = sheet.config, [("model", "models", point.model)]
    for slug in dict.fromkeys(benchmarks_behind(sheet, quantity.benchmark)):
        entry = config.benchmarks[slug]
        wanted += [("data", "data", entry.dataset)] if entry.dataset else []
        wanted += [("judge", "models", entry.judge)] if entry.judge else []
    if point.calibration in config.calibrations:
        calibration = config.calibrations[point.calibration]
        wanted += [("calibration pairs", "data", name) for name in calibration.pairs]
        if calibration.texts:
            wanted.append(("calibration texts", "data", calibration.texts))
    sources = []
    for use, kind, name in wanted:
        path = folder / "sources" / kind / f"{name}.json"
        record = read_json(path)
        with expected_form("the record of a source", path, f"fetch again: run {again(path)}"):
            about = {"origin": record["origin"], "revision": record["revision"]}
            files = {file: facts["sha256"] for file, facts in record["files"].items()}
        sources.append({"use": use, "name": name, **about, "files": files, "record": str(path)})
    return sources


def computed(
    run: Run, point: Checkpoint, quantity: Quantity, files: dict[str, Any]
) -> float | None:
    """Return a number computed again from records, None where it is no function of them alone.

    Raises UserError for records of another form.
    """
    slug, metric, _ = quantity
    if slug in run.sheet.config.benchmarks:
        task, records = run.sheet.config.benchmarks[slug].task, run.sums.records(point, quantity)
        measure = MEASURES.get((task, metric))
        if not records or measure is None:
            return None
        form = f"records that {metric} can be computed from"
        with expected_form(form, files["items"], "evaluate again"):
            if task == "perplexity" and records[0].get("category", WINDOWS[0]) not in WINDOWS:
                return None
            return measure.value(records)
    if slug == DTO.benchmark:
        distance = run.sums.of(point, quantity)
        return distance.value if distance else None
    if slug == mask_diffs.SLUG:
        found = mask_diffs.mask_values(Path(files["masks"]))
    else:
        found = ratio_values(run.sheet, point)
    return found[quantity].value if quantity in found else None


# Its values


def _seed(run: Run, point: Checkpoint, quantity: Quantity) -> dict[str, Any]:
    """Return the files and numbers of one seed, checked against each other."""
    number = run.results.one(point, quantity)
    assert number is not None  # Results.of has found all seeds
    files = files_of(run.sheet, point, quantity)
    recomputed = computed(run, point, quantity, files)
    found = [(recomputed, RECOMPUTED, files.get("items", "the items"))]
    if path := files.get("metrics", files.get("measurement")):
        content = read_json(path) if "metrics" in files else read_part(path, point)
        stored = metric_values(quantity.benchmark, content, path).get(quantity)
        found.insert(0, (stored and stored.value, EXACT, path))
    for value, tolerance, place in found:
        near = {"rel_tol": tolerance, "abs_tol": tolerance}
        if value is not None and not math.isclose(value, number.value, **near):
            raise UserError(
                f"expected {quantity.metric} {number.value:.10g} of results.csv in {place}, which "
                f"gives {value:.10g}; run collect-results again, or evaluate that checkpoint again"
            )
    numbers = {"seed": point.seed, "value": number.value, "n": number.n, "stderr": number.stderr}
    return {**numbers, **files, "recomputed": recomputed}


def _tests(path: Path, group: Group, quantity: Quantity) -> list[dict[str, str]]:
    """Return the rows of significance.csv on a value, without their empty columns.

    What a debiasing method is compared with comes first, then the dense model.
    """
    if quantity.category:
        return []
    wanted = (*group.key, quantity.benchmark, quantity.metric)
    names = (*POINT, "benchmark", "metric")
    rows = [
        {name: text for name, text in row.items() if text and name not in names}
        for _, row in iter_csv(path, (*names, "against"))
        if tuple(row[name] for name in names) == wanted
    ]
    return sorted(rows, key=lambda row: row.get("against") != METHOD)


def commands(sheet: RunSheet, folder: Path, group: Group, benchmark: str, table: str) -> list[str]:
    """Return the commands that make a number again, with the --configfile of the run."""
    points = group.checkpoints()
    own = {"serving": lambda point: sheet.efficiency(point.model), "masks": sheet.masks}
    usual = own.get(benchmark, lambda point: f"{sheet.evaluation(point)}/{SUMMARY}")
    made = dict.fromkeys([*map(usual, points), f"{folder}/tables/{table}.csv"])
    return [f"snakemake --cores all --force {shlex.quote(name)}" for name in made]


def run(args: argparse.Namespace) -> None:
    """Run ``explain``."""
    facts = explain(args.results, args.table, args.cell)
    text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
    print(text if args.json else fill(TEMPLATE, facts), end="")
