"""The paper's statements against its own numbers: errata first, then what is in order."""

from ..errata.checks import checked
from ..errata.paper import CONTRADICTED, IN_ORDER, OPEN
from ..fields import Run
from ..render import Rule, Table, TableRow

HEADINGS = {
    CONTRADICTED: "Contradicted by the printed numbers",
    OPEN: "Not shown by the printed numbers",
    IN_ORDER: "Checked and in order",
}


def build(run: Run, slug: str) -> Table:
    """Return the paper's statements against its printed numbers, with the arithmetic."""
    checks = checked()
    rows: list[TableRow] = []
    for state, heading in HEADINGS.items():
        found = [check for check in checks if check.state == state]
        rule: Rule = "full" if rows else ""
        if found:
            rows.append(TableRow((f"{heading} ({len(found)})",), kind="heading", rule=rule))
        for check in found:
            said = f"“{check.statement}” ({check.place})" if check.statement else check.place
            follows = "" if state == IN_ORDER else check.follows
            identity = {
                "erratum": check.slug,
                "state": state,
                "topic": check.topic,
                "place": check.place,
                "statement": check.statement,
                "arithmetic": check.arithmetic,
                "follows": follows,
            }
            labels = (f"{check.topic}: {said}", check.arithmetic, follows)
            rows.append(TableRow(labels, identity=identity, rule="dashed"))
    return Table(
        slug,
        "Errata: what the paper states, in its own words, against the numbers that it prints.",
        ("Statement", "Arithmetic", "What follows"),
        (),
        tuple(rows),
        (
            "Every number is one that the paper prints or states, or a source named beside it, or "
            "is computed from these; nothing here was measured in this run. DTO is recomputed from "
            "the printed MMLU and UnQover. In brackets behind unsafe counts: Wilson's 95 % "
            "interval.",
        ),
        widths=(0.27, 0.43, 0.22),
    )
