"""Energy of a region of code, read by CodeCarbon's offline tracker.

The offline tracker never asks the network (the online one locates the host through three
outside services). Every figure says whether a counter was read (``measured``: NVML for a
GPU, RAPL for a CPU) or a model was used (``estimated``: CPU load times assumed power, RAM).
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..io.gpu import first_visible

JOULES_PER_KWH = 3.6e6
COMPONENTS = ("cpu", "gpu", "ram")
# Used only when a tracker gives no reading at all, always labelled as an estimate. CPU: the
# constant CodeCarbon falls back on (half of 85 W). GPU: the constant power that the paper's
# CO2 column implies.
ASSUMED_WATTS = {"cpu": 42.5, "gpu": 300.0}


@dataclass(frozen=True)
class Reading:
    """Energy of ``calls`` calls: joules per component, seconds, and how each was obtained."""

    seconds: float
    joules: dict[str, float]
    sources: dict[str, str] = field(default_factory=dict)  # component -> measured | estimated
    methods: dict[str, str] = field(default_factory=dict)  # component -> one phrase
    calls: int = 1

    def scope(self, device: str) -> tuple[str, ...]:
        """Return the components of the headline figure for ``device`` ("cpu" or "cuda").

        The device's own counter alone where there is one; else CPU and RAM by model.
        """
        own = "gpu" if device == "cuda" else "cpu"
        if device == "cuda" or self.sources.get(own) == "measured":
            return (own,)
        return tuple(name for name in ("cpu", "ram") if name in self.joules)

    def total(self, scope: tuple[str, ...] | None = None) -> float:
        """Return joules summed over ``scope``, by default over the whole machine."""
        return sum(self.joules[name] for name in (scope or self.joules))

    def source(self, scope: tuple[str, ...]) -> str:
        """Return "measured" if every component of ``scope`` was read from a counter."""
        measured = all(self.sources.get(name) == "measured" for name in scope)
        return "measured" if measured else "estimated"


def complete(
    seconds: float, joules: dict[str, float], cpu_mode: str | None, device: str, gpus: int = 1
) -> Reading:
    """Label raw component energies and replace a missing one by a stated estimate.

    ``joules`` holds what the tracker gave for cpu, gpu (all ``gpus`` of them) and ram; ``cpu_mode``
    is CodeCarbon's name for the way the CPU was read. The component that does the work is never
    left at zero.
    """
    found = {name: joules[name] for name in COMPONENTS if joules.get(name, 0.0) > 0}
    own, of = "gpu" if device == "cuda" else "cpu", f" of {gpus} GPUs" if gpus > 1 else ""
    model = (cpu_mode or "model").replace("_", " ")
    how = {
        "cpu": ("estimated", f"CodeCarbon {model} estimate"),
        "gpu": ("measured", f"NVML energy counter{of}"),
        "ram": ("estimated", "CodeCarbon RAM power model"),
    }
    if cpu_mode == "intel_rapl":
        how["cpu"] = ("measured", "RAPL energy counter")
    if own not in found:
        watts = ASSUMED_WATTS[own] * (gpus if own == "gpu" else 1)
        found[own] = watts * seconds
        how[own] = ("estimated", f"no readings on this machine: constant {watts:g} W assumed")
    sources, methods = ({name: how[name][k] for name in found} for k in (0, 1))
    return Reading(seconds, found, sources, methods)


class EnergyMeter:
    """Measures regions one after another; nothing is written and nothing is asked outside.

    ``gpus``: over how many GPUs the model is spread, the first of those that this process sees.
    """

    def __init__(self, device: str, intensity: float, gpus: int = 1) -> None:
        self.device, self.gpus = device, gpus
        from codecarbon import OfflineEmissionsTracker
        from codecarbon.external.logger import set_logger_level

        # The constructor logs before it reads its own log_level.
        set_logger_level("error")
        self.tracker: Any = OfflineEmissionsTracker(
            country_iso_code="FRA",  # asked for, but the intensity below is what counts
            force_carbon_intensity_g_co2e_kwh=intensity * 1000,
            gpu_ids=first_visible(gpus) if device == "cuda" else [],
            tracking_mode="machine",
            measure_power_secs=1,
            pue=1.0,
            # Explicit, so that a .codecarbon.config or the environment cannot add outputs.
            output_methods=[],
            emissions_endpoint=False,
            electricitymaps_api_token="",
            log_level="error",
        )
        logging.getLogger("codecarbon").propagate = False

    def measure(self, region: Callable[[], Any]) -> Reading:
        """Run ``region`` once and return its energy, measured or estimated."""
        name = f"region-{time.monotonic_ns()}"
        self.tracker.start_task(name)
        start = time.perf_counter()
        region()
        seconds = time.perf_counter() - start
        data = self.tracker.stop_task(name)
        joules = {
            component: getattr(data, f"{component}_energy", 0.0) * JOULES_PER_KWH
            for component in COMPONENTS
        }
        # How CodeCarbon reads the CPU (``intel_rapl``, ``cpu_load`` ...); it has no public name.
        own = (one for one in self.tracker._hardware if type(one).__name__ == "CPU")
        mode = next((one._mode for one in own), None)
        return complete(seconds, joules, mode, self.device, self.gpus)

    def close(self) -> None:
        """Stop the tracker's threads."""
        self.tracker.stop()
