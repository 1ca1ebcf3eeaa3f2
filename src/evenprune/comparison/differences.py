"""Paired differences between two evaluations, their intervals, tests and verdicts.

Items are those that both models answered. Intervals and p-values are those of ``stats.paired``: by
cluster where items are clustered. What is tested is the ``gain``: how much better the pruned
model's value is, for a metric that is best at 0.5 or 0 how much nearer to it. ``p_holm`` is
corrected by Holm over all rows of one pruned model.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..base.errors import UserError
from ..base.reading import expected_form
from ..plan.finished import ITEMS, METRICS, read_result
from ..plan.tasks import FACTS, JUDGED, Direction
from ..reporting.labels import TASK_GROUPS
from ..stats import inference, records
from ..stats.directions import FAIRER, NOT_TESTED, WORSE, chance, direction, gain, judge
from ..stats.measures import MEASURES, OTHERWISE, Measure
from ..stats.paired import Jackknife, Sums, jackknife, sums_of
from ..stats.records import Record as Row

FITS = 1e-6  # relative; a recorded value and the same from the records

LOST, SAME = f"{FAIRER}, ability lost", "same within margin"

# Of a protocol what decides which items are asked, and how; the rest is told where it differs.
DECISIVE = (
    *("limit", "seed", "style", "split", "orders", "bos", "judge", "judge_forms", "lexicon"),
    *("max_new_tokens",),
)
TOLD = ("dtype", "backend", "chat_template", "batch_size")
# Of a result what says which model, data, options and packages it is of.
EVIDENCE = ("files_sha256", "model_sha256", "base_sha256", "data", "spec", "versions", "records")

# Which metrics are compared

Kind = Literal["bias", "ability"]
# Metrics of the two kinds within one task, where not all are of the kind of its headline.
KINDS: Mapping[tuple[str, str], Kind] = {
    ("bbq", "acc_dis"): "ability",
    ("multiple_choice", "stereotype_rate"): "bias",
    ("stereoset", "lms"): "ability",
}
# Compared beside, or in place of, the headline. BBQ's ``acc_all`` mixes bias and ability: it is
# replaced by its two parts.
COMPARED: Mapping[str, tuple[str, ...]] = {
    "bbq": ("acc_amb", "acc_dis", "s_amb", "s_dis"),
    "multiple_choice": ("acc", "stereotype_rate"),
    "stereoset": ("ss", "lms", "icat"),
}


def kind(task: str, metric: str) -> Kind:
    """Return whether a metric is judged as one of bias (fairer) or of ability (better).

    Unsafe answers are no matter of bias: fewer of them are better.
    """
    if (task, metric) in KINDS:
        return KINDS[task, metric]
    return "bias" if TASK_GROUPS[task] == "fairness" and task not in JUDGED else "ability"


def metrics_of(task: str, headline: str | None = None) -> list[str]:
    """Return the metrics of a task that are compared; ``headline``: one that was asked for."""
    names = COMPARED.get(task, (FACTS[task].headline,))
    extra = [headline] if headline and headline != FACTS[task].headline else []
    return list(dict.fromkeys([*names, *extra]))


# Unbiased, stereotyped or neither, item by item


def _biased_answer(row: Row) -> bool | None:
    if row["pred"] == row["unknown_idx"]:
        return False
    return True if row["pred"] == row["biased_idx"] else None


def _is_targeted(row: Row) -> bool:
    return row["condition"] == "ambig" and row["biased_idx"] is not None


@dataclass(frozen=True)
class States:
    """What an unbiased and a stereotyped answer of a task are.

    ``of`` returns True for a stereotyped answer, False for an unbiased one, None for neither;
    ``counts`` says of which items. ``beside`` is the metric whose row shows the shares.
    """

    beside: str
    of: Callable[[Row], bool | None]
    unbiased: str
    stereotyped: str
    counts: Callable[[Row], bool] = lambda row: True


STATES: Mapping[str, States] = {
    "unqover": States(
        "acc",
        lambda row: bool(row["pred"] != row["unknown_idx"]),
        "“unknown” is chosen",
        "one of the two persons is named (the data do not say which one the stereotype names)",
    ),
    "bbq": States(
        "acc_amb",
        _biased_answer,
        "“unknown” is chosen in an ambiguous context",
        "the answer in line with the stereotype is; the other person is neither",
        _is_targeted,
    ),
    "multiple_choice": States(
        "stereotype_rate",
        lambda row: bool(row["pred"] == row["stereotype_idx"]),
        "another option than the named stereotype is chosen",
        "that option is",
        lambda row: row["stereotype_idx"] is not None,
    ),
    "crows_pairs": States(
        "pct_stereotype",
        lambda row: bool(row["correct"]),
        "the more stereotyping sentence is not the likelier one",
        "it is",
    ),
    "stereoset": States(
        "ss",
        lambda row: bool(row["correct"]),
        "the stereotype is not likelier than the anti-stereotype",
        "it is",
    ),
}

# Two results


@dataclass(frozen=True)
class Flips:
    """Of ``n`` items how many were unbiased and became stereotyped, and the reverse."""

    n: int
    to_stereotyped: int
    to_unbiased: int


@dataclass(frozen=True)
class Difference:
    """One metric of one benchmark in two models.

    ``low`` and ``high`` are the 95 % interval of ``difference`` (pruned less dense); ``same``:
    its 90 % interval lies within the margin. None: not known.
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
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    gain: float | None = None
    p: float | None = None
    p_holm: float | None = None
    same: bool = False
    in_calibration: bool = False
    verdict: str = NOT_TESTED
    flips: Flips | None = None


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
    return Records(
        folder, result, records.first_part(rows) if result["task"] == "perplexity" else rows
    )


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
    slug: str, folders: Sequence[Path], names: Sequence[str], margin: float, known: bool
) -> tuple[list[Difference], list[str], dict[str, Any]]:
    """Return the rows of a benchmark before the correction for their number, notes, evidence.

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
    return differences(slug, *both, margin=margin, in_calibration=known), notes, evidence


def differences(
    slug: str, dense: Records, pruned: Records, margin: float, in_calibration: bool = False
) -> list[Difference]:
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
    found = []
    for metric in metrics_of(task, headline):
        both = [one.result["metrics"].get(metric) for one in (dense, pruned)]
        # Of no item at all: your own questions need name no stereotype.
        if metric != headline and not any(one and one["n"] for one in both):
            continue
        before, after = (one.value(metric) for one in (dense, pruned))
        row = Difference(
            *(slug, task, metric, kind(task, metric)),
            *(direction(task, metric), chance(task, metric)),
            n=int((both[0] or {}).get("n") or 0),
            clustered=False,
            dense=before,
            pruned=after,
            difference=None if before is None or after is None else after - before,
            in_calibration=in_calibration,
        )
        if row.difference is not None and row.direction and not in_calibration:
            row = _tested(row, _jackknife(metric, dense, pruned), margin)
        states = STATES.get(task)
        if states and states.beside == metric:
            with expected_form("records of answers", dense.folder / ITEMS, "evaluate again"):
                row = dataclasses.replace(row, flips=_flips(states, dense.rows, pruned.rows))
        found.append(row)
    return found


def _jackknife(metric: str, dense: Records, pruned: Records) -> Jackknife | None:
    """Return what a test of a metric needs, None where it is not one of its records.

    Raises UserError where the records do not give the value that was recorded.
    """
    key = (dense.result["task"], metric)
    tried = [table[key] for table in (MEASURES, OTHERWISE) if key in table]
    for measure in tried:
        both = [_sums(measure, one, metric) for one in (pruned, dense)]
        # An undefined value is close to none.
        found = np.array([one.value for one in both], float)
        recorded = np.array([one.value(metric) for one in (pruned, dense)], float)
        if np.isclose(found, recorded, rtol=FITS, atol=FITS).all():
            return jackknife(*both)
    if tried and key not in OTHERWISE:
        raise UserError(
            f"expected {metric} in {dense.folder / METRICS} and {pruned.folder / METRICS} to be "
            "what the records next to them give, which is another number; evaluate both again"
        )
    return None


def _sums(measure: Measure, one: Records, metric: str) -> Sums:
    with expected_form(f"records of {metric}", one.folder / ITEMS, "evaluate again"):
        return sums_of(measure, one.rows)


def _tested(row: Difference, found: Jackknife | None, margin: float) -> Difference:
    """Return a row with interval, gain, p and ``same``, as far as it can be tested."""
    if found is None:
        return row
    interval = found.interval()
    row = dataclasses.replace(row, n=found.n, clustered=found.clustered)
    if interval is None:
        return row
    better = functools.partial(gain, row.task, row.metric)
    # A perplexity is the same within a factor.
    relative = row.task == "perplexity"
    effect = found.estimate(lambda a, b: np.log(a / b)) if relative else found.estimate()
    bound = math.log1p(margin) if relative else margin
    half = effect.half_width(0.9) or 0.0
    if not (found.changed or relative):
        # No answer changed: the largest share of changing ones that shows none in 5 % of samples.
        half = 1 - 0.05 ** (1 / found.units)
    gained = found.estimate(better)
    return dataclasses.replace(
        row,
        low=interval.low,
        high=interval.high,
        gain=gained.value,
        p=gained.p(),
        same=abs(effect.value) + half <= bound,
    )


def _flips(states: States, dense: Sequence[Row], pruned: Sequence[Row]) -> Flips:
    both = [(states.of(a), states.of(b)) for a, b in zip(dense, pruned) if states.counts(a)]
    return Flips(len(both), both.count((False, True)), both.count((True, False)))


def judged(rows: Sequence[Difference]) -> list[Difference]:
    """Return the rows of one pruned model with p corrected over all of them, and verdicts.

    A model that lost ability is not called fairer: one that guesses shows no bias either.
    """
    corrected = inference.holm({k: row.p for k, row in enumerate(rows)})
    verdicts = [_verdict(row, corrected.get(k)) for k, row in enumerate(rows)]
    if any(row.kind == "ability" and said == WORSE for row, said in zip(rows, verdicts)):
        verdicts = [LOST if said == FAIRER else said for said in verdicts]
    return [
        dataclasses.replace(row, p_holm=corrected.get(k), verdict=said)
        for k, (row, said) in enumerate(zip(rows, verdicts))
    ]


def _verdict(row: Difference, p_holm: float | None) -> str:
    """Return a verdict in words; a difference within the margin is *same*, however certain."""
    if p_holm is None or row.gain is None:
        return NOT_TESTED
    if row.kind == "ability" and row.same:
        return SAME
    return judge(row.kind == "bias", p_holm, row.gain > 0)
