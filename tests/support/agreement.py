"""Do two backends say the same? The records of two evaluations of the same items in float32.

In half precision rounding alone moves predictions, so that a comparison would say little.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

# Of each figure of ``compare`` the least and the largest that rounding explains. One near tie
# decides otherwise, and the rest of an answer is another one.
BOUNDS = {
    "largest_difference": (0.0, 1e-3),  # of a log-probability, in nats
    "equal_predictions": (0.995, 1.0),
    "equal_answers": (0.9, 1.0),
}
DIGITS = 8

Record = Mapping[str, Any]


def _logprobs(record: Record) -> list[float]:
    """Return the log-probabilities of a record; of a document their mean over its parts."""
    if "nll" in record:
        parts = next(record[key] for key in ("n_tokens", "n_words", "n_bytes") if key in record)
        return [-record["nll"] / parts]
    return [*record.get("option_logprobs", ()), *record.get("shared_logprobs", ())]


def compare(ours: Sequence[Record], reference: Sequence[Record]) -> dict[str, Any]:
    """Return how far two evaluations of the same items agree.

    ``items``; ``equal_predictions``, the share of items with the same option (None where items
    have none); ``largest_difference`` of a log-probability in nats (None for answers; per token
    or word for documents); ``equal_answers``, the share of generated answers that are the same text
    (None where nothing is generated). Raises ValueError when the items are not the same or a
    log-probability is not a number.
    """
    pairs = list(zip(ours, reference, strict=True))
    if any(a["item_id"] != b["item_id"] or a.get("perm") != b.get("perm") for a, b in pairs):
        raise ValueError("the two evaluations do not have the same items")

    def share(key: str) -> float | None:
        same = [a[key] == b[key] for a, b in pairs if key in a]
        return sum(same) / len(same) if same else None

    gaps = [abs(x - y) for a, b in pairs for x, y in zip(_logprobs(a), _logprobs(b), strict=True)]
    if any(map(math.isnan, gaps)):
        raise ValueError("a log-probability is not a number")
    return {
        "items": len(pairs),
        "equal_predictions": share("pred"),
        "largest_difference": round(max(gaps), DIGITS) if gaps else None,
        "equal_answers": share("response_sha256"),
    }


def complaint(found: Mapping[str, Any]) -> list[str] | None:
    """Return the figures that disagree more than rounding explains, None if none does."""
    return [
        name
        for name, (least, largest) in BOUNDS.items()
        if found[name] is not None and not least <= found[name] <= largest
    ] or None
