"""Say how much disk and time a run still needs: the checkpoints, and the hours of the long jobs.

Times are those that finished jobs of this run recorded on the same kind of device; else those of
its kind in finished runs (this one, the default one in results/, and --rates), in proportion to the
models' sizes. A kind of job that was never measured has no time.
"""

import argparse
import contextlib
import os
import re
import shutil
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..io.errors import UserError
from ..io.files import read_json
from ..io.marks import objection, read_mark
from ..io.progress import format_seconds
from ..io.provenance import FINISHED, read_record, record_folder
from ..io.yamlfile import read_yaml
from . import grids
from .config import CATALOGUE, DEFAULT, Config, load_config
from .job_options import mirror
from .paths import Paths
from .run_sheet import RUN_SHEET, read_run_sheet
from .section import listed

# Beside the models: evaluations' records, calibration, tables. Small, but never nothing.
SPARE = 1.02
# As in 3.8B or 135M, the size in words of a model whose files are not here.
_WORDS = re.compile(r"([0-9.]+) ?([BM])")
_ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "auto": 2}


Measured = Sequence[tuple["Job", float]]  # jobs of one results folder with their seconds


@dataclass(frozen=True)
class Job:
    """A job whose time counts: what it makes, below the results, and its model's bytes.

    Times of jobs of one ``kind`` are in proportion to these. ``makes``: bytes left on the disk.
    """

    kind: str
    out: str
    size: float
    makes: float = 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("--configfile", type=Path, default=DEFAULT, metavar="FILE")
    add("--catalogue", type=Path, default=CATALOGUE, metavar="FILE")
    add("--rates", type=Path, metavar="DIR", help="results of another run whose times count")
    add("--whole", action="store_true", help="the whole run, also what is done already")


def run(args: argparse.Namespace) -> None:
    """Print the plan."""
    if args.rates and not args.rates.is_dir():
        raise UserError(f"expected the results of a run at --rates {args.rates}; check the path")
    paths = Paths(load_config(read_yaml(args.configfile), DEFAULT, args.catalogue))
    default = Path(Config.model_fields["results"].default)
    folders = [Path(paths.results), *([args.rates] if args.rates else []), default]
    print(f"{args.configfile}: long jobs to do on {paths.config.device} (all: snakemake -n)")
    print("\n".join(plan(paths, folders, args.whole)))


def plan(paths: Paths, measured_in: Sequence[Path], whole: bool = False) -> list[str]:
    """Return what of a run is left, or the ``whole`` of it, in lines: jobs, seconds, disk."""
    results = Path(paths.results)
    left = [job for job in long_jobs(paths) if whole or not _is_done(results / job.out)]
    measured = [measured_seconds(paths, folder) for folder in dict.fromkeys(measured_in)]
    total, lines, unknown = 0.0, list[str](), 0
    for kind in dict.fromkeys(job.kind for job in left):
        mine = [job for job in left if job.kind == kind]
        times = [seconds(job, measured) for job in mine]
        known = Counter(basis for _, basis in times)
        spent = sum(one for one, _ in times)
        time = "time unknown" if known["unknown"] else format_seconds(spent)
        how = ", ".join(f"{count} {basis}" for basis, count in known.items())
        lines.append(f"  {len(mine)} {kind}: {time} ({how})")
        total, unknown = total + spent, unknown + known["unknown"]
    lines.append(f"one after the other: {format_seconds(total)}" if left else "nothing is left")
    if unknown:
        lines.append(
            f"and {unknown} jobs of a kind that was never measured on this device: run some of them"
        )
    models = grids.needed_models(paths.config)
    if unsized := [name for name in models if not model_bytes(paths, name)]:
        lines.append(f"size unknown (give params in their entries): {', '.join(unsized)}")
    outputs = {f"{results}/{job.out}" for job in left}
    outputs |= {one for one in map(paths.model, models) if whole or not Path(one).exists()}
    needed, free = gigabytes(needed_bytes(paths, outputs)), gigabytes(free_bytes(results))
    return [*lines, f"disk for models: {needed} in {results}, of {free} that are free"]


def _is_done(out: Path) -> bool:
    """Return whether a job's output is there; an evaluation's folder is before it is done."""
    return out.exists() and ("evals" not in out.parts[-6:] or (out / "summary.json").exists())


# Time


def long_jobs(paths: Paths) -> list[Job]:
    """Return the jobs that prune, export, evaluate and measure."""
    config, found = paths.config, []
    for point in paths.checkpoints:
        size = model_bytes(paths, point.model)
        if not point.is_base:
            kind = f"prune {grids.base_method(config, point.method)}, {point.calibration}"
            found.append(Job(kind, f"pruned/{point.key}/model", size, makes=size))
        kind = f"evaluate, {len(grids.benchmarks_of(config, point))} benchmarks"
        found.append(Job(kind, f"evals/{point.key}", size))
    served = grids.serving_checkpoints(config)
    for point in filter(paths.is_compressed, served):
        # Values of half the weights and two bits a place: 9/16 in half precision.
        size = model_bytes(paths, point.model)
        found.append(Job("export", f"exported/{point.key}", size, makes=size * 9 / 16))
    for model in dict.fromkeys(point.model for point in served):
        size = model_bytes(paths, model) * len(paths.served(model))
        found.append(Job("serve", f"serving/{model}/efficiency.json", size))
    return found


def measured_seconds(paths: Paths, folder: Path) -> Measured:
    """Return the jobs in a results folder that ran from start to end on the run's kind of device.

    What they computed says the folder's own run sheet, of another run than that of ``paths``.
    """
    found, on_gpu = list[tuple[Job, float]](), paths.config.device != "cpu"
    if folder != Path(paths.results):
        with contextlib.suppress(UserError):  # none there, or an older one
            config = read_run_sheet(folder / RUN_SHEET).config
            changes = {"results": str(folder), "mirror": paths.config.mirror}
            paths = Paths(config.model_copy(update=changes))
    for job in long_jobs(paths):
        record = read_record(record_folder(folder, folder / job.out) / FINISHED)
        if record is None or record.seconds is None or record.resumed:
            continue
        if job.kind == "export" or bool(record.gpu) == on_gpu:
            found.append((job, record.seconds))
    return found


def seconds(job: Job, measured: Sequence[Measured]) -> tuple[float, str]:
    """Return the seconds of a job and how they are known, by the first folder that knows it."""
    for found in measured:
        alike = [(one, spent) for one, spent in found if one.kind == job.kind]
        if same := [spent for one, spent in alike if one.out == job.out]:
            return same[0], "measured"
        if alike:
            spent, size = sum(spent for _, spent in alike), sum(one.size for one, _ in alike)
            return spent * job.size / size if size else spent / len(alike), "scaled"
    return 0.0, "unknown"


# Disk


def model_bytes(paths: Paths, name: str) -> float:
    """Return the bytes of a model: of its files, else by its ``params``; else 0."""
    entry, place = paths.config.models[name], Path(paths.model(name))
    try:
        record = read_json(place) if place.is_file() else {}
    except UserError:  # a broken record is told by the step that reads it
        record = {}
    mirrors = listed(mirror(paths.config)) or []
    folders = [Path(root, "models", entry.mirror or name) for root in mirrors]
    for folder in filter(None, [record.get("folder"), entry.path, *folders]):
        files = filter(Path.is_file, Path(folder).glob("*.safetensors"))
        if size := sum(one.stat().st_size for one in files):
            return float(size)
    words = _WORDS.fullmatch(entry.params or "")
    count = float(words[1]) * {"B": 1e9, "M": 1e6}[words[2]] if words else 0.0
    return count * _ITEM_BYTES[entry.dtype]


def gigabytes(size: float) -> str:
    """Return bytes as text, in GB or MB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def free_bytes(folder: Path) -> int:
    """Return what is free where a folder is or will be made; quotas are not seen here."""
    place = Path(os.path.abspath(folder))
    return shutil.disk_usage(next(one for one in (place, *place.parents) if one.exists())).free


def needed_bytes(paths: Paths, outputs: Collection[str]) -> float:
    """Return the bytes of the models among the outputs of jobs to come.

    With ``keep: evals`` those of the two largest checkpoints, one and the one that its masks are
    compared with: a floor. A model whose size is unknown counts nothing.
    """
    made = [job.makes for job in long_jobs(paths) if f"{paths.results}/{job.out}" in outputs]
    if paths.config.keep == "evals":
        made = sorted(made)[-2:]
    models, fetched = paths.config.models, 0.0
    for name in grids.needed_models(paths.config):
        entry = models[name]
        if paths.model(name) in outputs and entry.hub and not (paths.config.mirror or entry.path):
            fetched += model_bytes(paths, name)
    return (sum(made) + fetched) * SPARE


def check_before(paths: Paths, jobs: Collection[Any]) -> None:
    """Raise UserError for what must stop a run before its first job; ``jobs`` are Snakemake's.

    That is a disk too small for the models that they make, and files of the user's in a folder
    that Snakemake would delete: one that is made again or, with ``keep: evals``, one that is read.
    """
    made = {str(file) for job in jobs for file in job.output}
    if paths.config.check_disk:
        check_disk(paths, made)
    if paths.config.keep == "evals":
        made |= {str(file) for job in jobs for file in job.input}
    for folder in filter(Path.is_dir, map(Path, sorted(made))):
        mark = read_mark(folder)
        if mark and (reason := objection(folder, mark.kind)):
            raise UserError(f"{folder} {reason}")


def check_disk(paths: Paths, outputs: Collection[str]) -> None:
    """Raise UserError where the models among ``outputs`` do not fit on the disk."""
    needed, free = needed_bytes(paths, outputs), free_bytes(Path(paths.results))
    if needed > free:
        raise UserError(
            f"expected {gigabytes(needed)} of free disk for the models of this run, got "
            f"{gigabytes(free)} at {os.path.abspath(paths.results)}; put results on a larger disk, "
            "set keep: evals, or go on anyway with check_disk: false"
        )
