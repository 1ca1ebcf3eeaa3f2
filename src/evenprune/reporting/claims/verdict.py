"""Evidence for the paper's claims and the verdicts on them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from ...analysis.results import Results
from ...plan.run_sheet import RunSheet
from ...stats import inference
from . import builders
from .numbers import Comparison, Key, Numbers, PrintedNumbers, RunNumbers

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
        """Return the claim's comparisons: of the function ``by`` of ``builders``."""
        found: list[Comparison] = getattr(builders, self.by)(numbers, **self.options)
        return found


TEXT = Path(__file__).with_name(DATA_FILES[0]).read_text(encoding="utf-8")
CLAIMS = tuple(Claim(**one) for one in yaml.safe_load(TEXT))


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

    def counts(self) -> tuple[int, int]:
        """Return how many of our comparisons count for and against the claim."""
        return _counts(self.ours, self.adjusted)


def _counts(comparisons: Iterable[Comparison], adjusted: Mapping[Key, float]) -> tuple[int, int]:
    clear = [c for c in comparisons if adjusted.get(c.key, 1.0) < ALPHA]
    return sum(c.lead > 0 for c in clear), sum(c.lead < 0 for c in clear)


def adjust(comparisons: Iterable[Comparison]) -> dict[Key, float]:
    """Return Holm's adjusted p of every distinct comparison that has a p-value."""
    return inference.holm({c.key: c.p_value for c in comparisons})


def joint_p(comparisons: Iterable[Comparison]) -> float | None:
    """Return p of the joint test of the table's notes, None for fewer than two z scores."""
    scores = [z for c in comparisons if (z := c.z_score) is not None]
    if len(scores) < 2:
        return None
    return 2 * inference.t_tail(abs(fmean(scores)))


def verdict(
    comparisons: Sequence[Comparison],
    adjusted: Mapping[Key, float],
    most: bool = False,
    joint: float | None = None,
) -> str:
    """Return the verdict by the rule in the table's notes; ``joint``: the adjusted joint p."""
    tested = [c for c in comparisons if c.key in adjusted]
    if not tested:
        return NOT_TESTED
    supporting, opposing = _counts(tested, adjusted)
    together = all(c.lead > 0 for c in comparisons) and joint is not None and joint < ALPHA
    short = IN_DIRECTION if together else NOT_SUPPORTED
    if most:
        half = len(tested) / 2
        if supporting > half:
            return SUPPORTED
        return CONTRADICTED if opposing > half else short
    if opposing:
        return CONTRADICTED
    return SUPPORTED if supporting == len(tested) else short


def findings(run_sheet: RunSheet, results: Results) -> list[Finding]:
    """Return all claims with evidence and verdict, in the order of ``CLAIMS``."""
    numbers, printed = RunNumbers(run_sheet, results), PrintedNumbers()
    built: list[tuple[Claim, list[Comparison], list[str]]] = []
    for claim in CLAIMS:
        numbers.missing = {}
        built.append((claim, claim.build(numbers), list(numbers.missing)))
    adjusted = adjust(c for _, comparisons, _ in built for c in comparisons)
    joint = inference.holm({claim.slug: joint_p(ours) for claim, ours, _ in built})
    found = []
    for claim, ours, missing in built:
        reason = ""
        if not ours:
            reason = f"this run lacks {' and '.join(missing[:2])}"
            reason += f" and {len(missing) - 2} more" if len(missing) > 2 else ""
        elif not any(c.key in adjusted for c in ours):
            reason = "measured without a standard error"
        found.append(
            Finding(
                claim,
                tuple(claim.build(printed)),
                tuple(ours),
                adjusted,
                verdict(ours, adjusted, claim.most, joint.get(claim.slug)),
                reason,
                joint.get(claim.slug),
            )
        )
    return found


def printed_evidence(finding: Finding) -> str:
    """Return in how many printed comparisons a claim holds, and their range by unit."""
    comparisons = finding.printed
    if not comparisons:
        return "–"
    wins, ties, losses, p = inference.sign_test([c.lead for c in comparisons])
    text = f"{wins} of {len(comparisons)} as claimed"
    text += f", {ties} at the limit" if ties else ""
    text += f", {losses} against" if losses else ""
    parts = []
    for unit in dict.fromkeys(c.unit for c in comparisons):
        same = sorted((c for c in comparisons if c.unit == unit), key=lambda c: c.difference.value)
        low, high = (c.show(c.difference.value) for c in (same[0], same[-1]))
        what = {"points": " points", "dto": " DTO", "relative": ""}[unit]
        parts.append(f"{low}{what}" if low == high else f"{low} to {high}{what}")
    text += f" ({'; '.join(parts)})"
    return text + (f"; sign test {inference.p_text(p)}" if len(comparisons) >= 6 else "")


def describe(comparison: Comparison, adjusted: Mapping[Key, float]) -> str:
    """Return one comparison as text: difference, simultaneous interval, adjusted p, n."""
    difference = comparison.difference
    text = f"{comparison.label} {comparison.show(difference.value)}"
    half = difference.half_width(1 - ALPHA, tests=len(adjusted)) if adjusted else None
    if half is not None:
        ends = [comparison.show(difference.value + sign * half) for sign in (-1, 1)]
        text += f" [{ends[0]}, {ends[1]}], {inference.p_text(adjusted[comparison.key])}"
    elif comparison.exact_p is not None:
        text += f", {inference.p_text(adjusted[comparison.key])}"
    return text + (f", n = {difference.n:,}" if difference.n else "")


SHOWN = 3  # comparisons spelled out; of more, the weakest and the strongest


def our_evidence(finding: Finding) -> str:
    """Return our comparisons as text: counts, then all of them or the two extremes."""
    ours, adjusted = finding.ours, finding.adjusted
    if not ours:
        return "–"
    if len(ours) <= SHOWN:
        return "; ".join(describe(c, adjusted) for c in ours)
    supporting, opposing = finding.counts()
    text = f"{sum(c.lead > 0 for c in ours)} of {len(ours)} as claimed, {supporting} clearly; "
    text += f"{opposing} clearly against"
    text += f"; joint {inference.p_text(finding.joint)}" if finding.joint is not None else ""

    def strength(comparison: Comparison) -> float:
        stderr = comparison.difference.stderr
        return comparison.lead / stderr if stderr else comparison.lead

    ordered = sorted(ours, key=strength)
    weakest, strongest = describe(ordered[0], adjusted), describe(ordered[-1], adjusted)
    return f"{text}. Weakest: {weakest}. Strongest: {strongest}"
