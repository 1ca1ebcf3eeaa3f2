"""Sums over the calibration tokens: ``X Xᵀ`` with the bias term, or its diagonal alone.

With ``S = X0 + X1`` and ``Δ = X0 - X1`` the paper's Hessian (Eq. 4, bias weight b) is
``X0 X0ᵀ + X1 X1ᵀ + 2 b Δ Δᵀ = ½ S Sᵀ + (½ + 2 b) Δ Δᵀ``: it needs as many columns as plain
SparseGPT. Tokens of a shared prefix are the same in both sentences: ``2 X Xᵀ``, and Δ = 0.
"""

import torch
from torch import Tensor

from ..blocks.packing import Plan
from ..io.onednn import add_gram, missing, rounds

PANEL = 128  # columns of H computed by one product; only the upper triangle of panels is


def columns(inputs: Tensor, plan: Plan, out: Tensor | None = None) -> Tensor:
    """Return Y (t, d) float32 with ``Yᵀ Y`` the batch's contribution to the Hessian.

    inputs: (t, d), one row a token, any floating dtype. Matches of bias weight 0 stay plain
    tokens; with none left this is the Hessian of SparseGPT, bit for bit. A matched token has
    weight 1. ``out``: (t, d) float32, in whose place Y is computed.
    """
    out = inputs.to(torch.float32, copy=True) if out is None else out.copy_(inputs)
    scale = plan.weights.sqrt()
    if len(plan.first):
        one, two = out.index_select(0, plan.first), out.index_select(0, plan.second)
        out.index_copy_(0, plan.first, one + two)
        out.index_copy_(0, plan.second, one.sub_(two))
        scale[plan.first] = 0.5**0.5
        scale[plan.second] = (0.5 + 2 * plan.bias).sqrt()
    return out.mul_(scale.unsqueeze(1))


class Gram:
    """Accumulates ``H = Σ Yᵀ Y`` (d, d) in float32, in place."""

    def __init__(self, width: int, device: str) -> None:
        self.sum = torch.zeros(width, width, dtype=torch.float32, device=device)
        self._rows = self.sum[:0]

    def rows(self, inputs: Tensor, plan: Plan) -> Tensor:
        """Return Y (t, d) float32 of one batch of inputs (t, d), maybe with rows of zeros behind.

        On a CPU the next call writes over it: fresh memory takes longer than what is done in it.
        """
        if not inputs.is_cpu:
            return columns(inputs, plan)
        count = len(inputs)
        filled = count + (missing(count) if rounds(inputs) else 0)
        if len(self._rows) < filled:
            self._rows = torch.empty(filled, inputs.shape[1])
        self._rows[count:filled].zero_()
        columns(inputs, plan, self._rows[:count])
        return self._rows[:filled]

    def add(self, inputs: Tensor, plan: Plan) -> None:
        """Add one batch of inputs (t, d).

        Where they come in bfloat16 the product may round Y to it: unbiased, and less than what
        the inputs were rounded by before.
        """
        add_gram(self.sum, self.rows(inputs, plan), PANEL, rounds(inputs))

    def result(self) -> Tensor:
        """Return the symmetric matrix; call once, after the last batch."""
        for start in range(0, len(self.sum), PANEL):
            stop = start + PANEL
            self.sum[stop:, start:stop] = self.sum[start:stop, stop:].T
        return self.sum


class SquareNorms:
    """Accumulates ``‖X_j‖²`` (d,) in float32: all that Wanda needs."""

    def __init__(self, width: int, device: str) -> None:
        self.sum = torch.zeros(width, dtype=torch.float32, device=device)

    def add(self, inputs: Tensor, plan: Plan) -> None:
        """Add one batch of inputs (t, d)."""
        self.sum.addmv_(inputs.float().square().T, plan.weights)

    def result(self) -> Tensor:
        """Return the squared norms."""
        return self.sum
