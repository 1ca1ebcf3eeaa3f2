"""Method `sparsegpt`: SparseGPT: second-order scores and weight update."""

from collections.abc import Iterable

import torch

from ..config.facts import RegimeFacts
from .hessian import Gram
from .method import Method
from .metric import Group, Solved
from .options import Options
from .solver import column_loop, prune_columns


class SparseGPT(Method):
    """The loss is ``Σ (w / U_jj)²``, the increase of ``tr(ΔW H ΔWᵀ)`` with the damped H."""

    statistic = Gram

    def implementation(self, device: torch.device, options: Options) -> str | None:
        """Return the form of the column loop; UserError where one is asked for that is missing."""
        return column_loop(device)

    def solve(self, group: Group, regime: RegimeFacts, options: Options) -> Solved:
        """Prune all matrices in one column loop in float32.

        Weights of dead columns (``H_jj = 0``) become 0. Raises UserError naming the layer when
        the Hessian has no positive definite form.
        """
        upper = group.factor.upper
        heights = [len(weight) for weight in group.weights]
        columns = torch.cat([weight.float() for weight in group.weights]).T.contiguous()
        if group.dead_columns:
            columns[group.dead] = 0.0
        loss = prune_columns(columns, upper, regime, options.block_size, heights)
        parts = columns.split(heights, dim=1)
        losses = torch.stack([lost.sum() for lost in loss.split(heights)]).tolist()
        return [(part.T, group.report(lost)) for part, lost in zip(parts, losses, strict=True)]

    def comparison_groups(self, shape: tuple[int, int], options: Options) -> Iterable[int]:
        """Return the size of each block of columns."""
        rows, columns = shape
        step = options.block_size
        return [rows * min(step, columns - start) for start in range(0, columns, step)]


METHOD = SparseGPT()
