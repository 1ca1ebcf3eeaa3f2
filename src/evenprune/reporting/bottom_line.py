"""The bottom line of a run: what held, what did not, what was not tested.

Of a run with the table claims it lists the paper's claims, each after its verdict. Of any other run
it is what pruning did to each model.
"""

from collections.abc import Sequence

from .cells import Run
from .claims import verdict
from .claims.verdict import Finding
from .tables import answer

# Verdicts in the order of the page, with their heads.
HEADS = {
    verdict.SUPPORTED: "Held",
    verdict.IN_DIRECTION: "Held jointly, not one by one",
    verdict.NOT_SUPPORTED: "Not shown",
    verdict.CONTRADICTED: "Did not hold",
    verdict.NOT_TESTED: "Not tested here",
}


def counted(found: Sequence[Finding]) -> str:
    """Return how many claims have which verdict, in words."""
    numbers = {name: sum(one.verdict == name for one in found) for name in HEADS}
    words = [f"{count} {name}" for name, count in numbers.items() if count]
    return f"Of {len(found)} claims of the paper, {', '.join(words)}."


def bottom_line(run: Run) -> list[tuple[str, str]]:
    """Return the bottom line as (head, text), one a verdict that occurs."""
    sheet = run.sheet
    if "claims" not in sheet.config.tables:
        pruned = answer.answers(run)
        about = "Each pruned model against its dense one, on the same items."
        lines = [("Bottom line", " ".join([about, *answer.summary(pruned)]))]
        return lines + [(one.name, " ".join(one.sentences)) for one in pruned]
    found = verdict.findings(sheet, run.results)
    where = "Where the paper prints a number too, the table has it next to ours."
    if sheet.config.source == "world":
        where = (
            f"All numbers were measured in a small invented world (seed {sheet.config.world.seed}) "
            "with models trained for it. They test the methods where the planted bias is known and "
            "are not the numbers of the paper. report/world.html shows what the dense models "
            "learned; snakemake controls compares with negative controls."
        )
    lines = [("Bottom line", f"{counted(found)} {where}")]
    for name, head in HEADS.items():
        mine = [one for one in found if one.verdict == name]
        # The verdict stands before each claim: nobody takes a refuted one for a result.
        for one in mine:
            reason = f" ({one.reason})" if one.reason else ""
            lines.append((head, f"Claim: {one.claim.text}{reason}"))
    return lines
