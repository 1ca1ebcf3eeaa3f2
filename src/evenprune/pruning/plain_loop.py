"""The column loop within a block in plain torch: the reference of ``kernel.py``."""

import torch
from torch import Tensor

from .masks import Regime, smallest_of_group

GROUP = 16  # columns between two products within a block; a multiple of every N:M group


def prune_block(
    block: Tensor, factor: Tensor, inverse: Tensor, regime: Regime, mask: Tensor, error: Tensor
) -> None:
    """Run the column loop within one block (c, n) with its factor (c, c).

    inverse: (c, 1), 1 / U_jj. ``mask`` (c, n) is read, or filled group by group for an N:M
    regime; ``error`` (c, n) is filled with ``w / U_jj`` where a weight was pruned, 0 elsewhere.
    """
    size = len(block)
    if not regime.structured:
        torch.mul(mask, inverse, out=error)
    for start in range(0, size, GROUP):
        stop = min(start + GROUP, size)
        for column in range(start, stop):
            if regime.structured and column % regime.of == 0:
                group = slice(column, column + regime.of)
                scores = (block[group] * inverse[group]).abs_()
                mask[group] = smallest_of_group(scores, regime.zeros)
                torch.mul(mask[group], inverse[group], out=error[group])
            error[column].mul_(block[column])
            if column + 1 < stop:
                block[column + 1 : stop].addr_(
                    factor[column, column + 1 : stop], error[column], alpha=-1
                )
        if stop < size:
            block[stop:].addmm_(factor[start:stop, stop:].T, error[start:stop], alpha=-1)
    block.masked_fill_(mask, 0.0)
