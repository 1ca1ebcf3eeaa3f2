"""Sums over the calibration tokens: ``X Xᵀ`` with the bias term, or its diagonal alone.

With ``S = X0 + X1`` and ``Δ = X0 - X1`` the paper's Hessian (Eq. 4, bias weight b) is
``X0 X0ᵀ + X1 X1ᵀ + 2 b Δ Δᵀ = ½ S Sᵀ + (½ + 2 b) Δ Δᵀ``: it needs as many columns as plain
SparseGPT. Tokens of a shared prefix are the same in both sentences: ``2 X Xᵀ``, and Δ = 0.
"""

import torch
from torch import Tensor

from ..blocks.packing import Plan
from ..io.onednn import add_gram, rounds

PANEL = 192  # columns of H computed by one product; only the upper triangle of panels is
ROWS = 1024  # of one product: each reads H, which a CPU's caches do not hold
FILLED = 64  # their number is a multiple of this: oneDNN makes its code for each that comes


def write_columns(inputs: Tensor, plan: Plan, out: Tensor) -> None:
    """Write to ``out`` Y (t, d) float32 with ``Yᵀ Y`` the batch's contribution to the Hessian.

    inputs: (t, d), one row a token, any floating dtype. Matches of bias weight 0 stay plain
    tokens; with none left this is the Hessian of SparseGPT, bit for bit. A matched token has
    weight 1.
    """
    out.copy_(inputs)
    if len(plan.first):
        one, two = out.index_select(0, plan.first), out.index_select(0, plan.second)
        out.index_copy_(0, plan.first, one + two)
        out.index_copy_(0, plan.second, one.sub_(two))
    out.mul_(plan.scale)


class Gram:
    """Accumulates ``H = Σ Yᵀ Y`` (d, d) in float32, in place."""

    def __init__(self, width: int, device: str) -> None:
        self.sum = torch.zeros(width, width, dtype=torch.float32, device=device)
        self._rows = self.sum[:0]  # Y of the last batches, of which ``_count`` rows wait
        self._count = 0
        self._rounded = False

    def add(self, inputs: Tensor, plan: Plan) -> None:
        """Add one batch of inputs (t, d).

        Where they come in bfloat16 the product may round Y to it: unbiased, and less than what
        the inputs were rounded by before.
        """
        stop = self._count + len(inputs)
        if stop > len(self._rows):
            self._multiply()
            stop = len(inputs)
            if stop > len(self._rows):
                # In place: fresh memory takes longer than what is done in it.
                size = max(ROWS, -(-stop // FILLED) * FILLED)
                self._rows = self.sum.new_empty(size, inputs.shape[1])
        write_columns(inputs, plan, self._rows[self._count : stop])
        self._count, self._rounded = stop, rounds(inputs)

    def _multiply(self) -> None:
        """Add the rows that wait, and rows of zeros up to a multiple of ``FILLED``."""
        filled = -(-self._count // FILLED) * FILLED
        self._rows[self._count : filled].zero_()
        if filled:
            add_gram(self.sum, self._rows[:filled], PANEL, self._rounded)
        self._count = 0

    def result(self) -> Tensor:
        """Return the symmetric matrix; call once, after the last batch."""
        self._multiply()
        self._rows = self.sum[:0]
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
