"""What commands take where no data are given: the models of the catalogue by name, the benchmarks
and the calibration of the default configuration. What is missing is fetched."""

import sys
from pathlib import Path

from ..config.benchmark_keys import Benchmark
from ..config.checks import WORLD_MODEL
from ..config.config import Config, default_config
from ..config.tasks import TASKS
from ..io.checksums import read_sealed
from ..io.codedigest import code_digest
from ..io.errors import UserError, nearest
from ..io.files import digest
from ..models.identity import tokenizer_digest
from . import build_calibration
from .packages import cache_path
from .sources import resolve_source

# Files of pairs and of texts, None where there are no texts.
Calibrated = tuple[Path, Path | None]


def catalogue_model(name: str) -> Path | None:
    """Return the folder of a model that the catalogue names; None for another name.

    Raises UserError where it cannot be had.
    """
    config = default_config()
    if name not in config.models or name == WORLD_MODEL:
        return None
    entry = config.models[name].model_dump()
    found = resolve_source("models", name, entry, mirror=config.mirror, lock_path=config.lock)
    return Path(found["folder"])


def similar_models(text: str) -> str:
    """Return "; did you mean …?" with names and hub ids of the catalogue like an unknown one."""
    models = {k: one for k, one in default_config().models.items() if k != WORLD_MODEL}
    names = [*models, *(one.hub for one in models.values() if one.hub)]
    return "" if text in names else nearest(text, names) or nearest(text.lower(), names)


def dataset_folder(config: Config, name: str) -> Path:
    """Return the folder or file of a data set of a configuration; UserError where it is nowhere."""
    entry = config.datasets[name].model_dump()
    record = resolve_source("data", name, entry, mirror=config.mirror, lock_path=config.lock)
    folder = Path(record["folder"])
    return folder / record["file"] if "file" in record else folder


def default_benchmark(task: str) -> tuple[Benchmark, Path]:
    """Return the benchmark of a task in the default configuration, else of the data set of the
    catalogue that is called like the task, and its data.

    Raises UserError where there is none, or its data cannot be had.
    """
    config = default_config()
    named = [Benchmark(task=name, dataset=name) for name in TASKS if name in config.datasets]
    entries = [*named, *reversed(config.benchmarks.values())]
    # The last of a task wins: the first of the default configuration, where it has one.
    known = {one.task: (one, one.dataset) for one in entries if one.dataset}
    if task not in known:
        raise UserError(
            f"the benchmark {task} needs its data: give --data (the catalogue has data for "
            f"{', '.join(sorted(known))})"
        )
    entry, dataset = known[task]
    return entry, dataset_folder(config, dataset)


def default_calibration(
    model: Path, name: str | None, alignment: str, seed: int, bos: str = "auto"
) -> Calibrated:
    """Return the files of pairs and texts of a calibration of the catalogue, for a tokenizer.

    ``name`` is by default the first one that the default configuration uses. The files are made
    unless they are there. Raises UserError for an unknown name.
    """
    config = default_config()
    used = next(iter(config.experiments.values())).calibrations
    name = name or used[0]
    if name not in config.calibrations:
        raise UserError(
            f"expected a calibration of the catalogue ({', '.join(config.calibrations)}), "
            f"got {name!r}"
        )
    entry = config.calibrations[name]
    entry = entry.model_copy(update={"alignment": entry.alignment or alignment})
    pairs = [dataset_folder(config, source) for source in entry.pairs]
    texts = dataset_folder(config, entry.texts) if entry.texts else None
    made_of = [entry.model_dump(), *map(str, [*pairs, texts]), bos, seed, name]
    made_of += [tokenizer_digest(model)]
    code = code_digest(f"{__package__}.build_calibration")
    folder = cache_path("calibrations", f"{name}-{digest([*made_of, code])}")
    if not (folder / "manifest.json").is_file():
        build_calibration.build_calibration(
            model, entry, pairs, texts, folder, bos=bos, seed=seed, name=name
        )
    print(f"calibration {name} of the catalogue, in {folder}", file=sys.stderr)
    remedy = f"remove {folder} and run the same command again"
    kept = read_sealed(folder / "manifest.json", remedy)["texts"]["kept"]
    return folder / "pairs.jsonl", folder / "texts.jsonl" if kept else None
