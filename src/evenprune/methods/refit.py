"""Improving what a solver has left: the kept weights on a fixed mask.

A refit lowers ``tr(E H' Eᵀ)`` with ``E = V - W``, V the pruned weights, W the model's own and H'
the damped metric. Rows are independent of each other and are taken together.
"""

from dataclasses import replace

import torch
from torch import Tensor

from ..io import onednn
from .metric import Group, Solved, stored_form
from .options import Options


def improve(solved: Solved, group: Group, options: Options) -> Solved:
    """Return pruned matrices (n, d) with refitted weights, and their losses.

    A row keeps its old weights where the new ones, rounded to the dtype that is stored, are no
    better. Weights of dead columns stay as they are.
    """
    metric, results = group.damped(), []
    for (weight, report), wanted in zip(solved, group.weights, strict=True):
        old = stored_form(weight, wanted.dtype).float()
        goal = torch.where(group.dead, old, wanted.float())
        new, kept = weight.float().masked_fill(old == 0, 0.0), old != 0
        new = refit(new, goal, metric, kept, options.refit_steps)
        new = stored_form(new, wanted.dtype).float()
        before, after = row_losses(old, goal, metric), row_losses(new, goal, metric)
        better = after < before
        best = torch.where(better.unsqueeze(1), new, old)
        sums = [before.sum(), torch.where(better, after, before).sum()]
        first, last = torch.stack(sums).tolist()
        results.append((best, replace(report, loss_before=first, loss_after=last)))
    return results


def row_losses(weight: Tensor, goal: Tensor, metric: Tensor) -> Tensor:
    """Return ``(v - w) H' (v - w)ᵀ`` of each row, (n,) float64, from float32 products."""
    error = weight - goal
    return (onednn.product(error, metric) * error).sum(dim=1, dtype=torch.float64)


def refit(weight: Tensor, goal: Tensor, metric: Tensor, kept: Tensor, steps: int) -> Tensor:
    """Return V (n, d) after conjugate gradients on the kept weights of each row.

    weight, goal: V and W (n, d) of one floating dtype; metric: H' (d, d), positive definite;
    kept: (n, d) bool, the weights that may change. The residual is ``((W - V) H')∘kept``, the
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
