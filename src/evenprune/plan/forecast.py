"""How long a run takes, what it costs and how much disk it needs, as far as it is known."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.errors import UserError
from .rates import FAR, FLOOR, MEASURED, SCALED, UNMEASURED, Rates, Time
from .schedule import Schedule, simulate
from .work import Graph, Job

# Jobs that Snakemake does itself, or that are too short to be recorded.
UNRECORDED = ("write_run_sheet",)


@dataclass(frozen=True)
class Prices:
    """What the user knows of the machines: floating point operations a second of one GPU (or
    CPU, where that is the device), watts of one GPU in use, prices. None: not told."""

    flops: float | None = None
    gpu_watts: float | None = None
    node_watts: float | None = None
    per_gpu_hour: float | None = None
    per_kwh: float | None = None


@dataclass(frozen=True)
class Forecast:
    """The times of the jobs that are left, by name, and the device that they are of."""

    jobs: dict[str, Job]
    times: dict[str, Time]
    device: str
    pause: float

    def bases(self) -> Counter[str]:
        """Return how many jobs' times are known in which way."""
        return Counter(time.basis for time in self.times.values())

    def unmeasured(self) -> Counter[str]:
        """Return how many jobs of which kind were never measured on the device, nor estimated."""
        names = [name for name, time in self.times.items() if time.basis == UNMEASURED]
        return Counter(self.jobs[name].rule for name in names)

    def stretched(self) -> float:
        """Return by how much the farthest scaled job goes beyond what was measured."""
        return max((one.stretch for one in self.times.values() if one.basis == SCALED), default=1.0)

    def schedule(self, cores: int, gpus: int) -> Schedule:
        """Return when each job runs; what is unmeasured takes no time."""
        seconds = {name: time.seconds + self.pause for name, time in self.times.items()}
        return _simulated(self.jobs, seconds, cores, gpus)

    def cpu_schedule(self, cores: int, gpus: int) -> Schedule:
        """Return the schedule as if each job took its CPU seconds: a machine without other work."""
        seconds = {name: time.cpu_seconds + self.pause for name, time in self.times.items()}
        return _simulated(self.jobs, seconds, cores, gpus)

    def relative(self, cores: int, gpus: int) -> Schedule:
        """Return the schedule where a job takes its floating point operations: only proportions
        of such schedules mean anything."""
        return _simulated(
            self.jobs, {name: job.flops for name, job in self.jobs.items()}, cores, gpus
        )


def forecast(graph: Graph, rates: Rates, prices: Prices, whole: bool = False) -> Forecast:
    """Return the times of the jobs that are left, or of all (``whole``)."""
    chosen = graph.jobs if whole else graph.left()
    device = pick_device(graph, rates)
    times = {name: _time(job, rates, device, prices) for name, job in chosen.items()}
    return Forecast(chosen, times, device, rates.pause)


def pick_device(graph: Graph, rates: Rates) -> str:
    """Return the device that the run's configuration asks for: the GPU measured most, or ``cpu``.

    ``cuda`` where no GPU was measured.
    """
    if graph.config.device == "cpu":
        return "cpu"
    return next((name for name in rates.devices() if name != "cpu"), "cuda")


def _time(job: Job, rates: Rates, device: str, prices: Prices) -> Time:
    if job.rule in UNRECORDED:
        return Time(0.0, 0.0, MEASURED)
    found = rates.time(job, device)
    if found.basis == UNMEASURED and prices.flops and job.flops:
        seconds = job.flops / prices.flops
        return Time(seconds, seconds, FLOOR)
    return found


def _simulated(
    jobs: Mapping[str, Job], seconds: Mapping[str, float], cores: int, gpus: int
) -> Schedule:
    try:
        return simulate(jobs, seconds, cores, gpus)
    except ValueError as error:
        raise UserError(f"no plan: {error}; give more GPUs") from None


def costs(schedule: Schedule, prices: Prices) -> dict[str, float | None]:
    """Return energy in kWh and money of a schedule; None where a watt or a price was not told."""
    hours = schedule.gpu_seconds / 3600
    energy: float | None = None
    if prices.gpu_watts is not None or prices.node_watts is not None:
        watts = prices.gpu_watts or 0.0
        energy = (hours * watts + schedule.makespan / 3600 * (prices.node_watts or 0.0)) / 1000
    money: float | None = None
    if prices.per_gpu_hour is not None:
        money = hours * prices.per_gpu_hour
    if prices.per_kwh is not None and energy is not None:
        money = (money or 0.0) + energy * prices.per_kwh
    return {"energy_kwh": energy, "money": money}


def summary(found: Forecast, cores: int, gpus: int, prices: Prices) -> dict[str, Any]:
    """Return what a plan says of so many cores and GPUs.

    Seconds are None where a job's time is unknown: a sum without it would be no makespan. Under an
    assumed rate they are a floor, in which unmeasured jobs without products take no time.
    """
    known = not found.unmeasured() or prices.flops is not None
    schedule = found.schedule(cores, gpus)
    one = found.relative(cores, max(most_gpus(found), 1)).makespan
    row: dict[str, Any] = {
        "cores": cores,
        "gpus": gpus,
        "makespan_seconds": round(schedule.makespan, 1) if known else None,
        "cpu_makespan_seconds": None,
        "gpu_hours": round(schedule.gpu_seconds / 3600, 4) if known else None,
        "core_hours": round(schedule.core_seconds / 3600, 4) if known else None,
        "relative_makespan": None,
        "is_floor": FLOOR in found.bases(),
        "peak_disk_bytes": round(schedule.peak_bytes),
    }
    if known and found.device == "cpu":
        row["cpu_makespan_seconds"] = round(found.cpu_schedule(cores, gpus).makespan, 1)
    if one:
        row["relative_makespan"] = round(found.relative(cores, gpus).makespan / one, 4)
    return row | (costs(schedule, prices) if known else {"energy_kwh": None, "money": None})


def most_gpus(found: Forecast) -> int:
    """Return the most GPUs that one job asks for."""
    return max((job.gpus for job in found.jobs.values()), default=0)


def is_far(found: Forecast) -> bool:
    """Return whether times are scaled far beyond what was measured."""
    return found.stretched() > FAR
