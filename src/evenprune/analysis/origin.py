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
from . import mask_diffs
from .frames import Quantity
from .item_sums import DTO, ItemSums, benchmarks_behind
from .measurements import ratio_values

OTHERS = {"serving": "measurement", mask_diffs.SLUG: "masks"}  # benchmark -> its file
WINDOWS = ("gptq2048", "gptq2048+bos", "documents")  # whose perplexity follows from the records


def files_of(sheet: RunSheet, point: Checkpoint, quantity: Quantity) -> dict[str, Any]:
    """Return the files behind a number of one checkpoint, by what they are.

    A benchmark's are compared with their checksums. Raises UserError for one that is not as it was
    written.
    """
    entry, slug, model = sheet.files[point], quantity.benchmark, Paths(sheet.config).folder(point)
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
    elif slug in OTHERS:
        files[OTHERS[slug]] = entry[slug]
    files["checkpoint"] = model
    if not point.is_base:
        files |= {name: f"{model}/{name}.json" for name in ("manifest", "provenance")}
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
    sheet: RunSheet, point: Checkpoint, quantity: Quantity, files: dict[str, Any]
) -> float | None:
    """Return a number computed again from records, None where it is no function of them alone.

    Raises UserError for records of another form.
    """
    slug, metric, _ = quantity
    sums = ItemSums(sheet)
    if slug in sheet.config.benchmarks:
        task, records = sheet.config.benchmarks[slug].task, sums.records(point, quantity)
        measure = MEASURES.get((task, metric))
        if not records or measure is None:
            return None
        form = f"records that {metric} can be computed from"
        with expected_form(form, files["items"], "evaluate again"):
            if task == "perplexity" and records[0].get("category", WINDOWS[0]) not in WINDOWS:
                return None
            return measure.value(records)
    if slug == DTO.benchmark:
        distance = sums.of(point, quantity)
        return distance.value if distance else None
    masks = slug == mask_diffs.SLUG
    found = mask_diffs.mask_values(Path(files["masks"])) if masks else ratio_values(sheet, point)
    return found[quantity].value if quantity in found else None
