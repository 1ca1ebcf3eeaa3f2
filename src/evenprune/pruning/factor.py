"""The triangular factor of the inverse Hessian, by one Cholesky and a triangular inverse."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..base.onednn import product

# After the asked-for damping: three times ten times more, then the same ladder in float64.
ESCALATIONS = 3
LEAF = 128  # columns below which a triangular matrix is inverted by a solve


class NotPositiveDefinite(Exception):
    """No damping on the ladder made the Hessian positive definite."""


@dataclass(frozen=True)
class Factor:
    """``upper`` is U (d, d), upper triangular, with ``UᵀU = (H + λI)⁻¹``, in float32.

    ``damping`` is the relative damping that was needed, ``precision`` the precision of the
    factorisation, ``condition`` a lower bound of the damped Hessian's condition number: the
    squared ratio of the Cholesky factor's largest to its smallest diagonal entry.
    """

    upper: Tensor
    damping: float
    precision: str
    condition: float


def damp(hessian: Tensor, damping: float) -> Tensor:
    """Add ``damping * mean(diag H)`` to the diagonal of H (d, d) in place and return H.

    The mean includes dead columns (``H_jj = 0``) with their value 0, so that scaling H scales
    the result. A dead column is coupled to nothing: its diagonal is set to 1.
    """
    diagonal = hessian.diagonal()
    dead = diagonal == 0
    diagonal.add_(damping * diagonal.mean()).masked_fill_(dead, 1.0)
    return hessian


def invert_lower(lower: Tensor) -> Tensor:
    """Invert a lower triangular matrix (d, d) in place and return it.

    By halves: with ``L = [[A, 0], [B, C]]``, ``L⁻¹ = [[A⁻¹, 0], [-C⁻¹ B A⁻¹, C⁻¹]]``. Two
    thirds of the work of a triangular solve for the identity, and a quarter of its memory.
    """
    size = len(lower)
    if size <= LEAF:
        identity = torch.eye(size, dtype=lower.dtype, device=lower.device)
        return lower.copy_(torch.linalg.solve_triangular(lower, identity, upper=False))
    half = size // 2
    first, second = invert_lower(lower[:half, :half]), invert_lower(lower[half:, half:])
    corner = lower[half:, :half]
    corner.copy_(product(second, product(corner, first)).neg_())
    return lower


def inverse_factor(hessian: Tensor, damping: float) -> Factor:
    """Return the factor of the damped inverse of H (d, d), float32, which is left as it is.

    With J the flip of both axes: ``J H J = L Lᵀ``, ``R = J L J`` is upper triangular,
    ``H = R Rᵀ`` and ``U = R⁻¹ = J L⁻¹ J``. If the Cholesky fails, the damping is multiplied by
    ten up to three times; then the same in float64. An identity matrix is never put in its
    place.

    Raises NotPositiveDefinite when all of that fails (also for non-finite input).
    """
    ladder = [damping * 10**step for step in range(ESCALATIONS + 1)] if damping else [0.0]
    for dtype in (torch.float32, torch.float64):
        for level in ladder:
            flipped = damp(hessian.flip(0, 1).to(dtype), level)
            lower, info = torch.linalg.cholesky_ex(flipped)
            del flipped
            diagonal = lower.diagonal()
            sound = (info == 0) & torch.isfinite(diagonal).all()
            # Both at once: reading a value waits for the GPU.
            facts = torch.stack([sound.double(), (diagonal.max() / diagonal.min()).double()])
            is_sound, ratio = facts.tolist()
            if not is_sound:
                continue
            condition = ratio**2
            upper = invert_lower(lower).to(torch.float32).flip(0, 1)
            if torch.isfinite(upper.diagonal()).all():
                name = str(dtype).removeprefix("torch.")
                return Factor(upper, level, name, condition)
    raise NotPositiveDefinite
