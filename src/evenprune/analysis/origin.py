"""Where a number comes from: files with their checksums, sources with revisions, its records."""

from pathlib import Path
from typing import Any

from ..config.finished import ITEMS, METRICS, read_result
from ..config.grids import Checkpoint
from ..config.paths import Paths
from ..config.run_sheet import RunSheet
from ..io.checksums import again, read_sealed, sha256_cached
from ..io.errors import UserError
from ..io.reading import expected_form, read_json
from ..stats.measures import MEASURES
from ..stats.records import first_part, read_records
from . import dto, mask_diffs
from .measurements import ratio_values
from .results import Quantity

WINDOWS = ("gptq2048", "gptq2048+bos", "documents")  # whose perplexity follows from the records


def benchmarks_behind(sheet: RunSheet, quantity: Quantity) -> list[str]:
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
    files: dict[str, Any] = {}
    if benchmark in sheet.config.benchmarks:
        folder = sheet.result_folder(point, benchmark)
        result = read_result(folder)
        files |= {"items": str(folder / ITEMS), "items_sha256": result["records"]["sha256"]}
        files |= {"metrics": str(folder / METRICS)}
        files["checkpoint_digest"] = result.get("model_sha256")
    elif benchmark == dto.SLUG:
        for slug in benchmarks_behind(sheet, quantity):
            files[f"items_{slug}"] = str(sheet.result_folder(point, slug) / ITEMS)
    elif benchmark == "serving":
        files["measurement"] = entry["serving"]
    elif benchmark == "masks":
        files["masks"] = entry["masks"]
    files["checkpoint"] = Paths(sheet.config).folder(point)
    if not point.is_base:
        files["manifest"] = f"{files['checkpoint']}/manifest.json"
        files["provenance"] = f"{files['checkpoint']}/provenance.json"
    files["calibration"] = entry["calibration_manifest"]
    return {name: value for name, value in files.items() if value}


def method_of(sheet: RunSheet, point: Checkpoint) -> dict[str, Any]:
    """Return the method with the options that its manifest records (those of the run if none)."""
    record: dict[str, Any] = {"method": point.method}
    if point.is_base:
        return record
    base = sheet.base_method(point.method)
    if base != point.method:
        record["variant of"] = base
    path = Path(Paths(sheet.config).folder(point)) / "manifest.json"
    if not path.is_file():
        raise UserError(f"expected {path}, found none; prune again: run {again(path.parent)}")
    manifest = read_sealed(path, f"prune again: run {again(path.parent)}")
    with expected_form("method and options", path, "prune again"):
        options = manifest["options"].items()
        record["options"] = {name: value for name, value in options if value is not None}
        record["manifest sha256"] = sha256_cached(path)
    return record


def sources_of(
    sheet: RunSheet, folder: Path, point: Checkpoint, quantity: Quantity
) -> list[dict[str, Any]]:
    """Return the model and data sets behind a number, each with its origin and revision."""
    config, wanted = sheet.config, [("model", "models", point.model)]
    for slug in dict.fromkeys(benchmarks_behind(sheet, quantity)):
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
            files = {one: facts["sha256"] for one, facts in record["files"].items()}
        sources.append({"use": use, "name": name, **about, "files": files, "record": str(path)})
    return sources


def computed(
    sheet: RunSheet, point: Checkpoint, quantity: Quantity, files: dict[str, Any]
) -> float | None:
    """Return a number computed again from records, None where it is no function of them alone."""
    slug, metric, category = quantity
    if slug in sheet.config.benchmarks:
        task = sheet.config.benchmarks[slug].task
        return recompute(Path(files["items"]), task, metric, category)
    if slug == dto.SLUG:
        own = [one for one in dto.definitions(sheet) if one.name == metric]
        return next((dto.distance_sums(sheet, point, one).value for one in own), None)
    parts = (
        mask_diffs.mask_values(Path(files["masks"]))
        if slug == mask_diffs.SLUG
        else ratio_values(sheet, point)
    )
    return next((one["value"] for *place, one in parts if place == [metric, category]), None)


def recompute(path: Path, task: str, metric: str, category: str = "") -> float | None:
    """Return a metric from ``items.jsonl``, None where it is no function of these records alone.

    Raises UserError for records of another form.
    """
    records = [row for row in read_records(path) if category in ("", row.get("category"))]
    measure = MEASURES.get((task, metric))
    if not records or measure is None:
        return None
    with expected_form(f"records that {metric} can be computed from", path, "evaluate again"):
        if task == "perplexity":
            records = first_part(records)
            if records[0].get("category", WINDOWS[0]) not in WINDOWS:
                return None
        return measure.value(records)
