"""Optimal-brain-surgeon pruning of one weight matrix, column by column (paper, Algorithm 1).

Works on ``Wᵀ``, so that the column that the loop is at is contiguous in memory, and in two
levels: rank-1 updates within a group of columns, one matrix product to the rest of the block,
one to the rest of the matrix. Weights that share their input may be stacked side by side.
On a GPU a Triton kernel (`kernel.py`) runs the loop within a block, on a CPU `plain_loop.py`.
"""

import functools
import importlib.util
import os
import sys
from collections.abc import Sequence

import torch
from torch import Tensor

from ..config.facts import RegimeFacts
from ..io.errors import UserError
from ..io.onednn import subtract_product
from . import plain_loop
from .masks import smallest, zeros_of

COLUMN_LOOP = "EVENPRUNE_COLUMN_LOOP"  # environment variable: plain or triton


def column_loop(device: torch.device) -> str:
    """Return which form of the loop within a block runs on a device: ``plain`` or ``triton``.

    The environment variable ``EVENPRUNE_COLUMN_LOOP`` decides where it is set. Otherwise
    CUDA takes the kernel, or says once that Triton is not installed, and the CPU the plain one.

    Raises UserError for another value, and for ``triton`` where it is not installed.
    """
    asked = os.environ.get(COLUMN_LOOP, "")
    if asked not in ("", "plain", "triton"):
        raise UserError(f"{COLUMN_LOOP} must be plain or triton, or not set, got {asked!r}")
    if asked == "plain" or (not asked and device.type != "cuda"):
        return "plain"
    if importlib.util.find_spec("triton") is not None:
        return "triton"
    if asked:
        raise UserError(
            f"{COLUMN_LOOP} is triton, but Triton is not installed here; install it, or unset "
            "the variable"
        )
    _say_plain()
    return "plain"


@functools.cache
def _say_plain() -> None:
    """Say, once in a process, that the GPU runs the loop that is bound by launches."""
    print("Triton is not installed: the plain column loop runs, many launches", file=sys.stderr)


def prune_columns(
    weight_t: Tensor, upper: Tensor, regime: RegimeFacts, block_size: int, heights: Sequence[int]
) -> Tensor:
    """Prune ``Wᵀ`` in place and return the squared error that each output takes.

    weight_t: (d, n) float32, contiguous, the matrices of ``heights`` rows side by side;
    upper: (d, d), U with ``UᵀU = H⁻¹``. The score of a weight is ``w² / U_jj²``. Unstructured
    scores are compared over all rows of one matrix in one block of columns, N:M scores within
    a group at the moment the loop reaches it. Zeros are +0.0.

    Returns (n,) float32: the sum of ``(w / U_jj)²`` over the pruned weights of an output,
    which is the increase of ``tr(ΔW H ΔWᵀ)``.
    """
    width, rows = weight_t.shape
    inverses = upper.diagonal().reciprocal().unsqueeze(1)
    prune_block = plain_loop.prune_block
    if column_loop(weight_t.device) == "triton":
        from .kernel import prune_block  # imports Triton, which a CPU environment has not
    loss = torch.zeros(rows, dtype=weight_t.dtype, device=weight_t.device)
    for start in range(0, width, block_size):
        stop = min(start + block_size, width)
        block = weight_t[start:stop]
        factor = upper[start:stop, start:stop]
        error = torch.empty_like(block)
        if regime.structured:
            mask = torch.empty_like(block, dtype=torch.bool)
        else:
            mask = _block_mask(block, inverses[start:stop], regime, heights)
        prune_block(block, factor, inverses[start:stop], regime, mask, error)
        loss += error.square().sum(dim=0)
        if stop < width:
            subtract_product(weight_t[stop:], upper[start:stop, stop:].T, error)
    return loss


def _block_mask(
    block: Tensor, inverse: Tensor, regime: RegimeFacts, heights: Sequence[int]
) -> Tensor:
    """Return the transposed mask of one block of columns, each matrix compared on its own."""
    scores = (block * inverse).abs_()  # the order of w² / U_jj²
    parts = [part.T for part in scores.split(list(heights), dim=1)]
    return torch.cat([smallest(one, zeros_of(regime, one.numel())).T for one in parts], dim=1)
