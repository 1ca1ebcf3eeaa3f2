"""Method `sparsegpt`: SparseGPT: second-order scores and weight update."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ...base.errors import UserError
from ..factor import NotPositiveDefinite, inverse_factor
from ..hessian import Gram
from ..masks import Regime
from ..method import Method, Report
from ..options import Options
from ..solver import column_loop, prune_columns


class SparseGPT(Method):
    """The loss is ``Σ (w / U_jj)²``, the increase of ``tr(ΔW H ΔWᵀ)`` with the damped H."""

    statistic = Gram

    def implementation(self, device: torch.device) -> str | None:
        """Return the form of the column loop; UserError where one is asked for that is missing."""
        return column_loop(device)

    def prune(
        self,
        matrices: Sequence[Tensor],
        statistic: Tensor | None,
        regime: Regime,
        options: Options,
        name: str,
    ) -> list[tuple[Tensor, Report]]:
        """Prune all matrices in one column loop in float32; ``statistic`` is H (d, d) float32.

        Weights of dead columns (``H_jj = 0``) become 0. Raises UserError naming the layer when
        the Hessian has no positive definite form.
        """
        assert statistic is not None
        dead = statistic.diagonal() == 0
        if dead.all():
            raise UserError(
                f"every input of {name} is zero for all calibration text, so that nothing of it "
                "would be kept; the weights before it are damaged: fetch the model again"
            )
        try:
            factor = inverse_factor(statistic, options.damping)
        except NotPositiveDefinite:
            raise UserError(
                f"the Hessian of {name} is not positive definite, even with 1000 times the damping "
                f"{options.damping} and in float64; use more calibration text or a larger --damping"
            ) from None
        heights = [len(weight) for weight in matrices]
        columns = torch.cat([weight.T.float() for weight in matrices], dim=1).contiguous()
        columns.masked_fill_(dead.unsqueeze(1), 0.0)
        loss = prune_columns(columns, factor.upper, regime, options.block_size, heights)
        facts = (int(dead.sum()), factor.damping, factor.precision, factor.condition)
        results = []
        for weight, part, lost in zip(
            matrices, columns.split(heights, dim=1), loss.split(heights), strict=True
        ):
            pruned = part.T.to(weight.dtype)
            # A kept weight may round to -0.0 in a narrow dtype.
            pruned = pruned.masked_fill_(pruned == 0, 0.0).contiguous()
            results.append((pruned, Report(float(lost.sum()), *facts)))
        return results

    def comparison_groups(self, shape: tuple[int, int], options: Options) -> Iterable[int]:
        """Return the size of each block of columns."""
        rows, columns = shape
        step = options.block_size
        return [rows * min(step, columns - start) for start in range(0, columns, step)]


METHOD = SparseGPT()
