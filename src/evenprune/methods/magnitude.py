"""Method `magnitude`: the smallest weights by absolute value, no weight update."""

from torch import Tensor

from .masks import Regime, group_mask, smallest
from .method import Method
from .metric import Group, Report
from .options import Options


def magnitude_mask(weight: Tensor, regime: Regime) -> Tensor:
    """Return the mask of weights to zero by ``|w|``: per N:M group, or over the whole matrix."""
    scores = weight.abs()
    if regime.structured:
        return group_mask(scores, regime)
    return smallest(scores, regime.count(scores.numel()))


class Magnitude(Method):
    """The loss is ``Σ w²``."""

    def solve(self, group: Group, regime: Regime, options: Options) -> list[tuple[Tensor, Report]]:
        """Prune each matrix on its own."""
        results = []
        for weight in group.weights:
            mask = magnitude_mask(weight.float(), regime)
            loss = weight.float()[mask].square().sum()
            results.append((weight.masked_fill(mask, 0.0), group.report(float(loss))))
        return results


METHOD = Magnitude()
