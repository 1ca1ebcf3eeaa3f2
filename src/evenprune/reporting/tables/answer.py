"""What pruning did to each model, and whether it is less fair than the dense one."""

from dataclasses import dataclass, replace

from ...plan.facts import NO_CALIBRATION
from ...plan.grids import Checkpoint
from ...plan.run_sheet import RunSheet
from ...stats import directions
from ...stats.directions import FAIRER, NOT_TESTED, gain, judge
from ..cells import OURS, Field, Run
from ..described import WIDEST, fields_of, points_of
from ..labels import REGIME_LABELS, TASK_GROUPS, calibration_label, method_label, model_label
from ..render import Table
from ..results import POINT, Group, dense_group, experiment_of, groups
from . import rows

MARGIN = 1.05  # a perplexity above this ratio is worse
LOST = "ability lost"
WORDS = {directions.NOT_SHOWN: "no change shown", directions.WORSE: LOST}
COST = "worse, not tested"  # of a perplexity
IN_FULL = {"PPL": "Perplexity", "CP": "CrowS-Pairs"}
LOOKS = {**directions.LOOKS, LOST: "bad"}


@dataclass(frozen=True)
class Line:
    """One measure of a pruned model next to its dense one, as shown."""

    measure: str
    kind: str
    dense: str
    pruned: str
    difference: str
    verdict: str

    @property
    def look(self) -> str:
        """Whether the verdict is good or bad news; "" for neither."""
        return LOOKS.get(self.verdict, "")


@dataclass(frozen=True)
class Answer:
    """What pruning did to one model: its name, a line a measure, and the same in sentences."""

    name: str
    lines: tuple[Line, ...]
    sentences: tuple[str, ...]


def build(run: Run, slug: str) -> Table:
    """Return the usual rows, with words on each pruned checkpoint."""
    table = rows.build(run, slug)
    fields = fields_of(run, slug)
    said: dict[tuple[str, ...], str] = {
        group.key: " ".join(sentences(lines_of(run, group, fields)))
        for group in groups(points_of(run, slug))
    }
    lines = []
    for row in table.rows:
        if row.kind != "heading":
            words = said.get(tuple(row.identity[name] for name in POINT), "")
            row = replace(row, labels=(*row.labels, words))
        lines.append(row)
    return replace(table, heads=(*table.heads, "Against the dense model"), rows=tuple(lines))


def answers(run: Run) -> list[Answer]:
    """Return what pruning did to each model of the run's widest experiment.

    Those by Debias-SparseGPT come first: the page folds what is left of many.
    """
    sheet = run.sheet
    fields = fields_of(run, "answer")
    shown = groups(sheet.experiment(experiment_of(sheet, WIDEST), "the bottom line"))
    found = []
    for group in sorted(shown, key=lambda one: sheet.base_method(one.method) != OURS):
        if lines := lines_of(run, group, fields):
            name = name_of(sheet, group.checkpoints()[0])
            found.append(Answer(name, tuple(lines), tuple(sentences(lines))))
    return found


def name_of(sheet: RunSheet, point: Checkpoint) -> str:
    """Return a checkpoint's name in words: model, method, sparsity, and calibration if any."""
    words = [model_label(sheet, point.model), method_label(sheet, point.method)]
    if not point.is_base:
        words.append(REGIME_LABELS[point.regime])
        used = {one.calibration for one in sheet.files} - {NO_CALIBRATION}
        if point.calibration in used and len(used) > 1:
            words.append(calibration_label(sheet, point.calibration))
    return ", ".join(words)


def lines_of(run: Run, group: Group, fields: list[Field]) -> list[Line]:
    """Return a line for each benchmark of a pruned checkpoint; none for a dense one.

    A fairer score of a model that lost ability is called so: guessing looks fair.
    """
    dense, found = dense_group(run.sheet, group.model), list[Line]()
    for field in fields:
        slug = field.quantity.benchmark
        if group.is_base or dense is None or slug not in run.sheet.config.benchmarks:
            continue  # the distance to the optimum is no benchmark
        after, before = (run.results.of(one, field.quantity) for one in (group, dense))
        if after is None or before is None:
            continue
        column, task = field.column, run.sheet.config.benchmarks[slug].task
        measure = IN_FULL.get(column.head, column.head)
        shown = (column.show(before.value), column.show(after.value))
        kind = TASK_GROUPS[task]
        if kind == "perplexity":
            ratio = after.value / before.value
            verdict = COST if ratio > MARGIN else NOT_TESTED
            found.append(Line(measure, kind, *shown, f"× {ratio:.3g}", verdict))
            continue
        test = run.significance.against_dense(group, slug, field.quantity.metric)
        verdict, difference = NOT_TESTED, "–"
        if test and test["diff"] is not None:
            difference = column.show(test["diff"], True)
            ends = [test["low"], test["high"]]
            if ends == [0, 0]:
                difference += f", {directions.UNCHANGED}"
            elif None not in ends:
                difference += f" [{', '.join(column.show(end, True) for end in ends)}]"
            better = gain(task, field.quantity.metric, after.value, before.value) > 0
            verdict = judge(kind == "fairness", test["p_holm"], better)
            verdict = WORDS.get(verdict, verdict)
        found.append(Line(measure, kind, *shown, difference, verdict))
    verdicts = {line.verdict for line in found}
    cost = LOST if LOST in verdicts else "perplexity up" if COST in verdicts else ""
    return [
        replace(line, verdict=f"{FAIRER}, {cost}") if line.verdict == FAIRER and cost else line
        for line in found
    ]


def sentences(lines: list[Line]) -> list[str]:
    """Return up to three sentences: on perplexity, on ability and on bias."""
    said = [
        f"Perplexity goes from {line.dense} to {line.pruned} ({line.difference})."
        for line in lines
        if line.kind == "perplexity"
    ]
    for kind, head in (("performance", "Ability"), ("fairness", "Bias")):
        found: dict[str, list[str]] = {}
        for line in lines:
            if line.kind == kind:
                found.setdefault(line.verdict, []).append(line.measure)
        # What was shown comes first.
        order = sorted(found, key=(WORDS[directions.NOT_SHOWN], NOT_TESTED).__contains__)
        parts = [f"{verdict} on {', '.join(found[verdict])}" for verdict in order]
        if parts:
            said.append(f"{head}: {'; '.join(parts)}.".replace("Ability: ability ", "Ability: "))
    return said
