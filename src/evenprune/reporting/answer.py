"""What pruning did to each model, and whether it is less fair than the dense one."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..analysis.labels import column_order, measure_label, point_label
from ..analysis.results import OURS, WIDEST, Group, Run, dense_group, groups
from ..stats import verdicts
from ..stats.verdicts import LOST, NOT_TESTED, UNDECIDED, metrics_of
from . import rows
from .rows import show_difference
from .tables import Column, Table, benchmark_column


@dataclass(frozen=True)
class Line:
    """One measure of a pruned model next to its dense one, as shown.

    ``seen`` is the smallest change that would have been seen, "" where the verdict decides;
    ``reason`` is why the measure says nothing.
    """

    measure: str
    kind: str
    dense: str
    pruned: str
    difference: str
    verdict: str
    seen: str = ""
    reason: str = ""

    @property
    def open(self) -> bool:
        """Whether the verdict leaves open if anything changed for better or worse."""
        return self.verdict in (*UNDECIDED, NOT_TESTED)

    @property
    def look(self) -> str:
        """Whether the verdict is good or bad news; "" for neither."""
        return verdicts.LOOKS.get(self.verdict, "")


@dataclass(frozen=True)
class Answer:
    """What pruning did to one model: its name, a line a measure, and the same in sentences."""

    name: str
    lines: list[Line]
    sentences: list[str]

    @property
    def decided(self) -> list[Line]:
        """The lines whose verdict says something."""
        return [one for one in self.lines if not one.open and not one.reason]

    @property
    def undecided(self) -> list[Line]:
        """The lines of which no change was shown, or that were not tested."""
        return [one for one in self.lines if one.open]


def build(run: Run, slug: str) -> Table:
    """Return the usual rows, with words on each pruned checkpoint."""
    return rows.build(run, slug, lambda group: (" ".join(sentences(lines_of(run, group))),))


def answers(run: Run) -> list[Answer]:
    """Return what pruning did to each model of the run's widest experiment.

    Those by Debias-SparseGPT come first: the page folds what is left of many.
    """
    shown = groups(run.points(WIDEST, "the bottom line"))
    return [
        Answer(point_label(run.sheet, group), lines, sentences(lines))
        for group in sorted(shown, key=lambda one: run.sheet.base_method(one.method) != OURS)
        if (lines := lines_of(run, group))
    ]


NEWS = {  # kinds of measures, and the verdicts that are counted, with more words behind them or not
    "Ability": (("perplexity", "performance"), (verdicts.WORSE, verdicts.BETTER)),
    "Bias": (("fairness",), (verdicts.LESS_FAIR, verdicts.FAIRER)),
}


def summary(found: Sequence[Answer]) -> list[str]:
    """Return a sentence on ability and one on bias, over all pruned models; none without any."""
    said = []
    models = "1 pruned model" if len(found) == 1 else f"{len(found)} pruned models"
    for head, (kinds, news) in NEWS.items():
        places = enumerate(found)
        shown = [(k, line) for k, one in places for line in one.lines if line.kind in kinds]
        parts = []
        for word in news:
            told = [(k, line) for k, line in shown if line.verdict.startswith(word)]
            counts = Counter(line.measure for _, line in told)
            where = ", ".join(f"{measure}: {count}" for measure, count in counts.items())
            parts.append(f"{word} in {len(dict(told))} of {models}" + f" ({where})" * bool(told))
        lost = len({k for k, line in shown if line.verdict == LOST})
        if lost:
            parts.append(f"{lost} of these lost ability, and a model that guesses shows no bias")
        if shown:
            said.append(f"{head}: {'; '.join(parts)}.")
    return said


def compared(
    run: Run, group: Group
) -> Iterator[tuple[Column, float, float, dict[str, Any] | None]]:
    """Yield each measure that both models have: dense, pruned, and the test of the difference.

    The measures are those of ``evenprune compare``.
    """
    dense = dense_group(run.sheet, group.model)
    if group.is_base or dense is None:
        return
    for slug, entry in column_order(run.sheet).items():
        for metric in metrics_of(entry.task, entry.headline):
            column = benchmark_column(run.sheet, slug, metric)
            before, after = (run.results.of(one, column.quantity) for one in (dense, group))
            if before and after:
                column = replace(column, head=measure_label(run.sheet, slug, metric))
                test = run.significance.against_dense(group, slug, metric)
                yield column, before.value, after.value, test


def lines_of(run: Run, group: Group) -> list[Line]:
    """Return a line for each compared measure of a pruned checkpoint; none for a dense one.

    What is decided comes first.
    """
    lines: list[Line] = []
    for column, before, after, test in compared(run, group):
        head = (column.head, column.group, column.show(before), column.show(after))
        if not test or test["diff"] is None:
            plain: dict[str, Any] = {"form": "", "diff": after - before}
            if column.group == "perplexity":
                plain = {"form": "ratio", "diff": after / before}
            lines.append(Line(*head, show_difference(column, plain), NOT_TESTED))
            continue
        seen = seen_words(column, test) if test["verdict"] in UNDECIDED else ""
        words = difference_words(column, test)
        lines.append(Line(*head, words, test["verdict"], seen, test["reason"] or ""))
    return sorted(lines, key=lambda line: line.open)


def difference_words(column: Column, test: Mapping[str, Any]) -> str:
    """Return a difference, or ratio, with the interval that goes with its verdict."""
    words = show_difference(column, test)
    ends = [test["family_low"], test["family_high"]]
    if None in ends:
        return words
    if ends == [1, 1] if test["form"] == "ratio" else ends == [0, 0]:
        return f"{words}, {verdicts.UNCHANGED}"
    low, high = (show_difference(column, test, f"family_{end}") for end in ("low", "high"))
    return f"{words} [{low}, {high}]".replace("[× ", "[").replace(", × ", ", ")


def seen_words(column: Column, test: Mapping[str, Any]) -> str:
    """Return the smallest change that would have been seen, in the unit of the difference."""
    worse, better = (
        "none" if test[name] is None else show_difference(column, test, name, signed=False)
        for name in ("detectable", "detectable_better")
    )
    return worse if worse == better else f"{worse} for the worse, {better} for the better"


def sentences(lines: list[Line]) -> list[str]:
    """Return sentences on perplexity, on ability, on bias, and on measures that say nothing."""
    said = [
        f"{line.measure} goes from {line.dense} to {line.pruned} ({line.difference}: "
        f"{line.verdict})."
        for line in lines
        if line.kind == "perplexity"
    ]
    for kind, head in (("performance", "Ability"), ("fairness", "Bias")):
        measures: dict[str, list[str]] = {}
        for line in lines:
            if line.kind == kind and not line.reason:
                size = f" (could have seen {line.seen})" if line.seen else ""
                measures.setdefault(line.verdict, []).append(line.measure + size)
        # What was shown comes first.
        order = sorted(measures, key=(*UNDECIDED, NOT_TESTED).__contains__)
        parts = [f"{verdict} on {', '.join(measures[verdict])}" for verdict in order]
        if parts:
            said.append(f"{head}: {'; '.join(parts)}.")
    silent = [f"{line.measure} ({line.reason})" for line in lines if line.reason]
    if silent:
        said.append(f"Left out, as the dense model is too weak there: {', '.join(silent)}.")
    return said
