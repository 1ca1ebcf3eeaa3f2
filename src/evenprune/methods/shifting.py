"""What methods have in common that move the weights before any are taken away."""

from collections.abc import Iterable

import torch
from torch import Tensor

from .hessian import Gram
from .magnitude import METHOD as MAGNITUDE
from .masks import Regime
from .method import Method
from .options import Options
from .sparsegpt import METHOD as SPARSEGPT
from .target import Report, Target
from .wanda import METHOD as WANDA

SOLVERS: dict[str, Method] = {"sparsegpt": SPARSEGPT, "wanda": WANDA, "magnitude": MAGNITUDE}


class Shifting(Method):
    """A method with a target of its own; the option ``solver`` says which other one prunes it.

    Its ``target`` gives ``shifts``, see ``relative_change``. In the regime ``dense`` the target
    is what is written.
    """

    statistic = Gram

    def implementation(self, device: torch.device, options: Options) -> str | None:
        """Return the solver's form; dense, there is none."""
        if options.regime == "dense":
            return None
        return SOLVERS[options.solver].implementation(device, options)

    def solve(
        self, target: Target, regime: Regime, options: Options
    ) -> list[tuple[Tensor, Report]]:
        """Prune W* as the solver's method prunes its weights."""
        return SOLVERS[options.solver].solve(target, regime, options)

    def comparison_groups(self, shape: tuple[int, int], options: Options) -> Iterable[int]:
        """Return those of the solver."""
        return SOLVERS[options.solver].comparison_groups(shape, options)


def relative_change(change: Tensor, weight: Tensor, gram: Tensor) -> float:
    """Return ``sqrt(tr(ΔW H ΔWᵀ) / tr(W H Wᵀ))``, 0 where W has no output at all.

    change, weight: ΔW and W (n, d) float32; gram: H (d, d) float32 without damping.
    """
    sums = [((rows @ gram) * rows).sum(dtype=torch.float64) for rows in (change, weight)]
    moved, whole = torch.stack(sums).tolist()
    return (max(moved, 0.0) / whole) ** 0.5 if whole > 0 else 0.0
