"""Where a number comes from: files with their checksums, sources with revisions, commands."""

import shlex
from pathlib import Path
from typing import Any

from ..base.checksums import again, read_sealed, sha256_cached
from ..base.errors import UserError
from ..base.reading import expected_form, read_json
from ..plan import jobs
from ..plan.finished import ITEMS, METRICS, read_result
from ..plan.grids import Checkpoint
from ..plan.paths import Paths
from ..plan.run_sheet import RunSheet
from . import dto
from .results import Group, Quantity

PROGRAM = "python -m evenprune.steps"


def rebased(sheet: RunSheet, folder: Path) -> RunSheet:
    """Return a run sheet whose files lie below ``folder``, wherever the run was made."""
    old, new = f"{sheet.config.results}/", f"{folder}/"
    files = {
        point: {
            name: new + path.removeprefix(old) if path and path.startswith(old) else path
            for name, path in entry.items()
        }
        for point, entry in sheet.files.items()
    }
    config = sheet.config.model_copy(update={"results": str(folder)})
    return RunSheet(config, sheet.experiments, files)


def parts_of(sheet: RunSheet, quantity: Quantity) -> list[str]:
    """Return the benchmarks behind a number: its own, or those that a distance is made from."""
    if quantity.benchmark in sheet.config.benchmarks:
        return [quantity.benchmark]
    metric = quantity.metric.removesuffix("_low").removesuffix("_high")
    return [
        part.benchmark
        for one in dto.definitions(sheet)
        if (quantity.benchmark, metric) == (dto.SLUG, one.name)
        for part in one.parts
    ]


def files_of(sheet: RunSheet, point: Checkpoint, quantity: Quantity) -> dict[str, Any]:
    """Return the files behind a number of one checkpoint, by what they are.

    A benchmark's are compared with their checksums. Raises UserError for one that is not as it was
    written.
    """
    entry, benchmark = sheet.files[point], quantity.benchmark
    found: dict[str, Any] = {}
    if benchmark in sheet.config.benchmarks:
        folder = sheet.result_folder(point, benchmark)
        result = read_result(folder)
        found["items"] = str(folder / ITEMS)
        found["items_sha256"] = result["records"]["sha256"]
        found["metrics"] = str(folder / METRICS)
        found["checkpoint_digest"] = result.get("model_sha256")
    elif benchmark == dto.SLUG:
        for slug in parts_of(sheet, quantity):
            found[f"items_{slug}"] = str(sheet.result_folder(point, slug) / ITEMS)
    elif benchmark == "serving" and entry["serving"]:
        found["measurement"] = entry["serving"]
    elif benchmark == "masks" and entry["masks"]:
        found["masks"] = entry["masks"]
    found["checkpoint"] = Paths(sheet.config).folder(point)
    if not point.is_base:
        found["manifest"] = f"{found['checkpoint']}/manifest.json"
        found["provenance"] = f"{found['checkpoint']}/provenance.json"
    found["calibration"] = entry["calibration_manifest"]
    return {name: value for name, value in found.items() if value}


def method_of(sheet: RunSheet, point: Checkpoint) -> dict[str, Any]:
    """Return the method with the options that its manifest records (those of the run if none)."""
    found: dict[str, Any] = {"method": point.method}
    if point.is_base:
        return found
    base = sheet.base_method(point.method)
    if base != point.method:
        found["variant of"] = base
    path = Path(Paths(sheet.config).folder(point)) / "manifest.json"
    if not path.is_file():
        raise UserError(f"expected {path}, found none; prune again: run {again(path.parent)}")
    manifest = read_sealed(path, f"prune again: run {again(path.parent)}")
    with expected_form("method and options", path, "prune again"):
        found["options"] = {
            name: value for name, value in manifest["options"].items() if value is not None
        }
        found["manifest sha256"] = sha256_cached(path)
    return found


def sources_of(
    sheet: RunSheet, folder: Path, point: Checkpoint, quantity: Quantity
) -> list[dict[str, Any]]:
    """Return the model and data sets behind a number, each with its origin and revision."""
    config, wanted = sheet.config, [("model", "models", point.model)]
    for slug in dict.fromkeys(parts_of(sheet, quantity)):
        entry = config.benchmarks[slug]
        wanted += [("data", "data", entry.dataset)] if entry.dataset else []
        wanted += [("judge", "models", entry.judge)] if entry.judge else []
    if point.calibration in config.calibrations:
        calibration = config.calibrations[point.calibration]
        wanted += [("calibration pairs", "data", name) for name in calibration.pairs]
        if calibration.texts:
            wanted.append(("calibration texts", "data", calibration.texts))
    found = []
    for use, kind, name in wanted:
        path = folder / "sources" / kind / f"{name}.json"
        record = read_json(path)
        with expected_form("the record of a source", path, f"fetch again: run {again(path)}"):
            found.append(
                {
                    "use": use,
                    "name": name,
                    "origin": record["origin"],
                    "revision": record["revision"],
                    "files": {one: facts["sha256"] for one, facts in record["files"].items()},
                    "record": str(path),
                }
            )
    return found


def commands(sheet: RunSheet, folder: Path, group: Group, benchmark: str, table: str) -> list[str]:
    """Return the commands behind a number, in order; the last line makes it all with Snakemake.

    The device is that of the configuration, which a run sheet does not have: ``--device`` is left
    at its default.
    """
    paths, lines = Paths(sheet.config), []
    for point in group.checkpoints():
        model = paths.model(point.model)
        checkpoint = paths.folder(point)
        if not point.is_base:
            lines += _calibration(paths, point)
            lines.append(_prune(paths, point))
            lines.append(_line("check", model=checkpoint, base=model, out=paths.ready(point)))
        if benchmark in sheet.config.benchmarks or benchmark == "dto":
            asked = jobs.benchmarks_json(paths, point)
            out = paths.evaluation(point)
            lines.append(_line("evaluate-checkpoint", model=checkpoint, benchmarks=asked, out=out))
        elif benchmark == "serving":
            lines.append(f"snakemake --cores all {paths.efficiency(point.model)}")
        elif benchmark == "masks":
            lines.append(f"snakemake --cores all {paths.masks(point)}")
    files = {"run_sheet": f"{folder}/run_sheet.json"}
    results, tests = f"{folder}/results.csv", f"{folder}/significance.csv"
    lines.append(_line("collect-results", **files, out=results, significance=tests))
    lines.append(
        _line(
            "make-table", table=table, **files, results=results, significance=tests,
            out_prefix=f"{folder}/tables/{table}",
        )
    )  # fmt: skip
    lines.append(
        f"snakemake --cores all {folder}/tables/{table}.csv  # with the --configfile of this run"
    )
    return list(dict.fromkeys(lines))


def _line(command: str, **options: str) -> str:
    words = [f"--{name.replace('_', '-')} {shlex.quote(text)}" for name, text in options.items()]
    return " ".join([PROGRAM, command, *words])


def _calibration(paths: Paths, point: Checkpoint) -> list[str]:
    """Return the command that builds a checkpoint's calibration data, none without any."""
    if point.calibration not in paths.config.calibrations:
        return []
    options = jobs.calibration_flags(paths, point.calibration)
    out = paths.calibration(point.model, point.calibration, point.seed)
    head = _line("build-calibration", model=paths.model(point.model))
    return [f"{head} {options} --seed {point.seed} --out {shlex.quote(out)}"]


def _prune(paths: Paths, point: Checkpoint) -> str:
    """Return the command that prunes a checkpoint."""
    words = [_line("prune", model=paths.model(point.model))]
    words.append(jobs.prune_flags(paths, point))
    words.append(f"--regime {point.regime} --seed {point.seed}")
    words.append(f"--out {shlex.quote(paths.folder(point))}")
    return " ".join(words)
