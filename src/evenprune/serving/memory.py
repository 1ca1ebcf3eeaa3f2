"""Whether all checkpoints of a measurement fit into memory at once."""

from collections.abc import Sequence
from pathlib import Path

import psutil

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


def _limits(
    own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> list[int]:
    """Return what the control groups of this process leave it (version 2); a job's limit is one."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    found = [2**63]
    inside = next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
    folder = root / inside
    for place in (folder, *folder.parents):
        try:
            limit = (place / "memory.max").read_text(encoding="ascii").strip()
            used = (place / "memory.current").read_text(encoding="ascii").strip()
        except OSError:
            continue
        if limit != "max":
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
