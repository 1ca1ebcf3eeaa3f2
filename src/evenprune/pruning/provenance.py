"""What differs from run to run: times, host, versions. Nothing downstream depends on it."""

import contextlib
import os
import platform
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import torch
import transformers

from .. import __version__


class Stopwatch:
    """Adds up the wall seconds of named phases; a phase within another counts once."""

    def __init__(self, device: str) -> None:
        self.cuda = torch.device(device).type == "cuda"
        self.seconds: dict[str, float] = {}
        self.inner = 0.0

    def _now(self) -> float:
        if self.cuda:
            torch.cuda.synchronize()
        return time.monotonic()

    @contextlib.contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Time what is done inside, without the phases inside it."""
        outer, self.inner = self.inner, 0.0
        start = self._now()
        try:
            yield
        finally:
            total = self._now() - start
            self.seconds[phase] = self.seconds.get(phase, 0.0) + total - self.inner
            self.inner = outer + total

    def take(self) -> dict[str, float]:
        """Return the seconds of each phase since the last call."""
        seconds = {phase: round(value, 4) for phase, value in self.seconds.items()}
        self.seconds = {}
        return seconds


def provenance(device: str, records: list[dict], seconds: float) -> dict[str, Any]:
    """Return the entry for provenance.json. ``seconds`` is the wall time of this process."""
    gpu = torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else None
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "platform": platform.platform(),
        "device": device,
        "gpu": gpu,
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
        "seconds": round(seconds, 3),
        "blocks": [
            {
                "seconds": round(record["seconds"], 3),
                "phases": record["phases"],
                "solved": record["solved"],
            }
            for record in records[1:]
        ],
        "versions": {
            "evenprune": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    }
