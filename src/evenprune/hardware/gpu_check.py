"""Check on a GPU what was written without one: does it run, agree with the CPU, how fast is it?

Prunes a random model of a real shape (nothing is downloaded), compares its masks with
the CPU's, and times each phase. Writes gpu-check.json and gpu-check.md into --out: send both back.
Ten minutes or less; about 9 GB of disk below --work. With --device cpu it tries the program itself,
on a tiny model, in seconds.
"""

import argparse
import json
import platform
import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..io.codedigest import package_versions
from ..io.errors import UserError
from ..io.files import write_json, write_text
from ..io.gpu import claim_devices
from ..io.outputs import check_file, check_place
from ..io.pages import fill
from ..models.loading import limit_threads, pick_device
from . import trial

DATA_FILES = ("gpu_check.md.j2",)  # part of this module's code, see codedigest.py
TEMPLATE = Path(__file__).with_name(DATA_FILES[0])
NAMES = ("gpu-check.json", "gpu-check.md")
SIZES = {"cuda": "1b", "cpu": "tiny"}
DISK = {"1b": 9 << 30, "tiny": 64 << 20}  # bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gpu-check``."""
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="folder of the two files")
    add("--device", choices=("cuda", "cpu"), default="cuda",
        help="cuda: the shape of a Llama of 1.2 billion parameters; cpu: tiny (default: cuda)"
    )  # fmt: skip
    add("--work", type=Path, metavar="DIR", help="folder for temporary models (default: TMPDIR)")


def run(args: argparse.Namespace) -> None:
    """Check the place, run the steps, write both files."""
    check_place(args.out)
    for name in NAMES:
        check_file(args.out / name, keys=["gpu_check"])
    with claim_devices(pick_device(args.device), 1) as (device,), tempfile.TemporaryDirectory(
        prefix="evenprune-gpu-check-", dir=args.work
    ) as name:  # fmt: skip
        free, needed = shutil.disk_usage(name).free, DISK[SIZES[args.device]]
        if free < needed:
            raise UserError(
                f"expected {needed >> 20} MB of free disk for the models, found {free >> 20} MB at "
                f"{Path(name).parent}; name another folder with --work"
            )
        limit_threads()
        report = check(device, SIZES[args.device], Path(name))
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(args.out / NAMES[0], report)
    write_text(args.out / NAMES[1], page(report))
    print(f"{args.out / NAMES[0]} and {args.out / NAMES[1]} are written: please send both back")


def check(device: str, size: str, work: Path) -> dict[str, Any]:
    """Run all steps on ``cpu`` or ``cuda:N``; return what was found, for the JSON file."""
    if torch.device(device).type == "cuda":
        torch.cuda.set_device(device)  # what is measured without a name of a device is here
    torch.set_float32_matmul_precision("highest")
    began = time.monotonic()
    return {
        "gpu_check": 1,
        "size": size,
        "masks": trial.compared(trial.TRIALS[size], device, work),
        "pruning": trial.timed(trial.TRIALS[size], device, work),
        "system": system(device),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": time.monotonic() - began,
    }


def system(device: str) -> dict[str, Any]:
    """Return what the run was on: device, versions, processor."""
    found: dict[str, Any] = {
        "device": "cpu",
        "evenprune": __version__,
        "torch": torch.__version__,
        **package_versions("triton", "transformers"),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
    }
    if torch.device(device).type == "cuda":
        facts = torch.cuda.get_device_properties(device)
        found |= {
            "device": facts.name,
            "capability": f"{facts.major}.{facts.minor}",
            "memory_bytes": facts.total_memory,
            "cuda": torch.version.cuda,
        }
    return found


def page(report: dict[str, Any]) -> str:
    """Return the report as a page in Markdown."""
    # In the order of the file, of which it can be made as well.
    return fill(TEMPLATE, {"r": json.loads(json.dumps(report, sort_keys=True))})
