"""The column loop within a block in plain torch: the reference of ``kernel.py``.

On a CPU most of its time goes into calling torch, so that it calls little for a column.
"""

import torch
from torch import Tensor

from ..config.facts import RegimeFacts
from .masks import kth_smallest, smallest_of_group

GROUP = 16  # columns between two products within a block; a multiple of every N:M group


def prune_block(
    block: Tensor, factor: Tensor, inverse: Tensor, regime: RegimeFacts, mask: Tensor, error: Tensor
) -> None:
    """Run the column loop within one block (c, n) with its factor (c, c).

    inverse: (c, 1), 1 / U_jj. ``mask`` (c, n) is read, for an N:M regime left alone; ``error``
    (c, n) is filled with ``w / U_jj`` where a weight was pruned, 0 elsewhere.
    """
    across = factor.triu(1).T  # row j: what the columns before it take from column j
    if regime.structured:
        gone = torch.empty_like(block)  # 1 where a weight is pruned, else 0
        # Equal scores are rare; a host of a GPU would wait to learn whether there are any.
        exact = block.is_cuda
        before = block if exact else block.clone()
        _prune_groups(block, across, inverse, regime, gone, error, exact)
        if not exact and gone.sum(dim=1).double().sum() * regime.of > regime.zeros * gone.numel():
            block.copy_(before)
            _prune_groups(block, across, inverse, regime, gone, error, True)
    else:
        gone = mask.to(block.dtype)
        _prune_columns(block, across, inverse, gone, error)
    block.addcmul_(block, gone, value=-1)  # a pruned weight becomes 0, and never -0


def _prune_columns(
    block: Tensor, across: Tensor, inverse: Tensor, gone: Tensor, error: Tensor
) -> None:
    """Take a block through the loop, the weights to be pruned given."""
    torch.mul(gone, inverse, out=error)
    rows = block.unbind()
    for column, wrong in enumerate(error.unbind()):
        wrong.mul_(rows[column])
        tile = _tile(column, len(rows))
        later = slice(column + 1, tile.stop)
        if column + 1 < tile.stop:
            block[later].addr_(across[later, column], wrong, alpha=-1)
        else:
            _carry(block, across, error, tile)


def _prune_groups(
    block: Tensor, across: Tensor, inverse: Tensor, regime: RegimeFacts,
    gone: Tensor, error: Tensor, exact: bool,
) -> None:  # fmt: skip
    """Take a block through the loop, an N:M group at once; fills ``gone``.

    What a weight has lost when its turn comes depends on the errors of weights pruned before it
    in its group. Each round makes those of one more right: as many are needed as are pruned.
    If not ``exact``, more than N of M go where the scores of a group are equal.
    """
    size, of = len(block), regime.of
    parts = (one.split(of) for one in (block, inverse, gone, error))
    for start, (weights, scale, chosen, wrong) in zip(range(0, size, of), zip(*parts), strict=True):
        scaled = weights * scale
        scores = scaled.abs()
        if exact:
            chosen.copy_(smallest_of_group(scores, regime.zeros))
        else:
            torch.le(scores, kth_smallest(scores, regime.zeros), out=chosen)
        torch.mul(scaled, chosen, out=wrong)
        group = slice(start, start + of)
        for _ in range(regime.zeros - 1):
            left = torch.addmm(weights, across[group, group], wrong, alpha=-1)
            torch.mul(left.mul_(scale), chosen, out=wrong)
        tile = _tile(start, size)
        here = slice(start, tile.stop)
        block[here].addmm_(across[here, group], wrong, alpha=-1)
        if group.stop == tile.stop:
            _carry(block, across, error, tile)


def _tile(column: int, size: int) -> slice:
    """Return the columns, a column among them, that ``_carry`` takes at once."""
    start = column // GROUP * GROUP
    return slice(start, min(start + GROUP, size))


def _carry(block: Tensor, across: Tensor, error: Tensor, tile: slice) -> None:
    """Take the errors of some finished columns from all behind them."""
    if tile.stop < len(block):
        block[tile.stop :].addmm_(across[tile.stop :, tile], error[tile], alpha=-1)
