"""Which weights go: exact counts per comparison group, ties broken by position.

All functions work on scores in the orientation of the weight, ``(n, d)`` with one row per
output and one column per input, or in its transpose where the name says so.
"""

import numpy as np
import torch
from torch import Tensor

from ..config.facts import RegimeFacts


def zeros_of(regime: RegimeFacts, size: int) -> int:
    """Return how many of ``size`` weights go: ``floor(s * size)``, free of rounding.

    Unlike the facts, this counts as code of what uses it.
    """
    return size * regime.zeros // regime.of


def smallest(scores: Tensor, count: int) -> Tensor:
    """Return a boolean mask of the ``count`` smallest entries of a matrix.

    Equal scores are taken in row-major order. Selection, not sorting: O(size).
    """
    if count == 0:
        return torch.zeros_like(scores, dtype=torch.bool)
    in_memory_order = scores if scores.stride(0) >= scores.stride(1) else scores.T
    threshold = _kth_of_rows(in_memory_order.reshape(1, -1), count)
    mask = scores < threshold
    ties = scores == threshold
    if scores.is_cuda:  # more work than below, but the host does not wait for a count
        order = ties.flatten().cumsum(0).view(ties.shape)
        return mask | (ties & (order <= count - mask.sum()))
    places = ties.nonzero()[: count - int(mask.sum())]
    mask[places[:, 0], places[:, 1]] = True
    return mask


def smallest_per_row(scores: Tensor, count: int) -> Tensor:
    """Return a boolean mask of the ``count`` smallest entries of each row, ties from the left."""
    if count == 0:
        return torch.zeros_like(scores, dtype=torch.bool)
    threshold = _kth_of_rows(scores, count)
    mask = scores < threshold
    ties = scores == threshold
    missing = count - mask.sum(dim=1, keepdim=True)
    return mask | (ties & (ties.cumsum(dim=1) <= missing))


def _kth_of_rows(scores: Tensor, count: int) -> Tensor:
    """Return the ``count``-th smallest entry of each row of scores (r, n), (r, 1)."""
    if scores.device.type != "cpu":
        return scores.kthvalue(count, dim=1, keepdim=True).values
    # NumPy selects ten times faster. It has no bfloat16, which float32 holds exactly.
    numbers = scores if scores.dtype == torch.float64 else scores.float()
    parted = np.partition(numbers.numpy(), count - 1, axis=1)
    return torch.from_numpy(parted[:, count - 1 : count]).to(scores.dtype)


def smallest_of_group(scores: Tensor, count: int) -> Tensor:
    """Return a boolean mask of the ``count`` smallest along dimension 0, ties from the top.

    ``scores`` is ``(m, ...)`` with a small m: the inputs of one N:M group in their order.
    """
    if scores.is_cuda:  # the host does not wait to learn whether scores are equal
        return _smallest_with_ties(scores, count)
    mask = scores <= kth_smallest(scores, count)
    if int(mask.sum()) * scores.shape[0] == count * mask.numel():
        return mask
    return _smallest_with_ties(scores, count)


def kth_smallest(scores: Tensor, count: int) -> Tensor:
    """Return the ``count``-th smallest entry along dimension 0, ``scores.shape[1:]``."""
    if count == 1:
        return scores.amin(dim=0)
    if (len(scores), count) == (4, 2):  # a sorting network is far quicker than kthvalue here
        a, b, c, d = scores.unbind()
        low = torch.maximum(torch.minimum(a, b), torch.minimum(c, d))
        return torch.minimum(low, torch.minimum(torch.maximum(a, b), torch.maximum(c, d)))
    return scores.kthvalue(count, dim=0).values


def _smallest_with_ties(scores: Tensor, count: int) -> Tensor:
    """Do what ``smallest_of_group`` does for equal scores.

    The rank of an entry is the number of entries that are smaller, or equal and earlier.
    """
    rank = torch.zeros_like(scores, dtype=torch.int8)
    for later in range(1, len(scores)):
        first = scores[later] < scores[:later]  # the later entry goes before the earlier ones
        rank[:later] += first
        rank[later] += later - first.sum(dim=0, dtype=torch.int8)
    return rank < count


def group_mask(scores: Tensor, regime: RegimeFacts) -> Tensor:
    """Return the N:M mask of a score matrix ``(n, d)`` with d divisible by ``regime.of``."""
    rows, columns = scores.shape
    groups = scores.reshape(rows, columns // regime.of, regime.of).permute(2, 0, 1)
    mask = smallest_of_group(groups, regime.zeros)
    return mask.permute(1, 2, 0).reshape(rows, columns)
