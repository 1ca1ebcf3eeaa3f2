"""What a step of a run took: times, host and memory, in a provenance.json of its own.

A step whose output lies in the results of the workflow (a folder with ``.provenance``) leaves
``<results>/.provenance/<output>/``:

- ``begun.json`` until it has finished.
- ``provenance.json`` once it has: seconds, CPU seconds, peak memory, machine.

``evenprune plan`` reads these. Nothing that a run makes depends on them,
and a step never fails because of them.
"""

import contextlib
import os
import platform
import resource
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, NonNegativeFloat

from .. import __version__
from .files import write_json

FOLDER = ".provenance"
BEGUN, FINISHED = "begun.json", "provenance.json"


def run_of(out: Path | str) -> Path | None:
    """Return the results folder that an output belongs to, None outside of one."""
    path = Path(os.path.abspath(out))
    return next((folder for folder in path.parents if (folder / FOLDER).is_dir()), None)


def record_folder(results: Path, out: Path | str) -> Path:
    """Return where the records of the step that makes ``out`` lie; ``out`` below ``results``."""
    inside = os.path.relpath(os.path.abspath(out), os.path.abspath(results))
    return results / FOLDER / inside


def machine(device: str | None) -> dict[str, Any]:
    """Return host, device and threads, as this process sees them."""
    torch = sys.modules.get("torch")
    on_gpu = torch and (device or "").startswith("cuda") and torch.cuda.is_available()
    return {
        "host": platform.node(),
        "device": device or "cpu",
        "gpu": torch.cuda.get_device_name() if torch and on_gpu else None,
        "threads": torch.get_num_threads() if torch else None,
        "cpus": os.cpu_count(),
    }


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of those that it has waited for."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(one) for one in whose]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Record(BaseModel):
    """What is read of a record of a finished step."""

    model_config = ConfigDict(strict=True)

    device: str = "cpu"
    gpu: str | None = None
    seconds: NonNegativeFloat | None = None
    resumed: bool = False


def read_record(path: Path) -> Record | None:
    """Return a record, None where there is none, it is half-written or has another form."""
    try:
        return Record.model_validate_json(path.read_bytes()) if path.is_file() else None
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def recorded(command: str, out: Any, device: str | None = None) -> Iterator[None]:
    """Record the step that is done inside.

    Does nothing where ``out`` is no path in results of the workflow. What cannot be recorded (a
    full disk) stops no step.
    """
    results = run_of(out) if isinstance(out, str | Path) else None
    if results is None:
        yield
        return
    import psutil

    folder = record_folder(results, out)
    began = psutil.Process().create_time()
    about: dict[str, Any] = {"command": command, "started": _moment(began)}
    resumed = (folder / BEGUN).exists()
    with contextlib.suppress(Exception):
        write_json(folder / BEGUN, about)
    yield
    record = about | {
        "finished": _moment(time.time()),
        "seconds": round(time.time() - began, 3),
        "cpu_seconds": round(cpu_seconds(), 3),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        # What it took is then no measure of the whole.
        "resumed": resumed,
        "version": __version__,
        **machine(device),
    }
    with contextlib.suppress(Exception):
        write_json(folder / FINISHED, record)
        (folder / BEGUN).unlink()


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
