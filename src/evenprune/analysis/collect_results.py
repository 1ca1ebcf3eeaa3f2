"""Gather every number of a run into results.csv, and the paired tests into significance.csv.

results.csv is tidy: one value a row, sorted, fractions not percentages. Beside the
benchmarks' metrics it holds fidelity to the dense model (``flips`` and others, from the
item records), derived rows (benchmark ``dto``), throughput and energy (``serving``, with their
paired ratios to the dense model, see ``measurements.py``), achieved
sparsity (``check``), differences of the masks to SparseGPT's (``masks``, categories
``layer.module``) and the pairs kept and dropped (``calibration``).
Rates of judged answers have Wilson's interval (``<metric>_low``, ``<metric>_high``). ``stderr`` is
over clusters where items have them, and over items elsewhere.
``printed`` is the paper's number on the same scale where it has one, ``in_calibration`` is true
where the calibration pairs are of the data and bias types that the value was measured on.
"""

import argparse
import functools
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..config.finished import METRICS
from ..config.grids import Checkpoint, benchmarks_of, in_calibration
from ..config.run_sheet import RunSheet, read_run_sheet
from ..io.checksums import again, read_sealed
from ..io.files import read_json
from ..io.outputs import check_file, check_ours
from ..io.progress import Progress
from ..io.reading import expected_form
from ..stats import inference
from ..stats.inference import Estimate, Interval
from ..stats.measures import is_rate
from ..stats.paired import jackknife
from ..stats.records import read_records
from . import consistency, dto, fidelity, mask_diffs, measurements, significance
from .estimates import checkpoint_sums
from .frames import make_frame, write_frame
from .printed import printed_value
from .results import Quantity

COLUMNS = (
    "model", "method", "regime", "calibration", "seed", "benchmark", "metric", "category",
    "value", "n", "stderr", "printed", "printed_table", "in_calibration",
)  # fmt: skip
TableRow = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``collect-results``."""
    add = parser.add_argument
    add("--run-sheet", type=Path, required=True, help="run_sheet.json, written by the workflow")
    add("--out", type=Path, required=True, help="results.csv")
    add("--significance", type=Path, help="significance.csv; without it nothing is tested")


def _row(
    point: Checkpoint, benchmark: str, metric: str, category: str, measured: dict[str, Any]
) -> TableRow:
    named = dict(zip(COLUMNS[5:8], (benchmark, metric, category), strict=True))
    numbers = {"value": measured["value"], "n": measured.get("n"), "stderr": measured.get("stderr")}
    return {**asdict(point), **named, **numbers}


def metric_rows(
    point: Checkpoint, benchmark: str, content: Any, path: Path | str
) -> Iterator[TableRow]:
    """Yield the rows of a checkpoint's metrics, which are of ``path``: totals, then categories."""
    with expected_form("metrics as {name: {value, n, stderr}}", path, "evaluate again"):
        for name, measured in content["metrics"].items():
            yield _row(point, benchmark, name, "", measured)
        for category, metrics in content.get("categories", {}).items():
            for name, measured in metrics.items():
                yield _row(point, benchmark, name, category, measured)
        # Under "protocol" a benchmark says how many items it chose from.
        facts = content.get("spec", {}).get("protocol", {})
        total = facts.get("items_in_split", facts.get("items_in_data"))
        if total is not None:
            yield _row(point, benchmark, "items_total", "", {"value": total})


def _ends(
    point: Checkpoint, benchmark: str, metric: str, found: Interval | None, n: int | None
) -> Iterator[TableRow]:
    """Yield the ends of an interval, as ``<metric>_low`` and ``<metric>_high``."""
    for end, bound in asdict(found).items() if found else ():
        yield _row(point, benchmark, f"{metric}_{end}", "", {"value": bound, "n": n})


def clustered(run_sheet: RunSheet, point: Checkpoint, rows: list[TableRow]) -> list[TableRow]:
    """Return a checkpoint's rows with errors over clusters where items have them."""
    read = functools.lru_cache(maxsize=1)(read_records)
    for row in rows:
        quantity = Quantity(row["benchmark"], row["metric"], row["category"])
        sums = checkpoint_sums(run_sheet, point, quantity, read) if row["stderr"] else []
        if sums and sums[0].clusters is not None:
            found = jackknife(sums[0])
            row["stderr"] = found.estimate(lambda only: only).stderr if found else None
    return rows


def dto_rows(run_sheet: RunSheet, point: Checkpoint, rows: list[TableRow]) -> Iterator[TableRow]:
    """Yield the distances to the optimum that a checkpoint's metrics allow, with intervals.

    ``n`` is the number of items of both parts. The standard error and the 95 % interval
    (metrics ``<name>_low``, ``<name>_high``) are those of ``stats.paired``, by cluster where items
    are clustered, within 0 and 1.
    """
    totals = {(row["benchmark"], row["metric"]): row for row in rows if not row["category"]}
    for definition in dto.definitions(run_sheet):
        parts = [totals.get((part.benchmark, part.metric)) for part in definition.parts]
        if any(part is None or part["value"] is None for part in parts):
            continue
        found = jackknife(dto.distance_sums(run_sheet, point, definition))
        value = float(definition.distance(np.array([part["value"] for part in parts if part])))
        estimate = found.estimate(lambda only: only) if found else Estimate(value)
        measured = {"value": value, "n": estimate.n, "stderr": estimate.stderr}
        yield _row(point, dto.SLUG, definition.name, "", measured)
        ends = estimate.interval(0.0, 1.0)
        yield from _ends(point, dto.SLUG, definition.name, ends, estimate.n)


def rate_rows(run_sheet: RunSheet, point: Checkpoint, rows: list[TableRow]) -> Iterator[TableRow]:
    """Yield Wilson's 95 % intervals of the rates of judged answers, as ``<metric>_low``, ``_high``.

    ``n`` is that of the rate. No rate, no interval.
    """
    for row in rows:
        entry = run_sheet.config.benchmarks.get(row["benchmark"])
        if entry is None or row["category"] or not is_rate(entry.task, row["metric"]):
            continue
        if row["value"] is not None and row["n"]:
            found = inference.wilson(round(row["value"] * row["n"]), row["n"])
            yield from _ends(point, row["benchmark"], row["metric"], found, row["n"])


def calibration_rows(point: Checkpoint, path: Path) -> Iterator[TableRow]:
    """Yield the counts of one calibration set for one model; they belong to no method or regime."""
    manifest = read_sealed(path, f"build it again: run {again(path)}")
    owner = Checkpoint(point.model, "", "", point.calibration, point.seed)
    with expected_form("the counts pairs, texts and tokens", path, f"run {again(path)}"):
        pairs = manifest["pairs"]
        for category, counts in {"": pairs, **pairs["categories"]}.items():
            for name in ("total", "kept", "dropped"):
                measured = {"value": counts[name]}
                yield _row(owner, "calibration", f"pairs_{name}", category, measured)
        yield _row(owner, "calibration", "tokens_pairs", "", {"value": manifest["tokens"]["pairs"]})
        yield _row(owner, "calibration", "tokens_texts", "", {"value": manifest["tokens"]["texts"]})
        yield _row(owner, "calibration", "texts_kept", "", {"value": manifest["texts"]["kept"]})


def checkpoint_rows(run_sheet: RunSheet, point: Checkpoint) -> list[TableRow]:
    """Return all rows of one checkpoint but those of its calibration set."""
    files = run_sheet.files[point]
    rows = [
        row
        for slug in benchmarks_of(run_sheet.config, point)
        for path in [run_sheet.result_folder(point, slug) / METRICS]
        for row in metric_rows(point, slug, read_json(path), path)
    ]
    rows = clustered(run_sheet, point, rows)
    rows += [*rate_rows(run_sheet, point, rows), *dto_rows(run_sheet, point, rows)]
    if files["serving"]:
        part = measurements.read_part(files["serving"], point)
        rows += metric_rows(point, "serving", part, files["serving"])
        rows += [
            _row(point, "serving", metric, category, measured)
            for metric, category, measured in measurements.ratio_values(run_sheet, point)
        ]
    if files["masks"]:
        rows += [
            _row(point, mask_diffs.SLUG, metric, category, measured)
            for metric, category, measured in mask_diffs.mask_values(Path(files["masks"]))
        ]
    for row in rows:
        found = printed_value(run_sheet, point, row["benchmark"], row["metric"], row["category"])
        row["printed"], row["printed_table"] = found or (None, None)
    if files["check"]:
        check = consistency.read_check(files["check"])
        with expected_form("the report of check", files["check"], "check that checkpoint again"):
            measured = {"value": float(check["sparsity"])}
        rows.append(_row(point, "check", "sparsity", "", measured))
    return rows


def collect(run_sheet: RunSheet) -> pd.DataFrame:
    """Return results.csv, its rows sorted."""
    consistency.check_one_base(run_sheet)
    rows: list[TableRow] = []
    progress = Progress(len(run_sheet.files), "collect-results")
    calibrations: dict[tuple[str, str, int], tuple[Checkpoint, str]] = {}
    for point, files in run_sheet.files.items():
        rows += checkpoint_rows(run_sheet, point)
        if files["calibration_manifest"]:
            key = (point.model, point.calibration, point.seed)
            calibrations[key] = (point, files["calibration_manifest"])
        progress.update()
    rows += [
        _row(point, slug, name, "", measured)
        for point, slug, name, measured in fidelity.fidelity_values(run_sheet)
    ]
    for point, manifest in calibrations.values():
        rows += calibration_rows(point, Path(manifest))
    for row in rows:
        point = Checkpoint(*(row[name] for name in COLUMNS[:5]))
        known = in_calibration(run_sheet.config, point, row["benchmark"], row["category"])
        row["in_calibration"] = "true" if known else "false"
    return make_frame(rows, COLUMNS)


def run(args: argparse.Namespace) -> None:
    """Run ``collect-results``."""
    run_sheet = read_run_sheet(args.run_sheet)
    inputs = [
        args.run_sheet,
        *(file for files in run_sheet.files.values() for file in files.values()),
    ]
    check_file(args.out, [*inputs, args.significance])
    check_ours(args.out, COLUMNS)
    if args.significance:
        check_file(args.significance, inputs, "--significance")
        check_ours(args.significance, significance.COLUMNS, "--significance")
    results = collect(run_sheet)
    tests = significance.tests(run_sheet) if args.significance else None
    write_frame(args.out, results)
    print(f"{args.out}: {len(results)} values of {len(run_sheet.files)} checkpoints")
    if tests is not None:
        write_frame(args.significance, tests)
        print(f"{args.significance}: {len(tests)} paired tests")
