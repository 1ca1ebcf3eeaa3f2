"""The paper's claims, each with its comparisons, printed and measured, and the verdict on it.

All distinct comparisons are one family for Holm's correction. The notes of the table claims
(``tables.yaml``) say how a verdict follows.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from ..io.yamlfile import own_yaml
from ..stats import inference
from . import comparisons
from .comparisons import Comparison, Key, Numbers, PrintedNumbers, RunNumbers
from .results import Run

DATA_FILES = ("claims.yaml",)  # part of this module's code, see codedigest.py

ALPHA = 0.05
SUPPORTED, NOT_SUPPORTED = "supported", "not supported"
IN_DIRECTION = "all in the claimed direction, jointly significant"
CONTRADICTED, NOT_TESTED = "contradicted", "not tested here"


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, and how it is compared.

    ``wording`` are the paper's words at ``place``, ``text`` what is tested for them. ``most``: not
    about all.
    """

    slug: str
    wording: str
    text: str
    place: str
    by: str
    options: Mapping[str, Any] = field(default_factory=dict)
    most: bool = False

    def build(self, numbers: Numbers) -> list[Comparison]:
        """Return the claim's comparisons: of the function ``by`` of ``comparisons``."""
        found = getattr(comparisons, self.by)(numbers, **self.options)
        return [Comparison(*one) for one in found if one[1] is not None]


CLAIMS = tuple(Claim(**one) for one in own_yaml(Path(__file__).with_name(DATA_FILES[0])))


@dataclass(frozen=True)
class Finding:
    """A claim with its printed and measured comparisons and the verdict.

    ``joint``: the adjusted p of the joint test, None for fewer than two tested comparisons.
    """

    claim: Claim
    printed: tuple[Comparison, ...]
    ours: tuple[Comparison, ...]
    adjusted: Mapping[Key, float]
    verdict: str
    reason: str
    joint: float | None = None


def counts(found: Iterable[Comparison], adjusted: Mapping[Key, float]) -> tuple[int, int]:
    """Return how many comparisons count for and against a claim."""
    clear = [c for c in found if adjusted.get(c.key, 1.0) < ALPHA]
    return sum(c.lead > 0 for c in clear), sum(c.lead < 0 for c in clear)


def adjust(found: Iterable[Comparison]) -> dict[Key, float]:
    """Return Holm's adjusted p of every distinct comparison that has a p-value."""
    return inference.holm({c.key: c.p_value for c in found})


def joint_p(found: Iterable[Comparison]) -> float | None:
    """Return p of the joint test of the table's notes, None for fewer than two z scores."""
    scores = [z for c in found if (z := c.z_score) is not None]
    return 2 * inference.t_tail(abs(fmean(scores))) if len(scores) > 1 else None


def verdict(
    found: Sequence[Comparison],
    adjusted: Mapping[Key, float],
    most: bool = False,
    joint: float | None = None,
) -> str:
    """Return the verdict by the rule in the table's notes; ``joint``: the adjusted joint p."""
    tested = [c for c in found if c.key in adjusted]
    if not tested:
        return NOT_TESTED
    supporting, opposing = counts(tested, adjusted)
    together = all(c.lead > 0 for c in found) and joint is not None and joint < ALPHA
    short = IN_DIRECTION if together else NOT_SUPPORTED
    half = len(tested) / 2
    enough, borne = (half, half) if most else (len(tested) - 1, 0)
    if supporting > enough:
        return SUPPORTED
    return CONTRADICTED if opposing > borne else short


@functools.lru_cache(maxsize=1)  # of a run: for the table, the page and the PDF
def findings(run: Run) -> list[Finding]:
    """Return all claims with evidence and verdict, in the order of ``CLAIMS``."""
    numbers, printed = RunNumbers(run), PrintedNumbers()
    built: list[tuple[Claim, list[Comparison], list[str]]] = []
    for claim in CLAIMS:
        numbers.missing = {}
        built.append((claim, claim.build(numbers), list(numbers.missing)))
    adjusted = adjust(c for _, ours, _ in built for c in ours)
    joint = inference.holm({claim.slug: joint_p(ours) for claim, ours, _ in built})
    rows = []
    for claim, ours, missing in built:
        reason, own = "", joint.get(claim.slug)
        if not ours:
            reason = f"this run lacks {' and '.join(missing[:2])}"
            reason += f" and {len(missing) - 2} more" if len(missing) > 2 else ""
        elif not any(c.key in adjusted for c in ours):
            reason = "measured without a standard error"
        said = verdict(ours, adjusted, claim.most, own)
        theirs = tuple(claim.build(printed))
        rows.append(Finding(claim, theirs, tuple(ours), adjusted, said, reason, own))
    return rows
