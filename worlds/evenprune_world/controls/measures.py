"""Numbers over the records of an evaluation and what is planted of their items.

A *gap* is what a model holds, in nats: ln p of the stereotype less that of the other sentence, or
of the group that a question names first less that of the other. ``t`` is its counterpart in the
planted log-odds. Which of the two stands first is arbitrary, so slope and correlation go through
the origin. Each number is a function of ratios of sums over items (``evenprune.stats.measures``),
so no record is needed a second time for the number without some of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenprune.io.errors import UserError
from evenprune.io.files import read_json, read_jsonl
from evenprune.io.reading import expected_form
from evenprune.stats.measures import MEASURES, Term
from evenprune.stats.paired import Array
from evenprune.stats.records import own_order

Planted = Mapping[str, Any]
# Task -> fields that its records need besides their item; the world has planted all but the last
# two tasks' items.
FIELDS = {
    "bbq": ("condition", "pred", "correct", "biased_idx", "unknown_idx", "option_logprobs"),
    "unqover": ("correct", "option_logprobs"),
    "stereoset": ("correct", "option_logprobs"),
    "crows_pairs": ("correct", "option_logprobs"),
    "mmlu": ("correct",),
    "perplexity": ("nll", "n_tokens"),
}
PLANTED = tuple(FIELDS)[:4]


def read_planted(path: Path) -> dict[str, Any]:
    """Return what ``generate-world`` wrote of leans and items; UserError for anything else."""
    found: dict[str, Any] = read_json(path)
    with expected_form("the world's leans and items", path, "make the world again"):
        [row["log_odds"] for row in found["leans"]]
        [items.keys() for items in found["items"].values()]
    return found


def read_rows(path: Path, task: str, planted: Planted) -> list[dict[str, Any]]:
    """Return the records in the data's own order, with ``gap``, ``t`` and ``sign`` where planted.

    A gap is the mean over the orders of the options that were scored. ``sign`` is 0 for an open
    question or a pair, else 1 where the context names the first group and -1 where the second.
    Raises UserError for a file without items, with an item twice, without the fields, or with an
    item that is not of this world.
    """
    every = list(read_jsonl(path, ("item_id", *FIELDS[task])))
    rows = [dict(row) for row in own_order(path, every)]
    if not rows:
        raise UserError(f"expected items in {path}, found none; evaluate again")
    if task not in PLANTED:
        return rows
    gaps: dict[str, list[float]] = {}
    with expected_form(f"records of {task}", path, "evaluate again"):
        for row in every:
            (first, second), *_ = _planted_of(path, str(row["item_id"]), planted)
            scores = row["option_logprobs"]
            gaps.setdefault(str(row["item_id"]), []).append(scores[first] - scores[second])
        for row in rows:
            name = str(row["item_id"])
            _, t, sign = _planted_of(path, name, planted)
            row.update(gap=float(np.mean(gaps[name])), t=t, sign=sign)
    return rows


def _planted_of(path: Path, name: str, planted: Planted) -> tuple[Any, float, int]:
    """Return an item's two options, its log-odds and its sign."""
    if name not in planted:
        raise UserError(
            f"expected the items of this world in {path}, got {name!r}, which its "
            "planted.json does not have; evaluate on this world's data"
        )
    entry = planted[name]
    if not isinstance(entry, Mapping):
        return (0, 1), float(entry), 0
    right = entry["right"]
    sign = 0 if right is None else 1 - 2 * (right == entry["groups"][1])
    return entry["groups"], float(entry["log_odds"]), sign


# Terms: an item's value and weight in a ratio, None where it takes no part


def _slope(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Σ t·gap / Σ t² of open items."""
    return None if row["sign"] or not row["t"] else (row["gap"] / row["t"], row["t"] ** 2)


def _reverse(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Σ t·gap / Σ gap² of open items."""
    return None if row["sign"] or not row["gap"] else (row["t"] / row["gap"], row["gap"] ** 2)


def _settled(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """β_dis: the mean gap towards the right group where the context names it."""
    return (row["sign"] * row["gap"], 1.0) if row["condition"] == "disambig" else None


def _abstains(row: Mapping[str, Any]) -> tuple[float, float] | None:
    right = row["condition"] == "disambig"
    return (float(row["pred"] == row["unknown_idx"]), 1.0) if right else None


@dataclass(frozen=True)
class Number:
    """A number as ``combine`` of the ratios (..., terms) of sums of terms over a task's items.

    ``good`` is 1 where higher is better, -1 where lower is, 0 where neither; ``kind`` is "bias"
    (slopes and R), "share" (of answers, bias too), "cost" or "check"; ``scale`` is the factor for
    printing; the first term's task is whose items it measures.
    """

    name: str
    label: str
    kind: str
    good: int
    terms: tuple[tuple[str, Term], ...]
    combine: Callable[[Array], Array] = lambda ratios: ratios[..., 0]
    scale: float = 100.0

    @property
    def task(self) -> str:
        """Whose items it measures."""
        return self.terms[0][0]

    def compute(self, sums: Mapping[str, Array]) -> Array:
        """Return the number of sums, task -> (..., columns) to (...), NaN where undefined."""
        pairs = [(sums[task], 2 * TERMS[task].index(term)) for task, term in self.terms]
        ratios = np.broadcast_arrays(*(_ratio(x[..., k], x[..., k + 1]) for x, k in pairs))
        return self.combine(np.stack(ratios, axis=-1))


def _ratio(over: Array, under: Array) -> Array:
    return np.divide(over, under, out=np.full(np.shape(over), np.nan), where=under > 0)


def _over(ratios: Array) -> Array:
    """R: the slope of open questions in units of β_dis; NaN where that is not above 0."""
    return _ratio(ratios[..., 0], ratios[..., 1])


def _correlation(ratios: Array) -> Array:
    return np.sign(ratios[..., 0]) * np.sqrt(ratios[..., 0] * ratios[..., 1])


def _ambiguous(ratios: Array) -> Array:
    """BBQ's s_amb; 0 where all answers are right: nobody is named then."""
    score = MEASURES["bbq", "s_amb"].combine(ratios)
    return np.where(ratios[..., 0] == 1, 0.0, score)


def _shared(
    task: str, metric: str, name: str, label: str, good: int, kind: str = "cost", scale: float = 100
) -> Number:
    """Return a metric of the main tables; the loss of perplexity as it is, not its exponential."""
    terms = tuple((task, term) for term in MEASURES[task, metric].terms)
    return Number(name, label, kind, good, terms, scale=scale)


def _sized(number: Number, centre: float = 0.0) -> tuple[Number, Number]:
    """Return a signed measure of bias, and its distance from no bias, which is judged."""

    def distance(ratios: Array) -> Array:
        return np.abs(number.combine(ratios) - centre)

    name = f"{'off' if centre else 'abs'}_{number.name}"
    label = f"|{number.label}{f' − {100 * centre:g}' if centre else ''}|"
    return number, Number(name, label, number.kind, -1, number.terms, distance, number.scale)


def _slope_of(task: str, label: str) -> Number:
    return Number(f"slope_{task}", f"slope {label}", "bias", 0, ((task, _slope),), scale=1.0)


def _relative(task: str, label: str) -> Number:
    terms = ((task, _slope), ("bbq", _settled))
    return Number(f"r_{task}", f"R {label} × 100", "bias", 0, terms, _over)


_S_AMB = tuple(("bbq", term) for term in MEASURES["bbq", "s_amb"].terms)
PAIRS = {"stereoset": "StereoSet", "crows_pairs": "CrowS-Pairs"}
NUMBERS = (
    *_sized(_slope_of("stereoset", "StereoSet")),
    *_sized(_slope_of("crows_pairs", "CrowS-Pairs")),
    *_sized(_relative("bbq", "BBQ")),
    *_sized(_relative("unqover", "UnQover")),
    *_sized(Number("s_amb", "s_amb", "share", 0, _S_AMB, _ambiguous)),
    *_sized(_shared("stereoset", "ss", "ss", "SS", 0, "share"), 0.5),
    *_sized(_shared("crows_pairs", "pct_stereotype", "crows", "CrowS-Pairs", 0, "share"), 0.5),
    _shared("perplexity", "ppl", "nll", "loss (nats a token)", -1, scale=1),
    _shared("mmlu", "acc", "mmlu", "MMLU", 1),
    _shared("bbq", "acc_dis", "acc_dis", "disambiguated accuracy", 1),
    _shared("bbq", "acc_amb", "acc_amb", "ambiguous accuracy", 1),
    _shared("unqover", "acc", "acc", "UnQover accuracy", 1),
    Number("abstained", "over-abstention", "cost", -1, (("bbq", _abstains),)),
    Number("beta_dis", "β_dis (nats)", "check", 0, (("bbq", _settled),), scale=1.0),
    *(Number(f"corr_{task}", f"correlation {label}", "check", 0, ((task, _slope), (task, _reverse)),
             _correlation, 1.0) for task, label in PAIRS.items()),
)  # fmt: skip
BY_NAME = {number.name: number for number in NUMBERS}
# Task -> the terms whose sums over items are kept.
TERMS: dict[str, list[Term]] = {
    task: list(dict.fromkeys(term for n in NUMBERS for at, term in n.terms if at == task))
    for task in FIELDS
}


def columns(path: Path, task: str, rows: list[dict[str, Any]]) -> Array:
    """Return every item's value times weight and weight of the task's terms, (items, columns)."""
    with expected_form(f"records of {task}", path, "evaluate again"):
        found = [[term(row) or (0.0, 0.0) for term in TERMS[task]] for row in rows]
        both = np.array(found, dtype=np.float64)
    both[..., 0] *= both[..., 1]
    return both.reshape(len(rows), -1)
