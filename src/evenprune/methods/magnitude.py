"""Method `magnitude`: the smallest weights by absolute value, no weight update."""

from ..config.facts import RegimeFacts
from .masks import group_mask, smallest, zeros_of
from .method import Method
from .metric import Group, Solved
from .options import Options


class Magnitude(Method):
    """By ``|w|``, per N:M group or over the whole matrix. The loss is ``Σ w²``."""

    def solve(self, group: Group, regime: RegimeFacts, options: Options) -> Solved:
        """Prune each matrix on its own."""
        results = []
        for weight in group.weights:
            scores = weight.float().abs()
            if regime.structured:
                mask = group_mask(scores, regime)
            else:
                mask = smallest(scores, zeros_of(regime, scores.numel()))
            loss = scores[mask].square().sum()
            results.append((weight.masked_fill(mask, 0.0), group.report(float(loss))))
        return results


METHOD = Magnitude()
