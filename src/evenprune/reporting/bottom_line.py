"""The bottom line of a run: what held, what did not, what was not tested.

Of a run with the table claims it lists the paper's claims, each after its verdict, and in an
invented world what its dense models learned of what is planted. Of any other run it is what pruning
did to each model.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from scipy.stats import linregress

from ..base.reading import expected_form, iter_csv
from .claims import verdict
from .claims.verdict import Finding
from .fields import Run
from .labels import TASK_LABELS, model_label
from .tables import answer

# Verdicts in the order of the page, with their heads.
HEADS = {
    verdict.SUPPORTED: "Held",
    verdict.IN_DIRECTION: "Held jointly, not one by one",
    verdict.NOT_SUPPORTED: "Not shown",
    verdict.CONTRADICTED: "Did not hold",
    verdict.NOT_TESTED: "Not tested here",
}


def read_world(path: Path) -> dict[str, tuple[int, float, float]]:
    """Return "model on task" -> (items, slope, correlation) of measured on planted log-odds.

    ``path`` is the world.csv of ``report-world``. Raises UserError where it has another form.
    """
    remedy = "run report-world again"
    names = ("model", "items", "planted", "measured")
    lines = {}
    with expected_form("planted and measured log-odds", path, remedy):
        rows = [row for _, row in iter_csv(path, names, what="a page of the world", remedy=remedy)]
        frame = pd.DataFrame(rows, columns=list(names))
        frame = frame.astype({"planted": float, "measured": float})
    for (model, task), pairs in frame.groupby(["model", "items"], sort=False):
        if pairs["planted"].nunique() > 1 and pairs["measured"].nunique() > 1:
            line = linregress(pairs["planted"], pairs["measured"])
            lines[f"{model} {task}"] = (len(pairs), float(line.slope), float(line.rvalue))
    return lines


def counted(found: Sequence[Finding]) -> str:
    """Return how many claims have which verdict, in words."""
    numbers = {name: sum(one.verdict == name for one in found) for name in HEADS}
    words = [f"{count} {name}" for name, count in numbers.items() if count]
    return f"Of {len(found)} claims of the paper, {', '.join(words)}."


def bottom_line(run: Run, world: Mapping[str, tuple[int, float, float]]) -> list[tuple[str, str]]:
    """Return the bottom line as (head, text), one a verdict that occurs."""
    sheet = run.sheet
    if "claims" not in sheet.config.tables:
        lines = [("Bottom line", "Each pruned model against its dense one, on the same items.")]
        lines = [("Bottom line", "Each pruned model against its dense one, on the same items.")]
        return lines + [(one.name, " ".join(one.sentences)) for one in answer.answers(run)]
    found = verdict.findings(sheet, run.results, run.significance)
    invented = sheet.config.source == "world"
    where = (
        f"All numbers were measured in a small invented world (seed {sheet.config.world.seed}) "
        "with models trained for it. They test the methods where the planted bias is known and "
        "are not the numbers of the paper."
        if invented
        else "All numbers were measured by this workflow. Where the paper prints a counterpart, "
        "the table beneath has it next to ours."
    )
    lines = [("Bottom line", f"{counted(found)} {where}")]
    for name, head in HEADS.items():
        mine = [one for one in found if one.verdict == name]
        if name == verdict.NOT_TESTED:
            lines += [(head, _topics(mine))] if mine else []
            continue
        # The verdict stands before each claim: nobody takes a refuted one for a result.
        for one in mine:
            reason = f" ({one.reason})" if one.reason else ""
            lines.append((head, f"Claim: {one.claim.text}{reason}"))
    if invented:
        lines.append(("World and controls", _world_words(run, world)))
    return lines


def _topics(found: Sequence[Finding]) -> str:
    """Return claims that were not tested, with what the run lacks for them."""
    by_reason: dict[str, list[str]] = {}
    for one in found:
        by_reason.setdefault(one.reason or "no comparison", []).append(one.claim.text.rstrip("."))
    return " ".join(
        f"Claims: {'; '.join(texts)} (not tested: {reason})." for reason, texts in by_reason.items()
    )


def _world_words(run: Run, world: Mapping[str, tuple[int, float, float]]) -> str:
    """Return what the dense models learned of the planted leans, and where the controls are."""
    by_model: dict[str, list[str]] = {}
    for name, (items, slope, r) in world.items():
        model, _, task = name.rpartition(" ")
        label = TASK_LABELS.get(task, task)
        by_model.setdefault(model, []).append(f"{label} {slope:.2f} (r {r:.2f}, n = {items:,})")
    parts = [
        f"{model_label(run.sheet, model) if model in run.sheet.config.models else model}: "
        f"{', '.join(texts)}"
        for model, texts in by_model.items()
    ]
    text = ""
    if parts:
        text = (
            "Slope of the dense models' preferences on the planted log-odds (1: learned in full, "
            f"0: not at all): {'; '.join(parts)}. "
        )
    return text + (
        "Negative controls (shuffled and random partners, a reversed sign, text alone) are no part "
        "of this run: snakemake controls compares with them over several worlds."
    )
