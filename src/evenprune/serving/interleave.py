"""All checkpoints of a model in turn, round by round, so that a busy machine slows all alike.

A round measures every checkpoint once at every batch size. The order within a round is drawn, and
the next round goes through it backwards: what changes steadily over both hits all checkpoints
alike. A ratio of two checkpoints within one round is free of the speed that the machine had then.
"""

import random
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from .backends import Backend
from .energy import EnergyMeter
from .measure import Batch, Prompts, Settings

Record = dict[str, Any]


# Whether all checkpoints of a measurement fit into memory at once

# Of an engine beside its weights: what it computes with, as a share of them, and its cache.
SHARE = 1.25
CACHE = 2**30
# Of the memory that is free, what engines may take.
USABLE = 0.9


def needed_bytes(folders: Sequence[Path]) -> int:
    """Return the bytes that engines for these model folders take together, estimated.

    Each as much as the largest: a compressed one may be restored when it is loaded.
    """
    sizes = [sum(file.stat().st_size for file in one.glob("*.safetensors")) for one in folders]
    return len(folders) * (round(SHARE * max(sizes)) + CACHE)


def free_bytes(device: str, gpus: int = 1) -> int:
    """Return the bytes that are free on ``gpus`` GPUs together, or for this process on the CPU."""
    if device == "cuda":
        import torch

        return sum(torch.cuda.mem_get_info(index)[0] for index in range(max(gpus, 1)))
    return min(psutil.virtual_memory().available, *_limits())


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _limits() -> list[int]:
    """Return what the control groups of this process leave it (version 2); a job's limit is one."""
    own = re.search(r"^0::/*(.*)$", _read(Path("/proc/self/cgroup")), re.MULTILINE)
    folder, found = Path("/sys/fs/cgroup", own[1] if own else ""), [2**63]
    for place in (folder, *folder.parents):
        limit, used = _read(place / "memory.max"), _read(place / "memory.current")
        if limit.isdigit() and used:
            found.append(int(limit) - int(used))
    return found


def decide(asked: str, folders: Sequence[Path], device: str, gpus: int = 1) -> tuple[bool, str]:
    """Return whether the checkpoints in ``folders`` are loaded together, and why.

    ``asked``: ``together``, ``in-turn``, or ``auto``, which compares what they need with what is
    free.
    """
    if len(folders) == 1:
        return True, "one checkpoint"
    if asked != "auto":
        return asked == "together", "asked for"
    needed, free = needed_bytes(folders), free_bytes(device, gpus)
    why = f"about {needed / 1e9:.1f} GB wanted, {free / 1e9:.1f} GB free"
    return needed <= USABLE * free, why


# In turn


def orders(names: Sequence[str], rounds: int, seed: int) -> list[list[str]]:
    """Return the order of the checkpoints in each round.

    Drawn from ``seed`` for the first, third, … round; each round after that is its reverse.
    """
    generator = random.Random(seed)
    found: list[list[str]] = []
    for number in range(rounds):
        backwards = number % 2 == 1
        found.append(found[-1][::-1] if backwards else generator.sample(names, len(names)))
    return found


def slots(order: Sequence[str], sizes: Sequence[int], together: bool) -> list[tuple[str, int]]:
    """Return (checkpoint, batch size) in the order in which a round measures them.

    Checkpoints that are loaded together stand next to each other at each batch size; those that
    take turns are measured at all batch sizes while they are loaded.
    """
    if together:
        return [(name, size) for size in sizes for name in order]
    return [(name, size) for name in order for size in sizes]


def measure_rounds(
    load: Callable[[str], Backend],
    together: bool,
    meter: EnergyMeter,
    prompts: Prompts,
    names: Sequence[str],
    asked: Settings,
    step: Callable[[], None] = lambda: None,
) -> tuple[list[Record], dict[str, dict[str, Any]]]:
    """Measure the checkpoints ``names`` in rounds; return a record for each measurement.

    All are loaded ``together``, or one at a time in turn, and closed in the end; also returned is
    how each describes itself. A record is that of ``Batch.measure`` with ``round`` (from 1),
    ``place`` (from 0 in the round), ``checkpoint`` and ``batch``. A checkpoint runs unmeasured
    after it was loaded; how many calls fill a region is settled when it is loaded first. ``step``
    is called after each measurement.
    """
    calls: dict[tuple[str, int], tuple[int, int]] = {}
    loaded: dict[str, Backend] = {}
    descriptions: dict[str, dict[str, Any]] = {}
    records: list[Record] = []
    sizes = asked.batch_sizes
    with ExitStack() as opened:

        def batch(name: str, size: int) -> Batch:
            return Batch(loaded[name].generate, meter, prompts[:size], asked)

        def prepare(name: str) -> None:
            if name not in loaded:
                if not together:
                    loaded.clear()
                    opened.close()
                loaded[name] = load(name)
                opened.callback(loaded[name].close)
                descriptions[name] = loaded[name].describe()
                for size in sizes:
                    calls.setdefault((name, size), batch(name, size).warm_up())

        for name in names if together else ():
            prepare(name)
        for number, order in enumerate(orders(names, asked.rounds, asked.seed), 1):
            for place, (name, size) in enumerate(slots(order, sizes, together)):
                prepare(name)
                about = {"round": number, "place": place, "checkpoint": name, "batch": size}
                records.append(about | batch(name, size).measure(calls[name, size]))
                step()
    return records, descriptions
