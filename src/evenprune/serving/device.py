"""What a device does at best, measured: time of a call, copy bandwidth, matrix-product rate."""

import time
from collections.abc import Callable
from typing import Any

import torch

# Half the buffer is read and half is written; the copy of a smaller one measures call overhead.
SMALLEST_COPY = 1 << 20
LARGEST_COPY = 1 << 30
GEMM_SIZE = {"cpu": 1024, "cuda": 8192}


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
