"""Sums over the calibration tokens: ``X Xᵀ`` with the bias term, or its diagonal alone.

With ``S = X0 + X1`` and ``Δ = X0 - X1`` the paper's Hessian (Eq. 4, bias weight b) is
``X0 X0ᵀ + X1 X1ᵀ + 2 b Δ Δᵀ = ½ S Sᵀ + (½ + 2 b) Δ Δᵀ``: it needs as many columns as plain
SparseGPT. Tokens of a shared prefix are the same in both sentences: ``2 X Xᵀ``, and Δ = 0.
Methods that weigh the differences by themselves take ``D = Σ Δ Δᵀ`` as a sum of its own, or what
the leading directions of each bias category leave of it.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..base.onednn import add_gram

PANEL = 256  # columns of H computed by one product; only the upper triangle of panels is


def _no_tokens() -> Tensor:
    return torch.zeros(0, dtype=torch.int64)


@dataclass(frozen=True)
class Plan:
    """How the tokens of one batch enter the sums.

    weights: (t,) float32, how often token t counts in ``X Xᵀ``: in how many sentences it
        stands, 0 for what fills a row.
    first, second: (m,) int64, tokens of the two sentences that are subtracted.
    bias: (m,) float32, the bias weight of each of these matches.
    plus, minus: (k,) int64, tokens of the two sentences whose difference enters ``D``.
    category: (k,) int64, the number of the bias category of each of these differences.
    """

    weights: Tensor
    first: Tensor
    second: Tensor
    bias: Tensor
    plus: Tensor = field(default_factory=_no_tokens)
    minus: Tensor = field(default_factory=_no_tokens)
    category: Tensor = field(default_factory=_no_tokens)

    def to(self, device: str) -> "Plan":
        """Return the plan on another device."""
        return Plan(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


def columns(inputs: Tensor, plan: Plan) -> Tensor:
    """Return Y (t, d) float32 with ``Yᵀ Y`` the batch's contribution to the Hessian.

    inputs: (t, d), one row a token, any floating dtype. Matches of bias weight 0 stay plain
    tokens; with none left this is the Hessian of SparseGPT, bit for bit. A matched token has
    weight 1.
    """
    scaled = inputs.float() * plan.weights.sqrt().unsqueeze(1)
    if len(plan.first):
        one, two = inputs[plan.first].float(), inputs[plan.second].float()
        scaled[plan.first] = (one + two).mul_(0.5**0.5)
        scaled[plan.second] = (one - two).mul_((0.5 + 2 * plan.bias).sqrt().unsqueeze(1))
    return scaled


class Gram:
    """Accumulates ``H = Σ Yᵀ Y`` (d, d) in float32, in place."""

    def __init__(self, width: int, device: str) -> None:
        self.sum = torch.zeros(width, width, dtype=torch.float32, device=device)

    def rows(self, inputs: Tensor, plan: Plan) -> Tensor:
        """Return Y (t, d) float32 of one batch of inputs (t, d)."""
        return columns(inputs, plan)

    def add(self, inputs: Tensor, plan: Plan) -> None:
        """Add one batch of inputs (t, d)."""
        add_gram(self.sum, self.rows(inputs, plan), PANEL)

    def result(self) -> Tensor:
        """Return the symmetric matrix; call once, after the last batch."""
        for start in range(0, len(self.sum), PANEL):
            stop = start + PANEL
            self.sum[stop:, start:stop] = self.sum[start:stop, stop:].T
        return self.sum


class Differences(Gram):
    """Accumulates ``D = Σ Δ Δᵀ`` (d, d) in float32, Δ = X0 - X1 of matched tokens."""

    def rows(self, inputs: Tensor, plan: Plan) -> Tensor:
        """Return Δᵀ (k, d) float32 of one batch of inputs (t, d)."""
        return inputs[plan.plus].float() - inputs[plan.minus].float()


class LeadingDifferences:
    """Accumulates ``Σ P D_c P`` (d, d) in float32, a summand a bias category.

    ``D_c = Σ Δ Δᵀ`` over the pairs of category c, and P projects on the span of its ``rank``
    leading eigenvectors. With as many as D_c has this is D itself. Of each category no more than
    2d rows are held: R with ``RᵀR = D_c``, either the Δᵀ themselves or a triangular factor.
    """

    def __init__(self, width: int, device: str, rank: int) -> None:
        self.width, self.device, self.rank = width, device, rank
        self.rows: dict[int, Tensor] = {}

    def add(self, inputs: Tensor, plan: Plan) -> None:
        """Add one batch of inputs (t, d)."""
        rows = inputs[plan.plus].float() - inputs[plan.minus].float()
        for number in plan.category.unique().tolist():
            own = rows[plan.category == number]
            if number in self.rows:
                own = torch.cat([self.rows[number], own])
            self.rows[number] = own if len(own) <= 2 * own.shape[1] else _triangular(own)

    def result(self) -> Tensor:
        """Return the symmetric matrix; infinite where float32 cannot hold the sums."""
        total = torch.zeros(self.width, self.width, dtype=torch.float32, device=self.device)
        for number in sorted(self.rows):
            rows = self.rows.pop(number)
            rows = rows if len(rows) <= rows.shape[1] else _triangular(rows)
            products = rows @ rows.T
            if not torch.isfinite(products).all():
                return total.fill_(torch.inf)
            # R = Σ s u vᵀ: what the leading u leave of the rows is s vᵀ, and RᵀR = Σ s² v vᵀ.
            _, vectors = torch.linalg.eigh(products)
            leading = vectors[:, -self.rank :].T @ rows
            total.addmm_(leading.T, leading)
        return total


def _triangular(rows: Tensor) -> Tensor:
    """Return the triangular R (d, d) with ``RᵀR`` that of more than d rows (m, d)."""
    return torch.linalg.qr(rows, mode="r").R


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
