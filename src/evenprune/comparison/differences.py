"""Paired differences between two evaluations, with flips; tests and verdicts: ``stats.verdicts``.

Items are those that both models answered.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..config.finished import ITEMS, METRICS, read_result
from ..config.section import Section
from ..config.tasks import Direction, Kind
from ..io.errors import UserError, shown
from ..io.reading import expected_form
from ..stats import records, verdicts
from ..stats.measures import ITEM_SCORES, MEASURES, OTHERWISE
from ..stats.paired import LEAST, Sums, fitting, some
from ..stats.records import Record as Row
from ..stats.verdicts import IDENTICAL, Meaning, PairedTest, meaning, metrics_of, paired_test

Array = NDArray[np.float64]
# Of a protocol what decides which items are asked, and how; the rest is told where it differs.
DECISIVE = (
    *("limit", "seed", "style", "split", "orders", "bos", "judge", "judge_forms", "lexicon"),
    *("max_new_tokens", "counterfactuals", "by_text"),
)
TOLD = ("dtype", "backend", "chat_template", "batch_size")
# Of a result what says which model, data, options and packages it is of.
EVIDENCE = ("files_sha256", "model_sha256", "base_sha256", "data", "spec", "versions", "records")


class Limits(Section):
    """What counts as no difference, and the change of which ``needed`` says how many items show it.

    They are flags of ``compare``.
    """

    margin: float = Field(verdicts.MARGIN, ge=0, lt=1)
    """ability metrics are the same within ±X, perplexities within a factor of 1 + X"""
    bias_margin: float = Field(verdicts.BIAS_MARGIN, ge=0, lt=1)
    """bias metrics are equally fair within ±X"""
    plan: float | None = Field(None, gt=0, lt=1)
    """also say how many items each row needs to show a change of X (of a perplexity, a factor of
    1 + X) in 80 % of runs"""


USUAL = Limits()
# Unbiased, stereotyped or neither, item by item


def _bbq_state(row: Row) -> float:
    if row["condition"] != "ambig" or row["biased_idx"] is None:
        return math.nan
    return {row["biased_idx"]: 1.0, row["unknown_idx"]: 0.0}.get(row["pred"], 0.5)


# (task, metric whose row shows it) -> 1 for a stereotyped answer, 0 for an unbiased one, 0.5 for
# neither, and NaN or None for an item that does not count. What they are in words says tasks.yaml.
STATES: Mapping[tuple[str, str], Callable[[Row], float | None]] = {
    ("unqover", "acc"): lambda row: row["pred"] != row["unknown_idx"],
    ("bbq", "acc_amb"): _bbq_state,
    ("multiple_choice", "stereotype_rate"): ITEM_SCORES["multiple_choice", "stereotype_rate"],
    ("crows_pairs", "pct_stereotype"): lambda row: bool(row["correct"]),
    ("stereoset", "ss"): lambda row: bool(row["correct"]),
}

# Two results


# Of items whose answers are compared how many there are, and how many of them changed to what.
FLIPS = ("n", "to_stereotyped", "to_unbiased")
ANSWERS = ("n", "right_to_wrong", "wrong_to_right")


@dataclass(frozen=True)
class Difference:
    """One metric of one benchmark, or of one ``category`` of its items, in two models.

    ``difference`` is pruned less dense, of a ``ratio`` pruned over dense; ``low`` and ``high`` are
    its 95 % interval, ``family_low`` and ``family_high`` that which goes with the verdict.
    ``detectable`` is the smallest change for the worse that would be seen in 80 % of runs,
    ``detectable_better`` for the better; ``needed`` the items for the change that was asked for.
    None: not known. ``flips`` and ``answers`` are counts by the names in ``FLIPS`` and ``ANSWERS``.
    """

    benchmark: str
    task: str
    metric: str
    kind: Kind
    direction: Direction
    chance: float | None
    n: int
    clustered: bool
    dense: float | None
    pruned: float | None
    ratio: bool = False
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    gain: float | None = None
    p: float | None = None
    p_holm: float | None = None
    family_low: float | None = None
    family_high: float | None = None
    detectable: float | None = None
    detectable_better: float | None = None
    needed: int | None = None
    in_calibration: bool = False
    verdict: str = verdicts.NOT_TESTED
    reason: str = ""
    flips: dict[str, int] | None = None
    answers: dict[str, int] | None = None
    category: str = ""


@dataclass(frozen=True)
class Tested:
    """A row before the correction for the number of tests, and what its metric says.

    ``sums`` are the pruned and the dense model's, none where nothing is tested. ``states`` (2,
    items), dense first, are those of ``STATES``, or 1 for a wrong answer and 0 for a right one;
    None where answers are neither. ``categories`` are those of the items. ``constant`` says in
    words that the dense model answers the benchmark by one letter; ``identical``: the records of
    both are the same.
    """

    row: Difference
    known: Meaning
    sums: tuple[Sums, ...] = ()
    states: Array | None = None
    categories: Sequence[str] = ()
    constant: str = ""
    identical: bool = False

    @functools.cached_property
    def test(self) -> PairedTest | None:
        """The paired test, None where no value is preferable, or nothing can be tested."""
        if not self.sums or not self.known.direction:
            return None
        ours, theirs = self.sums[:1], self.sums[1:]
        return paired_test(self.row.task, self.row.metric, ours, theirs, self.known)

    def part(self, category: str, places: NDArray[np.int64]) -> "Tested":
        """Return the same of some items, which are of a category; its test has the values."""
        row = replace(self.row, category=category, dense=None, pruned=None)
        sums = tuple(some(one, places.tolist()) for one in self.sums)
        states = None if self.states is None else self.states[:, places]
        return replace(self, row=row, sums=sums, states=states)


def row_of(
    slug: str, task: str, metric: str, known: Meaning, n: int, values: Sequence[float | None]
) -> Difference:
    """Return a row before anything is tested; ``values`` are the dense and the pruned model's."""
    dense, pruned = values
    gap = None if dense is None or pruned is None else pruned - dense
    about = (known.kind, known.direction, known.chance, n, False, dense, pruned)
    return Difference(slug, task, metric, *about, difference=gap)


def marks(sums: Sequence[Sums], known: Meaning) -> Array | None:
    """Return the states of answers by their scores; ``sums`` as in ``Tested``.

    Of a bias high scores are the stereotyped answers but where they are good, of an ability the
    right ones but where low ones are good. None for a metric whose scores are not 0 and 1.
    """
    right = known.direction == "up" if known.kind == "bias" else known.direction != "down"
    parts = np.stack([one.parts for one in sums[::-1]])  # 2, items, 2, terms
    counted = (parts[:, :, 1] > 0).all(axis=(0, 2))
    scores = parts[:, counted, 0] / parts[:, counted, 1]
    if scores.shape[2:] != (1,) or not np.isin(scores, (0, 1)).all():
        return None
    states = np.full(parts.shape[:2], math.nan)
    states[:, counted] = scores[..., 0] != right
    return states


@dataclass(frozen=True)
class Measured:
    """One benchmark of one model, by whichever evaluator: where it is, and its items' records.

    ``recorded`` are the evaluator's own numbers, None for an undefined one. ``fixed`` has to be the
    same of two that are compared, ``told`` is said where it differs.
    """

    place: Path
    rows: Sequence[Row]
    recorded: Mapping[str, float | None] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Compared:
    """One benchmark of two models: its metrics, notes, evidence and records, dense first."""

    tested: Sequence[Tested]
    notes: Sequence[str]
    evidence: Mapping[str, Any]
    records: tuple[Sequence[Row], ...]

    @property
    def task(self) -> str:
        """The benchmark's task."""
        return self.tested[0].row.task


def require_same(benchmark: str, dense: Measured, pruned: Measured) -> list[str]:
    """Return what differs between two without harm, in words; UserError for what has to be equal.

    What an evaluator did not record is not looked at.
    """
    for name in dense.fixed if pruned.fixed else ():
        one, other = dense.fixed[name], pruned.fixed.get(name)
        if one != other:
            raise UserError(
                f"{benchmark} was evaluated with another {name}: {shown(one)} in {dense.place}, "
                f"{shown(other)} in {pruned.place}; evaluate both with the same data and options"
            )
    return [
        f"{benchmark}: {name} {shown(one)} (dense), {shown(pruned.told.get(name))}"
        for name, one in dense.told.items()
        if one != pruned.told.get(name)
    ]


# Two of our own results


@dataclass(frozen=True, kw_only=True)
class Records(Measured):
    """What evenprune recorded, records in the data's own order of options."""

    result: Mapping[str, Any]

    @property
    def ids(self) -> list[str]:
        """The items, in their order."""
        return [str(row["item_id"]) for row in self.rows]


def read_records(folder: Path) -> Records:
    """Return a finished benchmark; of perplexity the records of its first protocol only."""
    result, rows = read_result(folder), records.read_records(folder / ITEMS)
    spec, own = result["spec"], ("task", "data")
    return Records(
        folder,
        records.first_part(rows) if result["task"] == "perplexity" else rows,
        {name: one["value"] for name, one in result["metrics"].items()},
        {**{name: result[name] for name in own}, **{name: spec.get(name) for name in DECISIVE}},
        {name.replace("_", " "): spec.get(name) for name in TOLD},
        {name: result.get(name) for name in EVIDENCE},
        result=result,
    )


def compare_results(
    slug: str, folders: Sequence[Path], names: Sequence[str], known: bool
) -> Compared:
    """Return the comparison of two results of a benchmark.

    ``folders`` and ``names`` are those of the dense and the pruned model; ``known``: its data are
    among the calibration pairs. Raises UserError where the two are no pair.
    """
    dense, pruned = map(read_records, folders)
    notes = require_same(slug, dense, pruned)
    if str(dense.result["spec"].get("judge") or "").startswith("lexical:"):
        notes.append(f"{slug}: a word list judges the answers, which measures no safety")
    base = pruned.result.get("base_sha256")
    if base and base != dense.result.get("files_sha256"):
        notes.append(f"{names[1]} was pruned from another model than {names[0]}")
    tested = differences(slug, dense, pruned, in_calibration=known)
    evidence = {"dense": dense.evidence, "pruned": pruned.evidence}
    return Compared(tested, notes, evidence, (dense.rows, pruned.rows))


def differences(
    slug: str, dense: Records, pruned: Records, in_calibration: bool = False
) -> list[Tested]:
    """Return the metrics of one benchmark.

    Those of calibration data (``in_calibration``) are shown and not tested. Raises UserError where
    the two have not the same items.
    """
    task, headline = dense.result["task"], dense.result["headline"]
    if dense.ids != pruned.ids:
        raise UserError(
            f"expected the same items of {slug} in {dense.place} and {pruned.place}, got "
            f"{len(dense.rows)} and {len(pruned.rows)} that differ; evaluate both again with the "
            "same data and options"
        )
    found: list[Tested] = []
    same = list(dense.rows) == list(pruned.rows)
    categories = [str(one.get("category") or "") for one in dense.rows]
    for metric in metrics_of(task, headline):
        both = [one.result["metrics"].get(metric) for one in (dense, pruned)]
        # Of no item at all: your own questions need name no stereotype.
        if metric != headline and not any(one and one["n"] for one in both):
            continue
        values = [one.recorded.get(metric) for one in (dense, pruned)]
        known, state, states = meaning(task, metric), STATES.get((task, metric)), None
        tried = known.direction and not in_calibration and None not in values
        sums = _sums(metric, dense, pruned) if tried else ()
        with expected_form("records of answers", dense.place / ITEMS, "evaluate again"):
            constant = verdicts.constant_answer(task, metric, dense.rows)
            if state:
                states = np.array([[*map(state, one.rows)] for one in (dense, pruned)], float)
            elif sums and known.kind == "ability":
                states = marks(sums, known)
        n = int((both[0] or {}).get("n") or 0)
        row = row_of(slug, task, metric, known, n, values)
        row = replace(row, in_calibration=in_calibration)
        found.append(Tested(row, known, sums, states, categories, constant, same))
    return found


def _sums(metric: str, dense: Records, pruned: Records) -> tuple[Sums, ...]:
    """Return a metric of both as sums, pruned first; nothing where it is none of the records.

    Raises UserError where the records do not give the value that was recorded.
    """
    task, both = dense.result["task"], list[Sums]()
    for one in (pruned, dense):
        with expected_form(f"records of {metric}", one.place / ITEMS, "evaluate again"):
            found = fitting(task, metric, one.rows, one.recorded.get(metric))
        both += [] if found is None else [found]
    if len(both) < 2 and (task, metric) in MEASURES and (task, metric) not in OTHERWISE:
        raise UserError(
            f"expected {metric} in {dense.place / METRICS} and {pruned.place / METRICS} to be "
            "what the records next to them give, which is another number; evaluate both again"
        )
    return tuple(both) if len(both) == 2 else ()


# Verdicts


def judged(tested: Sequence[Tested], limits: Limits = USUAL) -> list[Difference]:
    """Return the rows of one pruned model with verdicts, p corrected over all of them."""
    tests = dict(enumerate(one.test for one in tested))
    constant = dict(enumerate(one.constant for one in tested))
    said = verdicts.judged(tests, limits.margin, limits.bias_margin, constant)
    return [_difference(one, said[k], limits.plan) for k, one in enumerate(tested)]


def by_category(tested: Sequence[Tested], limits: Limits = USUAL) -> list[Difference]:
    """Return the rows of every category of the items, a family of tests of their own.

    A metric whose items are all of one category has none, nor has a record against itself, nor a
    category of fewer items than are tested.
    """
    parts = []
    for one in tested:
        names, index = np.unique(one.categories, return_inverse=True)
        if one.test and not one.identical and len(names) > 1:
            places = [np.flatnonzero(index == k) for k in range(len(names))]
            large = [pair for pair in zip(names.tolist(), places) if len(pair[1]) >= LEAST]
            parts += [part for pair in large if (part := one.part(*pair)).test]
    return judged(parts, limits)


def _difference(one: Tested, said: verdicts.Verdict, wanted: float | None) -> Difference:
    row, test = replace(one.row, verdict=said.word, reason=said.reason), one.test
    if one.identical:
        row = replace(row, verdict=IDENTICAL, reason="")
    if one.states is not None:
        before, after = one.states
        gone, come = (before == 0) & (after == 1), (before == 1) & (after == 0)
        counts = [int(each.sum()) for each in (~np.isnan(before), gone, come)]
        if row.kind == "bias":
            row = replace(row, flips=dict(zip(FLIPS, counts)))
        else:
            row = replace(row, answers=dict(zip(ANSWERS, counts)))
    if test is None:
        return row
    if row.dense is None:
        row = replace(row, dense=test.before, pruned=test.after)
    none = (None, None)
    ends, family = test.interval() or none, said.interval or none
    worse, better = none if said.p_holm is None else test.detectable()
    return replace(
        row, n=test.n, clustered=test.clustered, ratio=test.ratio, difference=test.difference,
        low=ends[0], high=ends[1], gain=test.gain, p=test.p, p_holm=said.p_holm,
        family_low=family[0], family_high=family[1],
        detectable=worse, detectable_better=better,
        needed=None if wanted is None or test.p is None else test.needed(wanted),
    )  # fmt: skip
