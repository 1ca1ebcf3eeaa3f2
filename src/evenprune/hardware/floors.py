"""What a device needs at least for the phases of pruning: work over rates, both of this device.

The work is counted: products of the forward passes, Gram matrices, factors, weight updates, and
bytes that go to the device and back. The rates are measured in the same process: square matrix
products in the model's dtype and in float32, and copies. Attention, norms, masks, rounding, files
and checksums are not in a floor, so that it cannot be reached.
"""

import torch

from ..serving.device import best_time, copy_bandwidth, gemm_rate
from ..serving.shapes import Decoder

COPIED = {"cuda": 256 << 20, "cpu": 16 << 20}  # bytes of a copy between host and device
Rates = dict[str, float]


def measure_rates(device: str, dtype: torch.dtype) -> Rates:
    """Return operations and bytes a second: ``device`` is the kind, ``cuda`` or ``cpu``.

    Host memory is pageable, as the weights are when they are read.
    """
    host = torch.ones(COPIED[device], dtype=torch.uint8)
    there = torch.empty_like(host, device=device)
    back = torch.empty_like(host)
    return {
        "product_flop_per_s": gemm_rate(device, dtype),
        "float32_flop_per_s": gemm_rate(device, torch.float32),
        "copy_bytes_per_s": copy_bandwidth(device, 1 << 30 if device == "cuda" else 1 << 24),
        "to_device_bytes_per_s": len(host) / best_time(lambda: there.copy_(host), device, 0.3),
        "to_host_bytes_per_s": len(host) / best_time(lambda: back.copy_(there), device, 0.3),
    }


def work(decoder: Decoder, tokens: int, bits: int) -> dict[str, dict[str, float]]:
    """Return the work of each phase for all blocks: float32 and other operations, bytes moved.

    tokens: of one pass through a block; bits: of a stored weight. The first pass through a block
    needs no output of its last product, and the last block no second pass.
    """
    shapes = decoder.linears()
    whole = sum(rows * width for rows, width in shapes.values())
    last = decoder.hidden * decoder.intermediate
    blocks, d, wide = decoder.layers, decoder.hidden, decoder.intermediate
    inputs = (d, d, d, wide)  # of q/k/v, o, gate/up, down
    factors = sum(2 * width**3 / 3 for width in inputs)
    updates = sum(rows * width**2 for rows, width in shapes.values())
    forward = 2 * tokens * (blocks * (whole - last) + (blocks - 1) * whole)
    gram = blocks * tokens * sum(width**2 for width in inputs)  # half of each symmetric product
    return {
        "load": {"to_device_bytes": blocks * whole * bits / 8},
        "forward": {"product_flop": forward},
        "hessian": {"float32_flop": gram},
        "solve": {"float32_flop": blocks * (factors + updates)},
        "write": {"to_host_bytes": blocks * whole * bits / 8},
    }


def floors(decoder: Decoder, tokens: int, bits: int, rates: Rates) -> dict[str, float]:
    """Return the least seconds of each phase on a device of these rates."""
    return {
        phase: sum(amount / rates[f"{kind}_per_s"] for kind, amount in parts.items())
        for phase, parts in work(decoder, tokens, bits).items()
    }
