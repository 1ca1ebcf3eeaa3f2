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
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..config.finished import METRICS, SUMMARY, read_summary, remedy
from ..config.grids import Checkpoint, in_calibration
from ..config.job_options import benchmark_options, prune_options
from ..config.run_sheet import RunSheet, read_run_sheet
from ..io.checksums import again, read_sealed
from ..io.errors import UserError
from ..io.files import read_json
from ..io.outputs import check_file
from ..io.progress import Progress
from ..io.reading import expected_form
from ..stats import inference
from ..stats.inference import Estimate, Interval
from ..stats.measures import is_rate
from ..stats.paired import estimate_of
from ..tasks.protocol import AUTO, Protocol
from . import fidelity, mask_diffs, measurements, significance
from .frames import Number, Numbers, Quantity, make_frame, metric_values, write_frame
from .item_sums import DTO, ItemSums, distance, dto_parts
from .printed import printed_value

COLUMNS = (
    "model", "method", "regime", "calibration", "seed", "benchmark", "metric", "category",
    "value", "n", "stderr", "printed", "printed_table", "in_calibration",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``collect-results``."""
    add = parser.add_argument
    add("--run-sheet", type=Path, required=True, help="run_sheet.json, written by the workflow")
    add("--out", type=Path, required=True, help="results.csv")
    add("--significance", type=Path, help="significance.csv; without it nothing is tested")


def _ends(quantity: Quantity, interval: Interval | None, n: int | None) -> Numbers:
    """Return the ends of an interval, as ``<metric>_low`` and ``<metric>_high``."""
    ends = interval._asdict() if interval else {}
    return {
        quantity._replace(metric=f"{quantity.metric}_{end}"): Number(bound, n)
        for end, bound in ends.items()
    }


def clustered_errors(sums: ItemSums, point: Checkpoint, numbers: Numbers) -> Numbers:
    """Return numbers of a checkpoint with errors over clusters where items have them."""
    changed = Numbers()
    for quantity, number in numbers.items():
        known = sums.of(point, quantity) if number.stderr else None
        if known and known.clusters:
            estimate = estimate_of(known)
            changed[quantity] = number._replace(stderr=estimate.stderr if estimate else None)
    return changed


def dto_values(run_sheet: RunSheet, sums: ItemSums, point: Checkpoint, numbers: Numbers) -> Numbers:
    """Return the distance to the optimum where a checkpoint's metrics allow it, with its interval.

    ``n`` is the number of items of both parts. The standard error and the 95 % interval
    (metrics ``dto_low``, ``dto_high``) are those of ``stats.paired``, by cluster where items
    are clustered, within 0 and 1.
    """
    parts = [numbers.get(part, Number(None)).value for part in dto_parts(run_sheet)]
    if not parts or None in parts:
        return {}
    value = float(distance(np.array(parts)))
    estimate = estimate_of(sums.of(point, DTO)) or Estimate(value)
    ends = _ends(DTO, estimate.interval(0.0, 1.0), estimate.n)
    return {DTO: Number(value, estimate.n, estimate.stderr), **ends}


def rate_ends(run_sheet: RunSheet, numbers: Numbers) -> Numbers:
    """Return Wilson's intervals (95 %) of the rates of judged answers: ``<metric>_low``, ``_high``.

    ``n`` is that of the rate. No rate, no interval.
    """
    benchmarks, ends = run_sheet.config.benchmarks, Numbers()
    for (slug, metric, category), (value, n, _) in numbers.items():
        judged = slug in benchmarks and is_rate(benchmarks[slug].task, metric)
        if judged and not category and value is not None and n:
            ends |= _ends(Quantity(slug, metric), inference.wilson(round(value * n), n), n)
    return ends


def calibration_values(path: Path) -> Numbers:
    """Return the counts of a calibration set for a model; they belong to no method or regime."""
    manifest = read_sealed(path, f"build it again: run {again(path)}")
    with expected_form("the counts pairs, texts and tokens", path, f"run {again(path)}"):
        pairs, tokens = manifest["pairs"], manifest["tokens"]
        counts = {
            (f"pairs_{name}", category): count[name]
            for category, count in {"": pairs, **pairs["categories"]}.items()
            for name in ("total", "kept", "dropped")
        }
        counts |= {(f"tokens_{name}", ""): tokens[name] for name in ("pairs", "texts")}
        counts["texts_kept", ""] = manifest["texts"]["kept"]
    return {Quantity("calibration", *name): Number(count) for name, count in counts.items()}


def _refuse_others(
    folder: Path | str, done: str, used: dict[str, Any], asked: dict[str, Any], mend: str
) -> None:
    """Raise UserError where a result was made with another option than the configuration asks for.

    Snakemake does not see it where its own records are gone, as after a copy of the results alone.
    Options that a record of an older version does not have are not compared.
    """
    for name, value in asked.items():
        if used.get(name, value) != value:
            found, wanted = json.dumps(used[name]), json.dumps(value)
            raise UserError(
                f"{folder} was {done} with {name} {found}, but the configuration has {wanted}; "
                f"{mend}"
            )


def _protocols(options: dict[str, Any], record: dict[str, Any]) -> tuple[dict, dict]:
    """Return the options of a benchmark as its record says them, and as it was asked for.

    The latter without those that the evaluation settles itself. A record leaves out what is single
    tasks' alone and not set.
    """
    given = {name: value for name, value in options.items() if name != "data"}
    asked, said = Protocol(**given), record.get("spec", {})
    settled = {name for name, value in asked if value == AUTO} | {"dtype", "judge", "headline"}
    unset = Protocol(options["task"]).model_dump() if "task" in said else {}
    return unset | said, asked.model_dump(exclude=settled)


def checkpoint_values(run_sheet: RunSheet, point: Checkpoint) -> Numbers:
    """Return all numbers of one checkpoint but those of its calibration set."""
    numbers, sums = Numbers(), ItemSums(run_sheet)
    for slug, options in benchmark_options(run_sheet.config, point).items():
        metrics = run_sheet.result_folder(point, slug) / METRICS
        content = read_json(metrics)
        used, asked = _protocols(options, content)
        _refuse_others(metrics.parent, "evaluated", used, asked, remedy(metrics.parents[1]))
        numbers |= metric_values(slug, content, metrics)
    numbers |= clustered_errors(sums, point, numbers)
    numbers |= rate_ends(run_sheet, numbers) | dto_values(run_sheet, sums, point, numbers)
    if path := run_sheet.measurement(point):
        numbers |= metric_values("serving", measurements.read_part(path, point), path)
        numbers |= measurements.ratio_values(run_sheet, point)
    if point in run_sheet.mask_references:
        numbers |= mask_diffs.mask_values(Path(run_sheet.masks(point)))
    if not point.is_base:
        path = run_sheet.ready(point)
        with expected_form("the report of check", path, "check that checkpoint again"):
            numbers[Quantity("check", "sparsity")] = Number(float(read_check(path)["sparsity"]))
    return numbers


# Whether the files of a run belong together: no row is built from two base models. Every
# evaluation, check and measurement names the digest of the base model, every check those of the
# calibration texts.


def read_check(path: Path | str) -> dict[str, Any]:
    """Return a checkpoint's check.json; raise UserError where it is not as ``check`` wrote it."""
    return read_sealed(path, f"check the checkpoint again: run {again(path)}")


def _digests(sheet: RunSheet, point: Checkpoint) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each file about a checkpoint with what it says, and how to make it again."""
    evals = Path(sheet.evaluation(point))
    if not point.is_base:
        path = sheet.ready(point)
        yield path, read_check(path), f"run {again(path)}"
    yield str(evals / SUMMARY), read_summary(evals), remedy(evals)
    if measured := sheet.measurement(point):
        yield measured, measurements.read_part(measured, point), measurements.remedy(measured)


def _check_calibration(check: dict[str, Any], path: str, manifest: str) -> None:
    """Raise UserError where a checkpoint was pruned with other texts than its calibration's."""
    made = read_sealed(manifest, f"build it again: run {again(manifest)}").get("files", {})
    used = check.get("calibration", {})
    for name in ("pairs", "texts"):
        # A calibration without texts has an empty file of them, which pruning does not read.
        if used.get(f"{name}_sha256") not in (None, made.get(f"{name}.jsonl")):
            folder = Path(path).parent / "model"
            raise UserError(
                f"{folder} was pruned with other {name} than {manifest} is of; prune again: "
                f"run {again(folder)}"
            )


def check_one_base(run_sheet: RunSheet) -> None:
    """Raise UserError that names both where two files of a model are of different base models.

    Also where a pruned checkpoint was evaluated, measured or calibrated as another one.
    """
    progress = Progress(len(run_sheet.checkpoints), "base models")
    bases: dict[str, tuple[str, str | None]] = {}
    for point in sorted(run_sheet.checkpoints, key=lambda point: not point.is_base):
        first, about = "", dict[str, Any]()
        for path, says, mend in _digests(run_sheet, point):
            first, about = first or path, about or says
            base = says.get("files_sha256" if point.is_base else "base_sha256")
            known, expected = bases.setdefault(point.model, (path, base))
            if base != expected or base is None:
                raise UserError(
                    f"expected one base model behind all checkpoints of {point.model}, but {known} "
                    f"is of {str(expected)[:12]} and {path} of {str(base)[:12]}; make both again: "
                    "run `snakemake --cores all --forcerun fetch_source` with this run's "
                    "configuration"
                )
            if not point.is_base and says.get("model_sha256") != about.get("model_sha256"):
                raise UserError(f"{path} is of other weights than {first}; {mend}")
        if not point.is_base:
            folder, asked = run_sheet.folder(point), prune_options(run_sheet.config, point)
            used, mend = about.get("options", {}), f"prune again: run {again(folder)}"
            _refuse_others(folder, "pruned", used, asked, mend)
        if manifest := run_sheet.calibration_manifest(point):
            _check_calibration(about, first, manifest)
        progress.update()


def collect(run_sheet: RunSheet) -> pd.DataFrame:
    """Return results.csv, its rows sorted."""
    check_one_base(run_sheet)
    numbers: dict[Checkpoint, Numbers] = {}
    progress = Progress(len(run_sheet.checkpoints), "collect-results")
    # A dense model's answers are compared with those of many others.
    read = functools.lru_cache(maxsize=32)(fidelity.read_answers)
    for point in run_sheet.checkpoints:
        numbers[point] = checkpoint_values(run_sheet, point)
        numbers[point] |= fidelity.fidelity_values(run_sheet, point, read)
        if path := run_sheet.calibration_manifest(point):
            owner = replace(point, method="", regime="")
            numbers[owner] = calibration_values(Path(path))
        progress.update()
    rows = []
    for point, own in numbers.items():
        for quantity, number in own.items():
            printed, table = printed_value(run_sheet, point, *quantity) or (None, None)
            slug, _, category = quantity
            known = in_calibration(run_sheet.config, point, slug, category)
            about = {"printed": printed, "printed_table": table}
            about["in_calibration"] = "true" if known else "false"
            rows.append({**asdict(point), **quantity._asdict(), **number._asdict(), **about})
    return make_frame(rows, COLUMNS)


def run(args: argparse.Namespace) -> None:
    """Run ``collect-results``."""
    run_sheet = read_run_sheet(args.run_sheet)
    evaluations = map(run_sheet.evaluation, run_sheet.checkpoints)
    inputs = [args.run_sheet, *evaluations, *run_sheet.measured_files()]
    check_file(args.out, [*inputs, args.significance], keys=COLUMNS)
    if args.significance:
        check_file(args.significance, inputs, "--significance", significance.COLUMNS)
    results = collect(run_sheet)
    tests = significance.tests(run_sheet) if args.significance else None
    write_frame(args.out, results)
    print(f"{args.out}: {len(results)} values of {len(run_sheet.checkpoints)} checkpoints")
    if tests is not None:
        write_frame(args.significance, tests)
        print(f"{args.significance}: {len(tests)} paired tests")
