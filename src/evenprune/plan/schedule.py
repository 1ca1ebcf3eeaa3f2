"""When each job of a graph runs, on so many cores and GPUs: list scheduling, as Snakemake does it.

Whenever something becomes free, every job whose inputs are there and that fits is started, those
of higher priority first, else in the order of the graph.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from .work import Job


@dataclass(frozen=True)
class Schedule:
    """What comes out: the time from first start to last end, sums over jobs, the fullest disk."""

    makespan: float
    gpu_seconds: float
    core_seconds: float
    peak_bytes: float
    started: dict[str, float]
    finished: dict[str, float]


def simulate(
    jobs: Mapping[str, Job], seconds: Mapping[str, float], cores: int, gpus: int
) -> Schedule:
    """Return the schedule of ``jobs``, each taking ``seconds``; needs outside of them are met.

    A job that asks for more cores than there are gets all of them, as in Snakemake; ``threads`` 0
    asks for all. Raises ValueError where a job asks for more GPUs than there are, or the graph has
    a circle.
    """
    waits = {name: {need for need in job.needs if need in jobs} for name, job in jobs.items()}
    follows: dict[str, list[str]] = {name: [] for name in jobs}
    for name, needs in waits.items():
        for need in needs:
            follows[need].append(name)
    order = {name: place for place, name in enumerate(jobs)}
    ready = [name for name, needs in waits.items() if not needs]
    running: list[tuple[float, int, str]] = []
    started: dict[str, float] = {}
    finished: dict[str, float] = {}
    free_cores, free_gpus, now = cores, gpus, 0.0
    gpu_seconds = core_seconds = held = peak = 0.0
    while ready or running:
        for name in sorted(ready, key=lambda one: (-jobs[one].priority, order[one])):
            job, wanted = jobs[name], _cores(jobs[name], cores)
            if job.gpus > gpus:
                raise ValueError(f"{name} asks for {job.gpus} GPUs of {gpus}")
            if wanted > free_cores or job.gpus > free_gpus:
                continue
            ready.remove(name)
            free_cores, free_gpus = free_cores - wanted, free_gpus - job.gpus
            started[name] = now
            # What it makes takes room while it is made.
            held += max(job.makes, 0.0)
            peak = max(peak, held)
            gpu_seconds += job.gpus * seconds[name]
            core_seconds += wanted * seconds[name]
            heapq.heappush(running, (now + seconds[name], order[name], name))
        now, _, name = heapq.heappop(running)
        job = jobs[name]
        finished[name] = now
        free_cores, free_gpus = free_cores + _cores(job, cores), free_gpus + job.gpus
        held += min(job.makes, 0.0)
        for one in follows[name]:
            waits[one].discard(name)
            if not waits[one]:
                ready.append(one)
    if len(finished) < len(jobs):
        raise ValueError("the jobs wait for each other in a circle")
    return Schedule(now, gpu_seconds, core_seconds, peak, started, finished)


def _cores(job: Job, cores: int) -> int:
    return cores if job.threads == 0 else min(job.threads, cores)
