"""Scores of a damaged model are no scores: what is not a finite number is refused.

Every batch that a model computed passes ``require_finite`` before it is kept, recorded or
counted. Looked at are the few numbers that leave the model, never whole logits: one NaN or +inf
among a position's logits makes the log-probability of every token NaN, and a token that is
masked with -inf, such as filling of the vocabulary, does no harm.
"""

import math
from collections.abc import Iterable, Sequence

from ..io.errors import UserError

CURE = (
    "the model's weights are damaged or its dtype is too narrow: check or prune it again, or "
    "evaluate it with a wider --dtype (dtype of the model in the configuration)"
)


def require_finite(label: str, scores: Iterable[tuple[object, Sequence[float]]]) -> None:
    """Raise UserError for the first item one of whose scores is NaN or infinite, and name it.

    ``scores`` are (item, its scores) of one batch, ``label`` says what is computed.
    """
    for item, values in scores:
        bad = next((value for value in values if not math.isfinite(value)), None)
        if bad is not None:
            raise UserError(
                f"expected finite scores for {label}, item {item}, got {bad} from the model; {CURE}"
            )


def exp_loss(rate: float) -> float:
    """Return exp of a mean loss in nats; raise UserError for one that no float can hold."""
    try:
        return math.exp(rate)
    except OverflowError:
        raise UserError(
            f"the mean loss is {rate:.4g} nats, too large for a perplexity; {CURE}"
        ) from None
