"""What the device could do at best: bandwidth and arithmetic measured in the same run.

Decoding reads every weight once a step, whatever the batch, so tokens/s are at most
batch * bandwidth / bytes, and at most arithmetic rate / (2 * weights). Attention over the cache
is left out, which makes the bounds generous. 2:4 lowers the bytes of the block linears to
9/16 (17/32 in float32) and can at most double the arithmetic rate.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..models.architecture import load_skeleton
from .device import GEMM_SIZE, copy_bandwidth, gemm_rate
from .formulas import bandwidth_bound, compute_bound, sparse24_bytes
from .sparse24_model import all_linears


@dataclass(frozen=True)
class Weights:
    """How many weights one decode step uses: block linears, and all others but embeddings."""

    linear: int
    other: int

    def bytes(self, bits: int, sparse: bool = False) -> int:
        """Return the bytes read in a step with weights of ``bits`` bits, dense or 2:4."""
        linear = sparse24_bytes(self.linear, bits) if sparse else self.linear * bits // 8
        return linear + self.other * bits // 8


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
        memory = bandwidth_bound(size, measured["copy_bytes_per_s"], batch)
        out[f"{name}_bandwidth"] = memory
        out[f"{name}_bound"] = min(memory, compute_bound(weights, measured["gemm_flop_per_s"]))
    return out
