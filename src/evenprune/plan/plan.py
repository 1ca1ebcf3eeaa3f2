"""Say how much disk and time a run still needs: the checkpoints, and the hours of the long jobs.

Times are those that finished jobs recorded, of this run and of those of --rates, on the same kind
of device: of the same output, else in proportion to the operations of the forward passes. A kind of
job that was never measured has no time; --flops-per-second gives a floor for it.
"""

import argparse
import json
import os
import shutil
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from ..base.marks import objection, read_mark
from ..base.progress import format_seconds
from ..base.provenance import FINISHED, read_record, record_folder
from . import grids
from .config import CATALOGUE, DEFAULT, Config, load_config, read_yaml
from .flops import Job, long_jobs
from .paths import Paths
from .sizes import ModelSize, model_size, read_given

# Beside the models: evaluations' records, calibration, tables. Small, but never nothing.
SPARE = 1.02
MEASURED, SCALED, FLOOR, UNKNOWN = "measured", "scaled", "floor", "unknown"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("--configfile", type=Path, default=DEFAULT, metavar="FILE")
    add("--catalogue", type=Path, default=CATALOGUE, metavar="FILE")
    add("--results", metavar="DIR", help="in place of the configuration's results")
    add("--rates", type=Path, nargs="+", default=[], metavar="DIR",
        help="results of further runs whose times count")  # fmt: skip
    add("--whole", action="store_true", help="the whole run, also what is done already")
    add("--parameters", nargs="+", default=[], metavar="MODEL=COUNT",
        help="parameters of models whose size nothing tells")  # fmt: skip
    add("--flops-per-second", type=float, metavar="R",
        help="assumed rate of one device, for a floor where nothing was measured")  # fmt: skip
    add("--json", action="store_true")


def run(args: argparse.Namespace) -> None:
    """Print the plan."""
    for folder in args.rates:
        if not folder.is_dir():
            raise UserError(f"expected the results of a run at --rates {folder}; check the path")
    paths = Paths(read_config(args.configfile, args.catalogue, args.results))
    sizes = model_sizes(paths, args.parameters)
    about = plan(paths, sizes, args.rates, args.flops_per_second, args.whole)
    print(json.dumps(about, indent=1) if args.json else _text(args.configfile, about))


def read_config(configfile: Path, catalogue: Path, results: str | None = None) -> Config:
    """Return the configuration of a file as Snakemake reads it; UserError where it is no good."""
    given = read_yaml(configfile)
    if results is not None:
        given["results"] = results
    return load_config(given, DEFAULT, catalogue)


def model_sizes(paths: Paths, parameters: Iterable[str] = ()) -> dict[str, ModelSize]:
    """Return the size of each model of the run; ``parameters`` are texts ``NAME=COUNT``."""
    given = read_given(list(parameters), list(paths.config.models))
    return {name: model_size(paths, name, given) for name in grids.needed_models(paths.config)}


def plan(
    paths: Paths,
    sizes: Mapping[str, ModelSize],
    rates: Sequence[Path] = (),
    flops_per_second: float | None = None,
    whole: bool = False,
) -> dict[str, Any]:
    """Return what of a run is left, or the ``whole`` of it: jobs, seconds, disk."""
    results = Path(paths.results)
    jobs = long_jobs(paths, sizes)
    left = [job for job in jobs if whole or not _is_done(results / job.out)]
    measured = _measured(jobs, [results, *rates], paths.config.device != "cpu")
    outputs = {f"{results}/{job.out}" for job in left}
    outputs |= {one for one in map(paths.model, sizes) if whole or not Path(one).exists()}
    kinds: dict[str, dict[str, Any]] = {}
    for job in left:
        seconds, basis = _time(job, jobs, measured, flops_per_second)
        row = kinds.setdefault(job.kind, {"jobs": 0, "flops": 0.0, "seconds": 0.0, "basis": {}})
        row["jobs"] += 1
        row["flops"] += job.flops
        row["seconds"] += seconds
        row["basis"][basis] = row["basis"].get(basis, 0) + 1
    return {
        "results": paths.results,
        "device": paths.config.device,
        "kinds": kinds,
        "seconds": sum(row["seconds"] for row in kinds.values()),
        "unknown": sum(row["basis"].get(UNKNOWN, 0) for row in kinds.values()),
        "disk_needed_bytes": round(needed_bytes(paths, sizes, outputs)),
        "disk_free_bytes": free_bytes(results),
        "sizes": {name: [size.parameters, size.basis] for name, size in sizes.items()},
    }


def _is_done(out: Path) -> bool:
    """Return whether a job's output is there; an evaluation's folder is before it is done."""
    return out.exists() and ("evals" not in out.parts[-6:] or (out / "summary.json").exists())


def _measured(jobs: Iterable[Job], runs: Iterable[Path], on_gpu: bool) -> dict[str, float]:
    """Return output -> mean seconds of the jobs that ran from start to end on such a device."""
    found: dict[str, list[float]] = {}
    for folder in dict.fromkeys(run.resolve() for run in runs):
        for job in jobs:
            record = read_record(record_folder(folder, folder / job.out) / FINISHED) or {}
            own = job.kind == "export" or bool(record.get("gpu")) == on_gpu
            if own and "seconds" in record and not record.get("resumed"):
                found.setdefault(job.out, []).append(float(record["seconds"]))
    return {out: statistics.mean(seconds) for out, seconds in found.items()}


def _time(
    job: Job, jobs: Iterable[Job], measured: Mapping[str, float], rate: float | None
) -> tuple[float, str]:
    """Return the seconds of a job and how they are known."""
    if job.out in measured:
        return measured[job.out], MEASURED
    alike = [one for one in jobs if one.kind == job.kind and one.out in measured]
    seconds = sum(measured[one.out] for one in alike)
    if sum(one.flops for one in alike):
        return seconds * job.flops / sum(one.flops for one in alike), SCALED
    if alike:
        return seconds / len(alike), SCALED
    return (job.flops / rate, FLOOR) if rate else (0.0, UNKNOWN)


# Disk


def gigabytes(size: float) -> str:
    """Return bytes as text, in GB or MB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def free_bytes(folder: Path) -> int:
    """Return what is free where a folder is or will be made; quotas are not seen here."""
    place = Path(os.path.abspath(folder))
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def needed_bytes(paths: Paths, sizes: Mapping[str, ModelSize], outputs: Collection[str]) -> float:
    """Return the bytes of the models among the outputs of jobs to come.

    With ``keep: evals`` those of the two largest checkpoints, one and the one that its masks are
    compared with: a floor. A model whose size is unknown counts nothing.
    """
    made = [job.makes for job in long_jobs(paths, sizes) if f"{paths.results}/{job.out}" in outputs]
    if paths.config.keep == "evals":
        made = sorted(made)[-2:]
    models = paths.config.models
    fetched = [
        size.bytes
        for name, size in sizes.items()
        if paths.model(name) in outputs
        and models[name].hub
        and not paths.config.mirror
        and not models[name].path
    ]
    return (sum(made) + sum(fetched)) * SPARE


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
        if mark and (reason := objection(folder, mark["kind"], ())):
            raise UserError(f"{folder} {reason}")


def check_disk(paths: Paths, outputs: Collection[str]) -> None:
    """Raise UserError where the models among ``outputs`` do not fit on the disk."""
    sizes = model_sizes(paths)
    needed, free = needed_bytes(paths, sizes, outputs), free_bytes(Path(paths.results))
    if needed <= free:
        return
    unsure = ", sizes by the models' names" if "name" in {s.basis for s in sizes.values()} else ""
    advice = "put results on a larger disk (results: or a link)"
    if paths.config.keep == "checkpoints":
        advice += ", delete checkpoints after their last use (keep: evals)"
    raise UserError(
        f"expected {gigabytes(needed)} of free disk for the models that this run still writes"
        f"{unsure}, got {gigabytes(free)} at {os.path.abspath(paths.results)}; {advice}, or go on "
        "anyway with check_disk: false"
    )


def _text(configfile: Path, about: Mapping[str, Any]) -> str:
    lines = [f"{configfile}: long jobs to do on {about['device']} (all: snakemake -n)"]
    for kind, row in about["kinds"].items():
        known = Counter(row["basis"])
        time = "time unknown" if known[UNKNOWN] else format_seconds(row["seconds"])
        how = ", ".join(f"{count} {basis}" for basis, count in known.items())
        lines.append(f"  {row['jobs']} {kind}: {row['flops']:.2g} FLOP, {time} ({how})")
    if about["unknown"]:
        lines.append(
            f"{about['unknown']} jobs are of a kind that was never measured on this device: run "
            "some of them, or give --flops-per-second for a floor"
        )
    lines.append(f"one after the other: {format_seconds(about['seconds'])}")
    for basis, words in (("unknown", "size unknown (give --parameters NAME=COUNT)"),
                         ("name", "size by the name alone")):  # fmt: skip
        named = [name for name, (_, known) in about["sizes"].items() if known == basis]
        if named:
            lines.append(f"{words}: {', '.join(named)}")
    needed, free = (gigabytes(about[f"disk_{one}_bytes"]) for one in ("needed", "free"))
    lines.append(f"disk for models: {needed} in {about['results']}, of {free} that are free")
    return "\n".join(lines)
