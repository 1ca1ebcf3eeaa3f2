"""The bottom line of a run: what held, what did not, what was not tested.

Of a run with the table claims it follows from the verdicts on the paper's claims, and in an
invented world from what its dense models have learned of what is planted. Of any other run it is
what pruning did to each model.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..base.reading import expected_form, iter_csv
from ..plan.facts import NO_CALIBRATION
from .claims import verdict
from .claims.verdict import Finding
from .described import WIDEST, experiment_of, fields_of
from .fields import Run
from .labels import REGIME_LABELS, TASK_LABELS, calibration_label, method_label, model_label
from .results import groups
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
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    names = ("model", "items", "planted", "measured")
    with expected_form("planted and measured log-odds", path, remedy):
        for _, row in iter_csv(path, names, what="a page of the world", remedy=remedy):
            pair = (float(row["planted"]), float(row["measured"]))
            found.setdefault((row["model"], row["items"]), []).append(pair)
    lines = {}
    for (model, task), pairs in found.items():
        planted, measured = np.array(pairs).T
        if len(pairs) > 1 and planted.std() and measured.std():
            slope = float(np.polyfit(planted, measured, 1)[0])
            r = float(np.corrcoef(planted, measured)[0, 1])
            lines[f"{model} {task}"] = (len(pairs), slope, r)
    return lines


def counted(found: Sequence[Finding]) -> str:
    """Return how many claims have which verdict, in words."""
    numbers = {name: sum(one.verdict == name for one in found) for name in HEADS}
    words = [f"{count} {name}" for name, count in numbers.items() if count]
    return f"Of {len(found)} claims of the paper, {', '.join(words)}."


def _texts(found: Iterable[Finding]) -> str:
    return " ".join(
        one.claim.text + (f" ({one.reason})" if one.reason and one.ours else "") for one in found
    )


def bottom_line(run: Run, world: Mapping[str, tuple[int, float, float]]) -> list[tuple[str, str]]:
    """Return the bottom line as (head, text), one a verdict that occurs."""
    sheet = run.sheet
    if "claims" not in sheet.config.tables:
        return _answers(run)
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
        if mine and name == verdict.NOT_TESTED:
            lines.append((f"{head} ({len(mine)})", _topics(mine)))
        elif mine:
            lines.append((f"{head} ({len(mine)})", _texts(mine)))
    if invented:
        lines.append(("World and controls", _world_words(run, world)))
    return lines


def _answers(run: Run) -> list[tuple[str, str]]:
    """Return what pruning did to each model in words, of a run that does not test the claims."""
    sheet, fields = run.sheet, fields_of(run, "answer")
    shown = groups(sheet.experiment(experiment_of(sheet, WIDEST), "the bottom line"))
    several = len({group.calibration for group in shown} - {NO_CALIBRATION}) > 1
    lines = [("Bottom line", "Each pruned model against its dense one, on the same items:")]
    for group in shown:
        said = answer.words(run, group, fields)
        if said:
            parts = [model_label(sheet, group.model), method_label(sheet, group.method)]
            if several and group.calibration != NO_CALIBRATION:
                parts.append(calibration_label(sheet, group.calibration))
            lines.append((", ".join([*parts, REGIME_LABELS[group.regime]]), said))
    return lines


def _topics(found: Sequence[Finding]) -> str:
    """Return claims that were not tested, with what the run lacks for them."""
    by_reason: dict[str, list[str]] = {}
    for one in found:
        by_reason.setdefault(one.reason or "no comparison", []).append(one.claim.text.rstrip("."))
    return " ".join(f"{'; '.join(texts)}: {reason}." for reason, texts in by_reason.items())


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
