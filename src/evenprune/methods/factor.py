"""The triangular factor of the inverse Hessian: a Cholesky factor, inverted as it is made."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..io.onednn import product, subtract_product

# After the asked-for damping: three times ten times more, then the same ladder in float64.
ESCALATIONS = 3
LEAF = 128  # columns up to which LAPACK factors and inverts; more are taken by halves


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
    # In float64 the mean does not depend on the order of the columns, which a GPU has reversed.
    diagonal.add_(damping * diagonal.mean(dtype=torch.float64)).masked_fill_(dead, 1.0)
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


def invert_upper_factor(matrix: Tensor) -> Tensor:
    """Replace a symmetric matrix ``R Rᵀ`` (d, d), R upper triangular, by ``R⁻¹`` in place.

    By halves: with ``[[A, B], [·, C]]``, ``C = R₂ R₂ᵀ`` and ``X = B R₂⁻ᵀ``, it is
    ``R⁻¹ = [[R₁⁻¹, -R₁⁻¹ X R₂⁻¹], [0, R₂⁻¹]]`` where ``A - X Xᵀ = R₁ R₁ᵀ``. Only the upper
    triangle is read. On a CPU this multiplies, and copies, faster than LAPACK.

    Returns a number () that is not 0 where the matrix is not positive definite.
    """
    size = len(matrix)
    if size <= LEAF:
        lower, failed = torch.linalg.cholesky_ex(matrix.flip(0, 1))
        matrix.copy_(invert_lower(lower).flip(0, 1))
        return failed
    half = size // 2
    first, corner, second = matrix[:half, :half], matrix[:half, half:], matrix[half:, half:]
    failed = invert_upper_factor(second)
    panel = product(corner, second.T)
    subtract_product(first, panel, panel.T)
    failed = failed + invert_upper_factor(first)
    corner.copy_(product(first, product(panel, second)).neg_())
    matrix[half:, :half] = 0
    return failed


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
            if hessian.device.type == "cpu":
                upper = damp(hessian.to(dtype, copy=True), level)
                failed = invert_upper_factor(upper)
            else:  # the library's own is a launch or two
                flipped = damp(hessian.flip(0, 1).to(dtype), level)
                lower, failed = torch.linalg.cholesky_ex(flipped)
                del flipped
                upper = invert_lower(lower).flip(0, 1)
            upper = upper.to(torch.float32)
            diagonal = upper.diagonal()
            sound = (failed == 0) & torch.isfinite(diagonal).all()
            # Both at once: reading a value waits for the GPU.
            facts = torch.stack([sound.double(), (diagonal.max() / diagonal.min()).double()])
            is_sound, ratio = facts.tolist()
            if is_sound:
                name = str(dtype).removeprefix("torch.")
                return Factor(upper, level, name, ratio**2)
    raise NotPositiveDefinite
