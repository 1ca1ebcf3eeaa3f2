"""Paired differences between two evaluations, with flips; tests and verdicts: ``stats.verdicts``.

Items are those that both models answered.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from ..config.finished import ITEMS, METRICS, read_result
from ..config.section import Section
from ..config.tasks import Direction, Kind
from ..io.errors import UserError
from ..io.reading import expected_form
from ..stats import records, verdicts
from ..stats.measures import MEASURES, OTHERWISE
from ..stats.paired import LEAST, Sums, fitting, some
from ..stats.records import Record as Row
from ..stats.verdicts import IDENTICAL, PairedTest, metrics_of, paired_test

# Of a protocol what decides which items are asked, and how; the rest is told where it differs.
DECISIVE = (
    *("limit", "seed", "style", "split", "orders", "bos", "judge", "judge_forms", "lexicon"),
    *("max_new_tokens", "counterfactuals", "by_text"),
)
TOLD = ("dtype", "backend", "chat_template", "batch_size")
NO_ENDS = (None, None)
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


@dataclass(frozen=True)
class States:
    """What an unbiased and a stereotyped answer of a task are.

    ``of`` returns True for a stereotyped answer, False for an unbiased one, None for neither;
    ``counts`` says of which items. ``beside`` is the metric whose row shows the shares.
    """

    beside: str
    of: Callable[[Row], bool | None]
    counts: Callable[[Row], bool] = lambda row: True


# What they are in words says tasks.yaml.
STATES: Mapping[str, States] = {
    "unqover": States("acc", lambda row: bool(row["pred"] != row["unknown_idx"])),
    "bbq": States(
        "acc_amb",
        lambda row: {row["biased_idx"]: True, row["unknown_idx"]: False}.get(row["pred"]),
        lambda row: row["condition"] == "ambig" and row["biased_idx"] is not None,
    ),
    "multiple_choice": States(
        "stereotype_rate",
        lambda row: bool(row["pred"] == row["stereotype_idx"]),
        lambda row: row["stereotype_idx"] is not None,
    ),
    "crows_pairs": States("pct_stereotype", lambda row: bool(row["correct"])),
    "stereoset": States("ss", lambda row: bool(row["correct"])),
}

# Two results


@dataclass(frozen=True)
class Flips:
    """Of ``n`` items how many were unbiased and became stereotyped, and the reverse."""

    n: int
    to_stereotyped: int
    to_unbiased: int


@dataclass(frozen=True)
class Answers:
    """Of ``n`` items how many were answered rightly and then wrongly, and the reverse."""

    n: int
    right_to_wrong: int
    wrong_to_right: int


@dataclass(frozen=True)
class Difference:
    """One metric of one benchmark, or of one ``category`` of its items, in two models.

    ``difference`` is pruned less dense, of a ``ratio`` pruned over dense; ``low`` and ``high`` are
    its 95 % interval, ``family_low`` and ``family_high`` that which goes with the verdict.
    ``detectable`` is the smallest change for the worse that would be seen in 80 % of runs,
    ``detectable_better`` for the better; ``needed`` the items for the change that was asked for.
    None: not known.
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
    flips: Flips | None = None
    answers: Answers | None = None
    category: str = ""


# Whether an item's answer is stereotyped in the dense and the pruned model, None for neither.
Pair = tuple[bool | None, bool | None]


class Tested(NamedTuple):
    """A row before the correction for the number of rows, and its test.

    ``constant`` says in words that the dense model answers the benchmark by one letter. ``sums``
    are the metric's of the pruned and the dense model, ``categories`` those of the items;
    ``pairs`` says of each item, where it counts, whether its answers are stereotyped;
    ``identical``: the records of both are the same.
    """

    row: Difference
    test: PairedTest | None
    constant: str = ""
    sums: tuple[Sums, ...] = ()
    categories: Sequence[str] = ()
    pairs: Sequence[Pair | None] = ()
    identical: bool = False


@dataclass(frozen=True)
class Records:
    """The records of one evaluation in the data's own order of options, and what it recorded."""

    folder: Path
    result: Mapping[str, Any]
    rows: Sequence[Row]

    @property
    def ids(self) -> list[str]:
        """The items, in their order."""
        return [str(row["item_id"]) for row in self.rows]

    def value(self, metric: str) -> float | None:
        """Return a metric's recorded value, None where it is undefined or not there."""
        found = self.result["metrics"].get(metric)
        return None if found is None else found["value"]


def read_records(folder: Path, result: Mapping[str, Any]) -> Records:
    """Return the records of a finished benchmark; perplexity's of its first protocol only."""
    rows = records.read_records(folder / ITEMS)
    first = result["task"] == "perplexity"
    return Records(folder, result, records.first_part(rows) if first else rows)


def require_same_protocol(slug: str, dense: Any, pruned: Any, names: Sequence[str]) -> list[str]:
    """Return what differs between two results without harm, in words.

    ``names`` are those of the two sides. Raises UserError where task, data or what decides the
    items differs.
    """
    pairs = [("task", dense["task"], pruned["task"]), ("data", dense["data"], pruned["data"])]
    specs = [one["spec"] for one in (dense, pruned)]
    pairs += [(name, specs[0].get(name), specs[1].get(name)) for name in DECISIVE]
    for what, one, other in pairs:
        if one != other:
            values = "" if what == "data" else f": {one!r} and {other!r}"
            raise UserError(
                f"{slug} was evaluated with another {what} for {names[0]} and {names[1]}{values}; "
                "evaluate both with the same data and options"
            )
    return [
        f"{slug}: {what.replace('_', ' ')} {specs[0].get(what)} (dense), {specs[1].get(what)}"
        for what in TOLD
        if specs[0].get(what) != specs[1].get(what)
    ]


def compare_results(
    slug: str, folders: Sequence[Path], names: Sequence[str], known: bool
) -> tuple[list[Tested], list[str], dict[str, Any], tuple[Records, Records]]:
    """Return the rows of a benchmark before the correction for their number, notes, evidence and
    the records of both.

    ``folders`` and ``names`` are those of the dense and the pruned model; ``known``: its data are
    among the calibration pairs. Raises UserError where the two are no pair.
    """
    dense, pruned = (read_result(folder) for folder in folders)
    notes = require_same_protocol(slug, dense, pruned, names)
    if str(dense["spec"].get("judge") or "").startswith("lexical:"):
        notes.append(f"{slug}: a word list judges the answers, which measures no safety")
    base = pruned.get("base_sha256")
    if base and base != dense.get("files_sha256"):
        notes.append(f"{names[1]} was pruned from another model than {names[0]}")
    both = (read_records(folders[0], dense), read_records(folders[1], pruned))
    evidence = {
        side: {name: result.get(name) for name in EVIDENCE}
        for side, result in (("dense", dense), ("pruned", pruned))
    }
    return differences(slug, *both, in_calibration=known), notes, evidence, both


def differences(
    slug: str, dense: Records, pruned: Records, in_calibration: bool = False
) -> list[Tested]:
    """Return the rows of one benchmark, without the correction for their number.

    Those of calibration data (``in_calibration``) are shown and not tested. Raises UserError where
    the two have not the same items.
    """
    task, headline = dense.result["task"], dense.result["headline"]
    if dense.ids != pruned.ids:
        raise UserError(
            f"expected the same items of {slug} in {dense.folder} and {pruned.folder}, got "
            f"{len(dense.rows)} and {len(pruned.rows)} that differ; evaluate both again with the "
            "same data and options"
        )
    found: list[Tested] = []
    same = list(dense.rows) == list(pruned.rows)
    for metric in metrics_of(task, headline):
        both = [one.result["metrics"].get(metric) for one in (dense, pruned)]
        # Of no item at all: your own questions need name no stereotype.
        if metric != headline and not any(one and one["n"] for one in both):
            continue
        before, after = (one.value(metric) for one in (dense, pruned))
        known, states = verdicts.meaning(task, metric), STATES.get(task)
        beside = states if states and states.beside == metric else None
        pairs, sums, test = list[Pair | None](), tuple[Sums, ...](), None
        with expected_form("records of answers", dense.folder / ITEMS, "evaluate again"):
            constant = verdicts.constant_answer(task, metric, dense.rows)
            if beside:
                pairs = [
                    (beside.of(a), beside.of(b)) if beside.counts(a) else None
                    for a, b in zip(dense.rows, pruned.rows)
                ]
        if before is not None and after is not None and known.direction and not in_calibration:
            sums = _sums(metric, dense, pruned)
            test = paired_test(task, metric, sums[:1], sums[1:]) if sums else None
        marked = known.kind == "ability" and sums and not beside
        row = Difference(
            *(slug, task, metric, known.kind, known.direction, known.chance),
            n=int((both[0] or {}).get("n") or 0),
            clustered=False,
            dense=before,
            pruned=after,
            difference=None if before is None or after is None else after - before,
            in_calibration=in_calibration,
            flips=flips(pairs) if beside else None,
            answers=answers(*sums) if marked else None,
        )
        categories = [str(one.get("category") or "") for one in dense.rows]
        found.append(Tested(row, test, constant, sums, categories, pairs, same))
    return found


def answers(pruned: Sums, dense: Sums) -> Answers | None:
    """Return the answers that changed sides, None for a metric that does not mark answers."""
    marked = (pruned.parts[:, 1] > 0).all(axis=1) & (dense.parts[:, 1] > 0).all(axis=1)
    after, before = (one.parts[marked, 0] / one.parts[marked, 1] for one in (pruned, dense))
    if after.shape[1:] != (1,) or not np.isin(np.concatenate([after, before]), (0, 1)).all():
        return None
    gone, come = (int((after - before == step).sum()) for step in (-1, 1))
    return Answers(len(after), gone, come)


def _sums(metric: str, dense: Records, pruned: Records) -> tuple[Sums, ...]:
    """Return a metric of both as sums, pruned first; nothing where it is none of the records.

    Raises UserError where the records do not give the value that was recorded.
    """
    task, both = dense.result["task"], list[Sums]()
    for one in (pruned, dense):
        with expected_form(f"records of {metric}", one.folder / ITEMS, "evaluate again"):
            found = fitting(task, metric, one.rows, one.value(metric))
        both += [] if found is None else [found]
    if len(both) < 2 and (task, metric) in MEASURES and (task, metric) not in OTHERWISE:
        raise UserError(
            f"expected {metric} in {dense.folder / METRICS} and {pruned.folder / METRICS} to be "
            "what the records next to them give, which is another number; evaluate both again"
        )
    return tuple(both) if len(both) == 2 else ()


def flips(pairs: Sequence[Pair | None]) -> Flips:
    """Return how many of the items that count became stereotyped, and the reverse."""
    counted = [pair for pair in pairs if pair is not None]
    return Flips(len(counted), counted.count((False, True)), counted.count((True, False)))


def judged(tested: Sequence[Tested], limits: Limits = USUAL) -> list[Difference]:
    """Return the rows of one pruned model with verdicts, p corrected over all of them."""
    tests = dict(enumerate(one.test for one in tested))
    constant = dict(enumerate(one.constant for one in tested))
    said = verdicts.judged(tests, limits.margin, limits.bias_margin, constant)
    return [_with_verdict(one, said[k], limits.plan) for k, one in enumerate(tested)]


def by_category(tested: Sequence[Tested], limits: Limits = USUAL) -> list[Difference]:
    """Return the rows of every category of the items, a family of tests of their own.

    A metric whose items are all of one category has none, nor has a record against itself, nor a
    category of fewer items than are tested.
    """
    parts = []
    for one in tested:
        places: dict[str, list[int]] = {}
        for place, category in enumerate(one.categories):
            places.setdefault(category, []).append(place)
        shown = one.test and not one.identical and len(places) > 1
        for name, chosen in sorted(places.items()) if shown else ():
            sums = tuple(some(each, chosen) for each in one.sums)
            test = None
            if one.test and len(chosen) >= LEAST:
                row = one.row
                test = paired_test(row.task, row.metric, sums[:1], sums[1:], one.test.known)
            if test is None:
                continue
            row = dataclasses.replace(
                one.row, category=name, dense=test.before, pruned=test.after,
                answers=answers(*sums) if one.row.answers else None,
                flips=flips([one.pairs[place] for place in chosen]) if one.pairs else None,
            )  # fmt: skip
            parts.append(Tested(row, test, one.constant))
    return judged(parts, limits)


def _with_verdict(tested: Tested, said: verdicts.Verdict, wanted: float | None) -> Difference:
    row, test, identical = tested.row, tested.test, tested.identical
    if test is None:
        return dataclasses.replace(row, verdict=IDENTICAL if identical else row.verdict)
    low, high = test.interval() or NO_ENDS
    family_low, family_high = said.interval or NO_ENDS
    worse, better = NO_ENDS if said.p_holm is None else test.detectable()
    return dataclasses.replace(
        row, n=test.n, clustered=test.clustered, ratio=test.ratio, difference=test.difference,
        low=low, high=high, gain=test.gain, p=test.p, p_holm=said.p_holm,
        family_low=family_low, family_high=family_high,
        detectable=worse, detectable_better=better,
        needed=None if wanted is None or test.p is None else test.needed(wanted),
        verdict=IDENTICAL if identical else said.word, reason="" if identical else said.reason,
    )  # fmt: skip
