"""What differs from run to run: times, host, versions. Nothing downstream depends on it."""

import contextlib
import platform
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import torch
import transformers

from .. import __version__
from ..blocks.base_model import BaseModel
from ..io.provenance import machine


class Stopwatch:
    """Adds up the wall seconds of named phases; a phase within another counts once.

    On a GPU the marks are events among its work, read when the seconds are asked for, so that the
    host never waits for a phase to end.
    """

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.marks: list[tuple[str | None, Any]] = []
        self.open: list[str | None] = [None]

    def _mark(self) -> None:
        """Note that what runs from now on belongs to the phase that was opened last, or none."""
        mark: Any = time.monotonic()
        if self.device.type == "cuda":
            mark = torch.cuda.Event(enable_timing=True)
            mark.record(torch.cuda.current_stream(self.device))
        self.marks.append((self.open[-1], mark))

    @contextlib.contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Time what is done inside, without the phases inside it."""
        self.open.append(phase)
        self._mark()
        try:
            yield
        finally:
            self.open.pop()
            self._mark()

    def take(self) -> dict[str, float]:
        """Return the seconds of each phase since the last call; waits for a GPU."""
        cuda = self.device.type == "cuda"
        if cuda and len(self.marks) > 1:
            self.marks[-1][1].synchronize()
        seconds: dict[str, float] = {}
        for (phase, start), (_, end) in pairwise(self.marks):
            if phase is not None:
                spent = start.elapsed_time(end) / 1000 if cuda else end - start
                seconds[phase] = seconds.get(phase, 0.0) + spent
        del self.marks[:-1]
        return {phase: round(value, 4) for phase, value in seconds.items()}


def provenance(base: BaseModel, records: list[dict], seconds: float) -> dict[str, Any]:
    """Return the entry for provenance.json. ``seconds`` is the wall time of this process."""
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        **machine(base.device),
        "compute_dtype": str(base.compute_dtype).removeprefix("torch."),
        "attention": records[1]["attention"],  # eager for short rows without AMX
        "seconds": round(seconds, 3),
        "blocks": [
            {"seconds": round(record["seconds"], 3), "phases": record["phases"]}
            for record in records[1:]
        ],
        "versions": {
            "evenprune": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    }
