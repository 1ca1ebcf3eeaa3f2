"""What jobs took in runs that are finished, and what that says about jobs to come.

A time is looked up by the output that the job makes, then scaled from jobs of the same kind, then
of the same rule, on the same device. Nothing is known of a device that was never measured.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from ..base.provenance import FINISHED, FOLDER, read_record
from .paths import Paths
from .run_sheet import read_run_sheet
from .work import Graph, Job, Part

# How a time is known, the best first. ``overhead`` of a job that leaves no record.
MEASURED, SCALED, FLOOR, UNMEASURED = "measured", "scaled", "floor", "unmeasured"
FAR = 10.0  # beyond so many times the work that was measured, a scaled time is named as far


@dataclass(frozen=True)
class Sample:
    """A finished job: what it did and the seconds that it took."""

    kind: str
    rule: str
    out: str
    device: str
    work: float
    seconds: float
    cpu_seconds: float
    run: Path
    items: float = 1.0


@dataclass(frozen=True)
class Time:
    """Seconds of a job to come; ``basis`` is one of the words above, ``stretch`` how many times the
    measured work it is."""

    seconds: float
    cpu_seconds: float
    basis: str
    stretch: float = 1.0


def device_of(record: Mapping[str, Any]) -> str:
    """Return the name that a device's times are kept under: a GPU's own, else ``cpu``."""
    return str(record.get("gpu") or "cpu")


class Rates:
    """Times of finished jobs, from the records of any number of runs."""

    def __init__(self, jobs: Iterable[Sample], parts: Iterable[Sample], pause: float) -> None:
        self.jobs, self.parts, self.pause = list(jobs), list(parts), pause

    def devices(self) -> list[str]:
        """Return the devices that evaluations or pruning were measured on, the most first."""
        names = [one.device for one in self.parts] + [
            one.device for one in self.jobs if one.rule.startswith("prune")
        ]
        return sorted(set(names), key=lambda name: (-names.count(name), name))

    def time(self, job: Job, device: str) -> Time:
        """Return what a job will take; ``device`` is that of pruning and evaluation."""
        where = device if job.on_device else "cpu"
        own = [one for one in self.jobs if one.device == where]
        exact = [one for one in own if one.out == job.out and one.kind == job.kind]
        if job.parts and exact:
            # Options may have changed, and benchmarks: each is looked up by itself.
            return self._evaluation(job, where, exact)
        if exact:
            near = [one for one in exact if 0.99 < one.work / job.work < 1.01]
            return _mean(near, MEASURED) if near else _scaled(exact, job.work)
        if job.parts:
            return self._evaluation(job, where, [one for one in own if one.rule == job.rule])
        same = [one for one in own if one.kind == job.kind]
        same = same or [one for one in own if one.rule == job.rule]
        return _scaled(same, job.work) if same else Time(0.0, 0.0, UNMEASURED)

    def _evaluation(self, job: Job, device: str, like: Sequence[Sample]) -> Time:
        """Return the sum over an evaluation's benchmarks, and what the rest of such a job takes."""
        times = [self._part(job, part, device) for part in job.parts]
        if any(one.basis == UNMEASURED for one in times) or not like:
            return Time(0.0, 0.0, UNMEASURED)
        wall, cpu = zip(*(self._besides(one) for one in like))
        seconds = sum(one.seconds for one in times) + statistics.mean(wall)
        cpu_seconds = sum(one.cpu_seconds for one in times) + statistics.mean(cpu)
        worst = max(times, key=lambda one: (one.basis != MEASURED, one.stretch))
        return Time(seconds, cpu_seconds, worst.basis, worst.stretch)

    def _besides(self, whole: Sample) -> tuple[float, float]:
        """Return the seconds of an evaluation outside its benchmarks, and the CPU seconds."""
        parts = [
            one
            for one in self.parts
            if one.run == whole.run and one.out.startswith(f"{whole.out}/")
        ]
        return (
            max(whole.seconds - sum(one.seconds for one in parts), 0.0),
            max(whole.cpu_seconds - sum(one.cpu_seconds for one in parts), 0.0),
        )

    def _part(self, job: Job, part: Part, device: str) -> Time:
        own = [one for one in self.parts if one.device == device and one.kind == part.kind]
        exact = [one for one in own if one.out == f"{job.out}/{part.slug}"]
        if exact:
            return _mean(exact, MEASURED)
        if own:
            return _scaled(own, part.parameters)
        # Other items, or another number of them: in proportion to both.
        alike = [
            replace(one, work=one.work * one.items)
            for one in self.parts
            if one.device == device and one.rule == part.task
        ]
        work = part.parameters * part.items
        return _scaled(alike, work) if alike else Time(0.0, 0.0, UNMEASURED)


def _mean(samples: Sequence[Sample], basis: str) -> Time:
    """Return the mean of measured times."""
    return Time(
        statistics.mean(one.seconds for one in samples),
        statistics.mean(one.cpu_seconds for one in samples),
        basis,
    )


def _scaled(samples: Sequence[Sample], work: float) -> Time:
    """Return the time of ``work`` by samples of the same kind.

    With samples of different work it is the line through them (least squares, neither end below
    zero), else in proportion where there is more to do, and the measured time where there is less.
    """
    wall = _line([(one.work, one.seconds) for one in samples], work)
    cpu = _line([(one.work, one.cpu_seconds) for one in samples], work)
    largest = max(one.work for one in samples)
    return Time(wall, cpu, SCALED, max(work / largest, 1.0))


def _line(points: Sequence[tuple[float, float]], work: float) -> float:
    mean_x = statistics.mean(x for x, _ in points)
    mean_y = statistics.mean(y for _, y in points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if max(x for x, _ in points) > 1.5 * min(x for x, _ in points):
        slope = max(sum((x - mean_x) * (y - mean_y) for x, y in points) / spread, 0.0)
        start = mean_y - slope * mean_x
        if start >= 0:
            return start + slope * work
        # Through zero: no job takes less than none.
        return work * sum(x * y for x, y in points) / sum(x * x for x, _ in points)
    return mean_y * max(work / mean_x, 1.0)


def read_rates(graph: Graph, folders: Iterable[Path]) -> Rates:
    """Return the times in the records of runs, by their results folders.

    What a job had to do follows from the run sheet of its own run, or from ``graph`` where that has
    none yet; a job that neither knows is left out. So is one that went on behind an earlier one.
    """
    samples: list[Sample] = []
    parts: list[Sample] = []
    pauses: list[float] = []
    for folder in folders:
        own = list(_records(folder))
        pauses += _pauses([record for _, record in own])
        jobs = _jobs_of(folder) or graph.jobs
        for out, record in own:
            job = jobs.get(out)
            if job is None or record.get("resumed"):
                continue
            seconds, cpu = float(record["seconds"]), float(record["cpu_seconds"])
            device = device_of(record)
            about = (job.kind, job.rule, out, device, job.work)
            samples.append(Sample(*about, seconds, cpu, folder))
            parts += _parts(folder, job)
    return Rates(samples, parts, statistics.median(pauses) if pauses else 0.0)


def _jobs_of(folder: Path) -> Mapping[str, Job]:
    """Return the jobs of a run by its own run sheet; none where there is no good one."""
    try:
        config = read_run_sheet(folder / "run_sheet.json").config
    except UserError:
        return {}
    return Graph(Paths(config.model_copy(update={"results": str(folder)})), pdf=True).jobs


def _parts(folder: Path, job: Job) -> Iterator[Sample]:
    """Yield the benchmarks of an evaluation that were measured."""
    for part in job.parts:
        found = read_record(folder / job.out / part.slug / FINISHED)
        if found and not found.get("resumed") and {"seconds", "n"} <= set(found):
            out, seconds = f"{job.out}/{part.slug}", float(found["seconds"])
            about = (part.kind, part.task, out, device_of(found), part.parameters)
            cpu = float(found.get("cpu_seconds", seconds))
            yield Sample(*about, seconds, cpu, folder, float(found["n"]))


def _records(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (output below the results, record) of the finished steps of a run."""
    root = folder / FOLDER
    for path in sorted(root.rglob(FINISHED)):
        record = read_record(path)
        if record and {"seconds", "cpu_seconds", "started", "finished"} <= set(record):
            yield path.parent.relative_to(root).as_posix(), record


def _pauses(records: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the seconds between a step's start and the last end before it: what Snakemake needs
    from one job to the next."""
    spans = sorted((_seconds(one["started"]), _seconds(one["finished"])) for one in records)
    ends = sorted(end for _, end in spans)
    found = []
    for start, _ in spans:
        before = [end for end in ends if end <= start]
        if before and start - before[-1] < 30:
            found.append(start - before[-1])
    return found


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
