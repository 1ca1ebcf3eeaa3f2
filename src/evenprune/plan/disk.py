"""Whether the results of a run fit on the disk that they go to."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ..base.errors import UserError
from .schedule import simulate
from .work import Graph, Job

# Beside the models: evaluations' records, calibration, tables. Small, but never nothing.
SPARE = 1.02


def gigabytes(size: float) -> str:
    """Return bytes as text, in GB or MB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def free_bytes(folder: Path) -> int:
    """Return what is free where a folder is or will be made; quotas are not seen here."""
    place = Path(os.path.abspath(folder))
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def bytes_of(folder: Path) -> int:
    """Return the bytes of all files in a folder, links not followed."""
    total = 0
    for root, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(root, name)).st_size
            except OSError:  # removed meanwhile
                continue
    return total


def needed_bytes(jobs: Mapping[str, Job], cores: int, gpus: int) -> float:
    """Return the bytes that jobs need at their fullest, when so many run at a time.

    Raises ValueError where a job asks for more GPUs than ``gpus``.
    """
    return simulate(jobs, dict.fromkeys(jobs, 1.0), cores, gpus).peak_bytes * SPARE


def check_disk(graph: Graph, jobs: Mapping[str, Job], cores: int, gpus: int | None = None) -> None:
    """Raise UserError where what ``jobs`` of a run write for models does not fit.

    A model whose size is unknown counts nothing. ``gpus``: how many jobs' GPUs there are; None: for
    as many jobs as cores.
    """
    results = Path(graph.config.results)
    each = max((job.gpus for job in jobs.values()), default=0)
    most = each * cores if gpus is None else max(gpus, each)
    needed, free = needed_bytes(jobs, cores, most), free_bytes(results)
    if needed <= free:
        return
    unsure = ", sizes by the models' names" if "name" in _bases(graph) else ""
    advice = "put results on a larger disk (results: or a link)"
    if graph.config.keep == "checkpoints":
        advice += ", delete checkpoints after their last use (keep: evals)"
    raise UserError(
        f"expected {gigabytes(needed)} of free disk for the models that this run still writes"
        f"{unsure}, got {gigabytes(free)} at {os.path.abspath(results)}; {advice}, or go on anyway "
        "with check_disk: false"
    )


def _bases(graph: Graph) -> set[str]:
    return {size.basis for size in graph.sizes.values()}
