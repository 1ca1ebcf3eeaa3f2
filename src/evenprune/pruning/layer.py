"""Pruning the linears of one input group with any method: weights and statistics in, zeros out."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..base.errors import UserError
from .factor import NotPositiveDefinite, inverse_factor
from .masks import Regime, magnitude_mask, wanda_mask
from .solver import prune_columns


@dataclass(frozen=True)
class Report:
    """What pruning one matrix did.

    loss: the sum of the scores of what was removed, that is ``Σ (w / U_jj)²`` for sparsegpt
    and debias-sparsegpt (the increase of ``tr(ΔW H ΔWᵀ)``), ``Σ (|w| ‖X_j‖)²`` for wanda and
    ``Σ w²`` for magnitude. damping, precision and condition are of the Hessian's factor.
    """

    loss: float
    dead_columns: int = 0
    damping: float | None = None
    precision: str | None = None
    condition: float | None = None


def prune_magnitude(weight: Tensor, regime: Regime) -> tuple[Tensor, Report]:
    """Return the pruned copy of W (n, d), dtype kept, and its report."""
    mask = magnitude_mask(weight.float(), regime)
    loss = weight.float()[mask].square().sum()
    return weight.masked_fill(mask, 0.0), Report(float(loss))


def prune_wanda(weight: Tensor, square_norms: Tensor, regime: Regime) -> tuple[Tensor, Report]:
    """Return the pruned copy of W (n, d), dtype kept, and its report."""
    mask = wanda_mask(weight.float(), square_norms, regime)
    loss = (weight.float().square() * square_norms)[mask].sum()
    dead = int((square_norms == 0).sum())
    return weight.masked_fill(mask, 0.0), Report(float(loss), dead)


def prune_hessian(
    weights: Sequence[Tensor],
    hessian: Tensor,
    regime: Regime,
    block_size: int,
    damping: float,
    name: str,
) -> list[tuple[Tensor, Report]]:
    """Return pruned copies of matrices that share their input, with their reports.

    weights: (n_i, d) of any floating dtype, kept; hessian: (d, d) float32. All are pruned in
    one column loop in float32. Weights of dead columns (``H_jj = 0``) become 0.

    Raises UserError naming the layer when the Hessian has no positive definite form.
    """
    dead = hessian.diagonal() == 0
    if dead.all():
        raise UserError(
            f"every input of {name} is zero for all calibration text, so that nothing of it would "
            "be kept; the weights before it are damaged: fetch the model again"
        )
    try:
        factor = inverse_factor(hessian, damping)
    except NotPositiveDefinite:
        raise UserError(
            f"the Hessian of {name} is not positive definite, even with 1000 times the damping "
            f"{damping} and in float64; use more calibration text or a larger --damping"
        ) from None
    heights = [len(weight) for weight in weights]
    columns = torch.cat([weight.T.float() for weight in weights], dim=1).contiguous()
    columns.masked_fill_(dead.unsqueeze(1), 0.0)
    loss = prune_columns(columns, factor.upper, regime, block_size, heights)
    reports = [
        Report(
            float(part.sum()), int(dead.sum()), factor.damping, factor.precision, factor.condition
        )
        for part in loss.split(heights)
    ]
    pruned = []
    for weight, part in zip(weights, columns.split(heights, dim=1), strict=True):
        result = part.T.to(weight.dtype)
        # A kept weight may round to -0.0 in a narrow dtype.
        pruned.append(result.masked_fill_(result == 0, 0.0).contiguous())
    return list(zip(pruned, reports, strict=True))
