"""The paper's claims with printed and measured evidence and a verdict on each."""

from ..cells import Run
from ..claims import verdict
from ..described import made
from ..render import Table, TableRow


def build(run: Run, slug: str) -> Table:
    """Return the paper's claims with printed and measured evidence and a verdict on each."""
    rows: list[TableRow] = []
    for finding in verdict.findings(run.sheet, run.results):
        claim, found = finding.claim, finding.verdict
        printed, ours = verdict.printed_evidence(finding), verdict.our_evidence(finding)
        measured = ". ".join(one for one in (ours.strip("–"), finding.reason) if one)
        supporting, opposing = finding.counts()
        identity = {
            "claim": claim.slug,
            "wording": claim.wording,
            "text": claim.text,
            "place": claim.place,
            "printed": "" if printed == "–" else printed,
            "comparisons": str(len(finding.ours)),
            "clearly_for": str(supporting),
            "clearly_against": str(opposing),
            "evidence": "; ".join(verdict.describe(c, finding.adjusted) for c in finding.ours),
            "joint_p": "" if finding.joint is None else f"{finding.joint:.3g}",
            "verdict": found,
            "reason": finding.reason,
        }
        said = f"“{claim.wording}” ({claim.place}). Tested: {claim.text}"
        labels = (said, printed, measured, found)
        rows.append(TableRow(labels, identity=identity, rule="dashed" if rows else ""))
    return made(run, slug, rows)
