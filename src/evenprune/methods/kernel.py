"""The column loop within a block as one Triton kernel, so that a GPU is not bound by launches.

Rows of W are independent within a block of columns, so each program takes a tile of rows
through all columns. It holds the tile in registers and does what the plain loop in
``plain_loop.py`` does: rank-1 updates within GROUP columns, one product from these to the rest of
the block.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..config.facts import RegimeFacts
from .plain_loop import GROUP

MAX_COLUMNS = 128  # of one launch; what a program can hold
ROWS = 32  # of one program


@triton.jit
def _columns(  # type: ignore[no-untyped-def]  # Triton reads annotations
    block, factor, inverse, mask, error,
    size, rows, factor_row, factor_column,
    ZEROS: tl.constexpr, OF: tl.constexpr,
    SIZE: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Take ROWS outputs through a block (size, rows) of Wᵀ; ZEROS = 0 means the mask is given."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column, place = tl.arange(0, SIZE), tl.arange(0, GROUP)
    tile = tl.load(
        block + column[:, None] * rows + row[None, :],
        mask=(column < size)[:, None] & (row < rows)[None, :],
        other=0.0,
    )
    for start in range(0, size, GROUP):
        here = start + place
        inside = (here < size)[:, None] & (row < rows)[None, :]
        at = here[:, None] * rows + row[None, :]
        # Registers cannot be sliced: a part is the sum of itself and zeros, which is exact.
        parts = tl.reshape(tile, (SIZE // GROUP, GROUP, ROWS))
        number = tl.arange(0, SIZE // GROUP)[:, None, None]
        group = tl.sum(tl.where(number == start // GROUP, parts, 0.0), axis=0)
        scale = tl.load(inverse + here, mask=here < size, other=0.0)[:, None]
        if ZEROS == 0:
            gone = tl.load(mask + at, mask=inside, other=0) != 0
        else:
            gone = tl.zeros((GROUP, ROWS), tl.int1)
        wrong = tl.zeros((GROUP, ROWS), tl.float32)
        for step in tl.static_range(GROUP):
            if ZEROS > 0 and step % OF == 0:
                scores = tl.reshape(tl.abs(group * scale), (GROUP // OF, OF, ROWS))
                one, other = scores[:, :, None, :], scores[:, None, :, :]
                index = tl.arange(0, OF)
                earlier = (index[None, :] < index[:, None])[None, :, :, None]
                # The rank is the number of scores that are smaller, or equal and earlier.
                before = tl.where(earlier, (one < other) == 0, other < one)
                rank = tl.reshape(tl.sum(before.to(tl.int32), axis=2), (GROUP, ROWS))
                gone = tl.where((place // OF == step // OF)[:, None], rank < ZEROS, gone)
            now = (place == step)[:, None]
            change = tl.sum(tl.where(now & gone, group * scale, 0.0), axis=0)[None, :]
            wrong = tl.where(now, change, wrong)
            across = tl.load(
                factor + (start + step) * factor_row + here * factor_column,
                mask=(place > step) & (here < size),
                other=0.0,
            )
            group -= across[:, None] * change
        tl.store(block + at, tl.where(gone, 0.0, group), mask=inside)
        tl.store(error + at, wrong, mask=inside)
        later = (column >= start + GROUP) & (column < size)
        down = tl.load(
            factor + here[None, :] * factor_row + column[:, None] * factor_column,
            mask=later[:, None] & (here < size)[None, :],
            other=0.0,
        )
        tile -= tl.dot(down, wrong, input_precision="ieee")


def prune_block(
    block: Tensor, factor: Tensor, inverse: Tensor, regime: RegimeFacts, mask: Tensor, error: Tensor
) -> None:
    """Run the column loop within one block (c, n) with its factor (c, c).

    All of it is float32, and contiguous but for the factor.

    Does what ``plain_loop.prune_block`` does: prunes ``block`` in place and fills ``error`` (c, n);
    inverse: (c, 1), 1 / U_jj. ``mask`` (c, n) is read for an unstructured regime and left alone
    for N:M. Up to ``MAX_COLUMNS`` columns are one launch, a wider block is several with a
    matrix product between them.

    Raises whatever Triton raises where it cannot compile the kernel.
    """
    width, rows = block.shape
    for start in range(0, width, MAX_COLUMNS):
        stop = min(start + MAX_COLUMNS, width)
        size = stop - start
        with torch.cuda.device_of(block):  # Triton launches on the current device
            _columns[(triton.cdiv(rows, ROWS),)](
                block[start:stop], factor[start:stop, start:stop], inverse[start:stop],
                mask[start:stop].contiguous(), error[start:stop],
                size, rows, *factor.stride(),
                ZEROS=regime.zeros if regime.structured else 0, OF=regime.of,
                SIZE=max(GROUP, triton.next_power_of_2(size)), GROUP=GROUP, ROWS=ROWS,
            )  # fmt: skip
        if stop < width:
            block[stop:].addmm_(factor[start:stop, stop:].T, error[start:stop], alpha=-1)
