"""The table of the paper's claims: printed and measured evidence, and the verdict on each."""

from collections.abc import Mapping

from ..analysis.claims import ALPHA, Finding, findings
from ..analysis.comparisons import Comparison, Key
from ..analysis.run import Run
from ..stats import inference
from .cells import made
from .tables import Row, Table

SHOWN = 3  # comparisons spelled out; of more, the weakest and the strongest


def printed_evidence(finding: Finding) -> str:
    """Return in how many printed comparisons a claim holds, and their range by unit; "" of none."""
    printed = finding.printed
    if not printed:
        return ""
    wins, ties, losses, p = inference.sign_test([c.lead for c in printed])
    text = f"{wins} of {len(printed)} as claimed"
    text += f", {ties} at the limit" if ties else ""
    text += f", {losses} against" if losses else ""
    parts = []
    for unit in dict.fromkeys(c.unit for c in printed):
        same = sorted((c for c in printed if c.unit == unit), key=lambda c: c.difference.value)
        low, high = (c.show(c.difference.value) for c in (same[0], same[-1]))
        what = {"points": " points", "dto": " DTO", "relative": ""}[unit]
        parts.append(f"{low}{what}" if low == high else f"{low} to {high}{what}")
    text += f" ({'; '.join(parts)})"
    return text + (f"; sign test {inference.p_text(p)}" if len(printed) >= 6 else "")


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
        identity = {"claim": claim.slug}
        identity |= {name: getattr(claim, name) for name in ("wording", "text", "place")}
        identity |= {"printed": printed, "comparisons": str(len(finding.ours))}
        identity |= {"clearly_for": str(supporting), "clearly_against": str(opposing)}
        identity["evidence"] = "; ".join(describe(c, finding.adjusted) for c in finding.ours)
        identity["joint_p"] = "" if finding.joint is None else f"{finding.joint:.3g}"
        identity |= {"verdict": finding.verdict, "reason": finding.reason}
        said = f"“{claim.wording}” ({claim.place}). Tested: {claim.text}"
        labels = (said, printed or "–", measured, finding.verdict)
        rows.append(Row(labels, identity=identity, rule="dashed" if rows else ""))
    return made(run, slug, rows)
