"""What the device could do at best: bandwidth and arithmetic measured in the same run.

Decoding reads every weight once a step, whatever the batch, so tokens/s are at most
batch * bandwidth / bytes, and at most arithmetic rate / (2 * weights). Attention over the cache
is left out, which makes the bounds generous. 2:4 lowers the bytes of the block linears to
9/16 (17/32 in float32) and can at most double the arithmetic rate.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..models.architecture import load_skeleton
from .shapes import Weights
from .sparse24_model import all_linears

# Half the buffer is read and half is written; the copy of a smaller one measures call overhead.
SMALLEST_COPY = 1 << 20
LARGEST_COPY = 1 << 30
GEMM_SIZE = {"cpu": 1024, "cuda": 8192}


def count_weights(folder: Path | str) -> Weights:
    """Count the weights that one decode step of a checkpoint uses.

    Embedding tables are looked up, not read as a whole; an output head that shares one is.
    """
    model = load_skeleton(Path(folder))
    linear = sum(module.weight.numel() for module in all_linears(model))
    used = sum(
        parameter.numel()
        for module in model.modules()
        if not isinstance(module, torch.nn.Embedding)
        for parameter in module.parameters(recurse=False)
    )
    return Weights(linear, used - linear)


def measure_device(folder: Path | str, device: str, dtype: str) -> dict[str, Any]:
    """Measure the device for a checkpoint run in ``dtype``; see ``bounds`` for the use."""
    kind = getattr(torch, dtype)
    weights = count_weights(folder)
    bits = 8 * kind.itemsize
    return {
        "linear_weights": weights.linear,
        "other_weights": weights.other,
        "dense_bytes": weights.bytes(bits),
        "sparse24_bytes": weights.bytes(bits, sparse=True),
        "copy_bytes_per_s": copy_bandwidth(device, weights.bytes(bits)),
        "gemm_flop_per_s": gemm_rate(device, kind),
        "gemm_size": GEMM_SIZE[device],
    }


def bounds(measured: dict[str, Any], batch: int) -> dict[str, float]:
    """Return the bounds on decode tokens/s at ``batch`` for dense and for 2:4 weights."""
    count = measured["linear_weights"] + measured["other_weights"]
    # 2:4 halves the products of the block linears only.
    effective = measured["linear_weights"] // 2 + measured["other_weights"]
    out = {}
    for name, size, weights in (
        ("dense", measured["dense_bytes"], count),
        ("2of4", measured["sparse24_bytes"], effective),
    ):
        memory = batch * measured["copy_bytes_per_s"] / size
        out[f"{name}_bound"] = min(memory, measured["gemm_flop_per_s"] / (2 * weights))
    return out


def best_time(call: Callable[[], Any], device: str, seconds: float) -> float:
    """Return the shortest time of ``call`` in seconds, trying for ``seconds``, at least thrice."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    call()
    wait()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - start)
    return min(times)


def copy_bandwidth(device: str, size: int, seconds: float = 0.3) -> float:
    """Return the bytes per second moved by copying within a working set of ``size`` bytes.

    The working set is that of the weights, so that a model that fits into a cache is
    compared with the cache. Bytes read and bytes written both count.
    """
    half = min(max(size, SMALLEST_COPY), LARGEST_COPY) // 2
    source = torch.ones(half, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * half / best_time(lambda: target.copy_(source), device, seconds)


def gemm_rate(device: str, dtype: torch.dtype, seconds: float = 0.3) -> float:
    """Return the operations per second of a square matrix product in ``dtype``."""
    size = GEMM_SIZE[device]
    left, right = (torch.ones(size, size, dtype=dtype, device=device) for _ in range(2))
    return 2 * size**3 / best_time(lambda: left @ right, device, seconds)
