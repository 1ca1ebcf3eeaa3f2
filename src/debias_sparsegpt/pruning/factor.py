"""The triangular factor of the inverse Hessian, by one Cholesky and one triangular solve."""

from dataclasses import dataclass

import torch
from torch import Tensor

# After the asked-for damping: three times ten times more, then the same ladder in float64.
ESCALATIONS = 3


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


def damp(hessian: Tensor, damping: float) -> tuple[Tensor, Tensor]:
    """Return a damped copy of H (d, d) and the boolean mask (d,) of its dead columns.

    ``damping * mean(diag H)`` is added to the diagonal; the mean includes dead columns with
    their value 0, so that scaling H scales the result. A dead column (``H_jj = 0``) is coupled
    to nothing: its diagonal is set to 1.
    """
    diagonal = hessian.diagonal()
    dead = diagonal == 0
    damped = hessian.clone()
    damped.diagonal().add_(damping * diagonal.mean()).masked_fill_(dead, 1.0)
    return damped, dead


def inverse_factor(hessian: Tensor, damping: float) -> tuple[Factor, Tensor]:
    """Return the factor of the damped inverse Hessian and the mask of dead columns.

    With J the flip of both axes: ``J H J = L Lᵀ``, ``R = J L J`` is upper triangular,
    ``H = R Rᵀ`` and ``U = R⁻¹``. If the Cholesky fails, the damping is multiplied by ten up
    to three times; then the same in float64. An identity matrix is never put in its place.

    Raises NotPositiveDefinite when all of that fails (also for non-finite input).
    """
    ladder = [damping * 10**step for step in range(ESCALATIONS + 1)] if damping else [0.0]
    for dtype in (torch.float32, torch.float64):
        for level in ladder:
            damped, dead = damp(hessian.to(dtype), level)
            lower, info = torch.linalg.cholesky_ex(damped.flip(0, 1))
            del damped
            diagonal = lower.diagonal()
            if info.item() or not torch.isfinite(diagonal).all():
                continue
            condition = float(diagonal.max() / diagonal.min()) ** 2
            identity = torch.eye(len(lower), dtype=dtype, device=lower.device)
            # (J L J)⁻¹ = J L⁻¹ J
            upper = torch.linalg.solve_triangular(lower, identity, upper=False).flip(0, 1)
            upper = upper.to(torch.float32)
            if not torch.isfinite(upper.diagonal()).all():
                continue
            name = str(dtype).removeprefix("torch.")
            return Factor(upper.contiguous(), level, name, condition), dead
    raise NotPositiveDefinite
