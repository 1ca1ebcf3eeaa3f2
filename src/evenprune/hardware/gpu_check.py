"""Check on a GPU what was written without one: does it run, agree with the CPU, how fast is it?

Prunes a random model of a real shape (nothing is downloaded), compares its masks with
the CPU's, and times each phase. Writes gpu-check.json and gpu-check.md into --out: send both back.
Ten minutes or less; about 9 GB of disk below --work.
"""

import argparse
import json
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..io.errors import UserError

if TYPE_CHECKING:
    from .trial import Trial

TITLE = "GPU check"
DATA_FILES = ("gpu_check.md.j2",)  # part of this module's code, see codedigest.py
TEMPLATE = Path(__file__).with_name(DATA_FILES[0])
NAMES = ("gpu-check.json", "gpu-check.md")
SIZES = ("1b", "tiny")
DISK = {"1b": 9 << 30, "tiny": 64 << 20}  # bytes: models and what is pruned of them
STEPS = ("compared masks", "timed run")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gpu-check``."""
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="folder of the two files")
    add("--device", choices=("cuda", "cpu"), default="cuda",
        help="cpu tries the program itself, with --size tiny (default: cuda)")  # fmt: skip
    add("--size", choices=SIZES, default="1b",
        help="1b: the shape of a Llama of 1.2 billion parameters; tiny: seconds")  # fmt: skip
    add("--work", type=Path, metavar="DIR", help="folder for temporary models (default: TMPDIR)")


def check_device(device: str, size: str) -> None:
    """Raise UserError where there is no such device, or it is too slow for the size."""
    import torch

    if device == "cpu" and size != "tiny":
        raise UserError(
            f"expected --size tiny with --device cpu, got {size}: that would take hours and say "
            "nothing about a GPU; add --size tiny, or run it on a GPU"
        )
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "gpu-check needs a CUDA device, but torch sees none here: nothing was measured; run it "
            "on a machine with an NVIDIA GPU, or try the program with --device cpu --size tiny"
        )


def run(args: argparse.Namespace) -> None:
    """Check the place, run the steps, write both files."""
    from ..io.files import write_json, write_text
    from ..io.gpu import claim_device
    from ..io.outputs import check_ours, check_place
    from ..models.loading import limit_threads

    check_place(args.out)
    for name in NAMES:
        check_ours(args.out / name, ["gpu_check"])
    check_device(args.device, args.size)
    with claim_device(args.device) as device, tempfile.TemporaryDirectory(
        prefix="evenprune-gpu-check-", dir=args.work
    ) as name:  # fmt: skip
        free = shutil.disk_usage(name).free
        if free < DISK[args.size]:
            raise UserError(
                f"expected {DISK[args.size] >> 20} MB of free disk for the models, found "
                f"{free >> 20} MB at {Path(name).parent}; name another folder with --work"
            )
        limit_threads()
        report = check(device, args.size, Path(name))
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(args.out / NAMES[0], report)
    write_text(args.out / NAMES[1], page(report))
    print(f"{args.out / NAMES[0]} and {args.out / NAMES[1]} are written: please send both back")


def check(device: str, size: str, work: Path) -> dict[str, Any]:
    """Run all steps on ``cpu`` or ``cuda:N``; return what was found, for the JSON file."""
    import torch

    from . import runs
    from .trial import TRIALS

    trial: Trial = TRIALS[size]
    if torch.device(device).type == "cuda":
        torch.cuda.set_device(device)  # what is measured without a name of a device is here
    torch.set_float32_matmul_precision("highest")
    seconds: dict[str, float] = {}
    began = time.monotonic()

    def step(name: str, call: Callable[[], Any]) -> Any:
        start = time.monotonic()
        print(f"gpu-check {len(seconds) + 1}/{len(STEPS)}: {name}", file=sys.stderr, flush=True)
        found = call()
        seconds[name] = time.monotonic() - start
        return found

    masks = step("compared masks", lambda: runs.compared(trial, device, work))
    timed = step("timed run", lambda: runs.timed(trial, device, work))
    return {
        "gpu_check": 1,
        "size": size,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": system(device),
        "masks": masks,
        "pruning": timed,
        "seconds": seconds | {"all": time.monotonic() - began},
    }


def system(device: str) -> dict[str, Any]:
    """Return what the run was on: device, versions, processor."""
    import torch

    from .. import __version__
    from ..io.codedigest import package_versions

    cuda = torch.device(device).type == "cuda"
    found: dict[str, Any] = {
        "device": "cpu",
        "evenprune": __version__,
        "torch": torch.__version__,
        **package_versions("triton", "transformers"),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
    }
    if cuda:
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
    from ..io.pages import fill

    # In the order of the file, of which it can be made as well.
    report = json.loads(json.dumps(report, sort_keys=True))
    return fill(TEMPLATE, {"title": TITLE, "r": report})
