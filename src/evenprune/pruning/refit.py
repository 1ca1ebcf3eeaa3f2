"""Improving what a solver has left: the kept weights on a fixed mask, and single exchanges.

Both lower ``tr(E H' Eᵀ)`` with ``E = V - W*``, V the pruned weights, W* the target and H' its
damped metric. Rows are independent of each other and are taken together.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..base import onednn
from .masks import Regime
from .options import Options
from .target import Report, Target, stored_form

GROUP = 16  # inputs of a row between which weights are exchanged where the regime has no groups
BLOCK = 128  # columns between two products with the rest of the metric


def improve(
    solved: Sequence[tuple[Tensor, Report]],
    target: Target,
    regime: Regime,
    options: Options,
    dtypes: Sequence[torch.dtype],
) -> list[tuple[Tensor, Report]]:
    """Return pruned matrices (n, d) with exchanged and refitted weights, and their losses.

    First the kept weights are refitted, then ``options.swaps`` times weights are exchanged and
    refitted. A row keeps its old weights where the new ones, rounded to the dtype that is
    stored, are no better. Weights of dead columns stay as they are.
    """
    assert target.metric is not None
    metric, dead = target.metric.damped(), target.metric.dead
    results = []
    for (weight, report), wanted, dtype in zip(solved, target.weights, dtypes, strict=True):
        old = stored_form(weight, dtype).float()
        goal = torch.where(dead, old, wanted.float())
        new, kept = weight.float().masked_fill(old == 0, 0.0), old != 0
        new = refit(new, goal, metric, kept, options.refit_steps)
        for _ in range(options.swaps):
            size = regime.of if regime.structured else GROUP
            new, kept = swap(new, goal, metric, kept, size, dead)
            new = refit(new, goal, metric, kept, options.refit_steps)
        new = stored_form(new, dtype).float()
        before, after = row_losses(old, goal, metric), row_losses(new, goal, metric)
        better = after < before
        best = torch.where(better.unsqueeze(1), new, old)
        exchanged = ((new != 0) & (old == 0) & better.unsqueeze(1)).sum()
        sums = [before.sum(), torch.where(better, after, before).sum(), exchanged.double()]
        first, last, count = torch.stack(sums).tolist()
        report = replace(report, loss_before=first, loss_after=last, swapped=int(count))
        results.append((best, report))
    return results


def row_losses(weight: Tensor, goal: Tensor, metric: Tensor) -> Tensor:
    """Return ``(v - w*) H' (v - w*)ᵀ`` of each row, (n,) float64, from float32 products."""
    error = weight - goal
    return (onednn.product(error, metric) * error).sum(dim=1, dtype=torch.float64)


def refit(weight: Tensor, goal: Tensor, metric: Tensor, kept: Tensor, steps: int) -> Tensor:
    """Return V (n, d) after conjugate gradients on the kept weights of each row.

    weight, goal: V and W* (n, d) of one floating dtype; metric: H' (d, d), positive definite;
    kept: (n, d) bool, the weights that may change. The residual is ``((W* - V) H')∘kept``, the
    preconditioner the diagonal of H'; with as many steps as a row has kept weights V is the
    least-squares solution on the mask.
    """
    if not steps:
        return weight
    weight = weight.clone()
    scale = metric.diagonal().reciprocal()
    residual = onednn.product(goal - weight, metric).mul_(kept)
    direction = residual * scale
    product = (residual * direction).sum(dim=1, keepdim=True)
    for step in range(steps):
        image = onednn.product(direction, metric).mul_(kept)
        curvature = (direction * image).sum(dim=1, keepdim=True)
        length = torch.where(curvature > 0, product / curvature, 0.0)  # 0: the row is done
        weight.addcmul_(direction, length)
        if step + 1 == steps:
            break
        residual.addcmul_(image, length, value=-1)
        scaled = residual * scale
        following = (residual * scaled).sum(dim=1, keepdim=True)
        ratio = torch.where(product > 0, following / product, 0.0)
        direction = scaled.addcmul_(direction, ratio)
        product = following
    return weight


def swap(
    weight: Tensor, goal: Tensor, metric: Tensor, kept: Tensor, size: int, fixed: Tensor
) -> tuple[Tensor, Tensor]:
    """Return V and its mask after at most one exchange in each group of ``size`` inputs of a row.

    Group by group, as the exchanges before have left it, the one that lowers the row's loss
    most is made, if any does: a kept q becomes 0 and a pruned p takes the value
    ``t = (h_p + v_q H_pq) / H_pp`` with ``e = w* - v, h = e H'``, which changes the loss by
    ``2 v_q h_q + v_q² H_qq - (h_p + v_q H_pq)² / H_pp``. Every group keeps its number of zeros;
    ``fixed`` columns (d,) bool and those behind the last whole group keep their weights.
    """
    weight, kept = weight.clone(), kept.clone()
    pull = onednn.product(goal - weight, metric)  # h
    rows = torch.arange(len(weight), device=weight.device)
    leaving, coming = kept & ~fixed, ~kept & ~fixed
    step = size * max(1, BLOCK // size)
    last = weight.shape[1] // size * size
    for start in range(0, last, step):
        stop = min(start + step, last)
        local = metric[start:stop, start:stop].contiguous()
        h, before = pull[:, start:stop].clone(), weight[:, start:stop].clone()
        for first in range(0, stop - start, size):
            here = slice(first, first + size)
            there = slice(start + first, start + first + size)
            q, p, value, gain = _best_exchange(
                weight[:, there],
                h[:, here],
                local[here, here],
                leaving[:, there].unsqueeze(2) & coming[:, there].unsqueeze(1),
            )
            made = gain < 0
            removed = torch.where(made, weight[rows, start + first + q], 0.0)
            added = torch.where(made, value, 0.0)
            h += removed.unsqueeze(1) * local[first + q] - added.unsqueeze(1) * local[first + p]
            for place, new in ((q, torch.zeros_like(value)), (p, value)):
                at = (rows, start + first + place)
                weight[at] = torch.where(made, new, weight[at])
                kept[at] = kept[at] ^ made
        if stop < last:
            change = weight[:, start:stop] - before
            pull[:, stop:].addmm_(change, metric[start:stop, stop:], alpha=-1)
    return weight, kept


def _best_exchange(
    weight: Tensor, pull: Tensor, metric: Tensor, possible: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return for each row the best (q, p) of a group of g, the value of p, the change of the loss.

    weight, pull: (n, g); metric: (g, g); possible: (n, g, g) bool, which q may go for which p. The
    change is infinite where there is nothing to exchange.
    """
    diagonal = metric.diagonal()
    # numerator[n, q, p] = h_p + v_q H_pq
    numerator = pull.unsqueeze(1) + weight.unsqueeze(2) * metric
    lost = 2 * weight * pull + weight.square() * diagonal
    change = lost.unsqueeze(2) - numerator.square() / diagonal
    change = change.masked_fill(~possible, torch.inf).flatten(1)
    gain, place = change.min(dim=1)
    size = weight.shape[1]
    q, p = place // size, place % size
    value = numerator.flatten(1).gather(1, place.unsqueeze(1)).squeeze(1) / diagonal[p]
    return q, p, value, gain
