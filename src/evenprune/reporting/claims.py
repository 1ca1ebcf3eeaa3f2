"""The paper's claims, each with its printed and measured evidence, and the verdict on it.

All distinct comparisons of the table are one family for Holm's correction. The table's notes
(``tables.yaml``) say how a verdict follows.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from ..analysis.run import Run
from ..stats import inference
from . import comparisons
from .cells import made
from .comparisons import Comparison, Key, Numbers, PrintedNumbers, RunNumbers
from .tables import Row, Table

DATA_FILES = ("claims.yaml",)  # part of this module's code, see codedigest.py

ALPHA = 0.05
SUPPORTED, NOT_SUPPORTED = "supported", "not supported"
IN_DIRECTION = "all in the claimed direction, jointly significant"
CONTRADICTED, NOT_TESTED = "contradicted", "not tested here"
SHOWN = 3  # comparisons spelled out; of more, the weakest and the strongest


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
        found: list[Comparison] = getattr(comparisons, self.by)(numbers, **self.options)
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


def _counts(found: Iterable[Comparison], adjusted: Mapping[Key, float]) -> tuple[int, int]:
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
    supporting, opposing = _counts(tested, adjusted)
    together = all(c.lead > 0 for c in found) and joint is not None and joint < ALPHA
    short = IN_DIRECTION if together else NOT_SUPPORTED
    if most:
        half = len(tested) / 2
        if supporting > half:
            return SUPPORTED
        return CONTRADICTED if opposing > half else short
    if opposing:
        return CONTRADICTED
    return SUPPORTED if supporting == len(tested) else short


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
    found = []
    for claim, ours, missing in built:
        reason, own = "", joint.get(claim.slug)
        if not ours:
            reason = f"this run lacks {' and '.join(missing[:2])}"
            reason += f" and {len(missing) - 2} more" if len(missing) > 2 else ""
        elif not any(c.key in adjusted for c in ours):
            reason = "measured without a standard error"
        said = verdict(ours, adjusted, claim.most, own)
        theirs = tuple(claim.build(printed))
        found.append(Finding(claim, theirs, tuple(ours), adjusted, said, reason, own))
    return found


def printed_evidence(finding: Finding) -> str:
    """Return in how many printed comparisons a claim holds, and their range by unit; "" of none."""
    found = finding.printed
    if not found:
        return ""
    wins, ties, losses, p = inference.sign_test([c.lead for c in found])
    text = f"{wins} of {len(found)} as claimed"
    text += f", {ties} at the limit" if ties else ""
    text += f", {losses} against" if losses else ""
    parts = []
    for unit in dict.fromkeys(c.unit for c in found):
        same = sorted((c for c in found if c.unit == unit), key=lambda c: c.difference.value)
        low, high = (c.show(c.difference.value) for c in (same[0], same[-1]))
        what = {"points": " points", "dto": " DTO", "relative": ""}[unit]
        parts.append(f"{low}{what}" if low == high else f"{low} to {high}{what}")
    text += f" ({'; '.join(parts)})"
    return text + (f"; sign test {inference.p_text(p)}" if len(found) >= 6 else "")


def describe(comparison: Comparison, adjusted: Mapping[Key, float]) -> str:
    """Return one comparison as text: difference, simultaneous interval, adjusted p, n."""
    difference = comparison.difference
    text = f"{comparison.label} {comparison.show(difference.value)}"
    half = difference.half_width(1 - ALPHA, tests=len(adjusted)) if adjusted else None
    if half is not None:
        low, high = (comparison.show(difference.value + sign * half) for sign in (-1, 1))
        text += f" [{low}, {high}]"
    if half is not None or comparison.exact_p is not None:
        text += f", {inference.p_text(adjusted[comparison.key])}"
    return text + (f", n = {difference.n:,}" if difference.n else "")


def our_evidence(finding: Finding) -> str:
    """Return our comparisons as text: counts, then all of them or the two extremes."""
    ours, adjusted = finding.ours, finding.adjusted
    if len(ours) <= SHOWN:
        return "; ".join(describe(c, adjusted) for c in ours)
    supporting, opposing = finding.counts()
    text = f"{sum(c.lead > 0 for c in ours)} of {len(ours)} as claimed, {supporting} clearly; "
    text += f"{opposing} clearly against"
    text += f"; joint {inference.p_text(finding.joint)}" if finding.joint is not None else ""
    ordered = sorted(ours, key=lambda c: c.lead / (c.difference.stderr or 1.0))
    weakest, strongest = describe(ordered[0], adjusted), describe(ordered[-1], adjusted)
    return f"{text}. Weakest: {weakest}. Strongest: {strongest}"


def build(run: Run, slug: str) -> Table:
    """Return the paper's claims with printed and measured evidence and a verdict on each."""
    rows: list[Row] = []
    for finding in findings(run):
        claim, printed = finding.claim, printed_evidence(finding)
        measured = ". ".join(filter(None, [our_evidence(finding), finding.reason]))
        supporting, opposing = finding.counts()
        identity = {
            "claim": claim.slug,
            "wording": claim.wording,
            "text": claim.text,
            "place": claim.place,
            "printed": printed,
            "comparisons": str(len(finding.ours)),
            "clearly_for": str(supporting),
            "clearly_against": str(opposing),
            "evidence": "; ".join(describe(c, finding.adjusted) for c in finding.ours),
            "joint_p": "" if finding.joint is None else f"{finding.joint:.3g}",
            "verdict": finding.verdict,
            "reason": finding.reason,
        }
        said = f"“{claim.wording}” ({claim.place}). Tested: {claim.text}"
        labels = (said, printed or "–", measured, finding.verdict)
        rows.append(Row(labels, identity=identity, rule="dashed" if rows else ""))
    return made(run, slug, rows)
