"""Method `wanda`: the smallest weights by |w| times the norm of their input, no weight update.

Sun et al. 2024, "A Simple and Effective Pruning Approach for Large Language Models".
"""

from collections.abc import Iterable

from ..config.facts import RegimeFacts
from .hessian import SquareNorms
from .masks import group_mask, smallest_per_row, zeros_of
from .method import Method
from .metric import Group, Solved
from .options import Options


class Wanda(Method):
    """By ``|w| ‖X_j‖`` (Sun et al. 2024, Eq. 1), per N:M group or within each row.

    The loss is ``Σ (|w| ‖X_j‖)²``.
    """

    statistic = SquareNorms

    def solve(self, group: Group, regime: RegimeFacts, options: Options) -> Solved:
        """Prune each matrix on its own."""
        norms, results = group.square_norms, []
        for weight in group.weights:
            scores = weight.float().abs() * norms.sqrt()
            if regime.structured:
                mask = group_mask(scores, regime)
            else:
                mask = smallest_per_row(scores, zeros_of(regime, scores.shape[1]))
            loss = (weight.float().square() * norms)[mask].sum()
            results.append((weight.masked_fill(mask, 0.0), group.report(float(loss))))
        return results

    def comparison_groups(self, shape: tuple[int, int], options: Options) -> Iterable[int]:
        """Return the length of each row."""
        return [shape[1]] * shape[0]


METHOD = Wanda()
