"""The items of a benchmark that moved most between two models, to be read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..analysis.item_texts import FIELDS, ItemText, read_texts, split_of
from ..analysis.make_items import stereotyped
from ..evaluation.benchmarks import data_checksums
from ..stats.records import Record as Row
from ..tasks.protocol import Protocol

MOST = 10  # items of a benchmark


@dataclass(frozen=True)
class Moved:
    """An item, its texts where they are known, and what both models make of it.

    ``before`` and ``after`` are the ``score`` of the dense and the pruned model: the lead of the
    right or the stereotyped option over the best other one, in nats, or a metric. ``chosen`` are
    the options that both chose, or the answers that they gave.
    """

    benchmark: str
    item: str
    category: str
    score: str
    before: float
    after: float
    chosen: tuple[str, str]
    texts: Sequence[str] = ()
    options: Sequence[str] = ()


def texts_of(result: Mapping[str, Any], asked: tuple[Protocol, Path]) -> Mapping[str, ItemText]:
    """Return the texts of a benchmark's items by id, where the data it was made with are at hand.

    ``asked`` are options and data. Else nothing.
    """
    task, own, (spec, data) = str(result["task"]), dict(result["spec"]), asked
    if task not in FIELDS or data_checksums(data, spec) != result["data"]:
        return {}
    return read_texts(task, data, split_of(own, task, task), own)


def _lead(row: Row, anchor: int) -> float:
    scores = list(row["option_logprobs"])
    return float(scores.pop(anchor) - max(scores))


def _score(task: str, before: Row, after: Row) -> tuple[str, float, float] | None:
    """Return what is compared of an item, in both models; None where there is nothing."""
    named = stereotyped(task, before)
    anchor = before.get("gold") if named is None else named
    counts = [len(row.get("option_logprobs") or ()) for row in (before, after)]
    if anchor is not None and min(counts) > max(anchor, 1):
        name = "right option" if named is None else "stereotype"
        return f"lead of the {name}", _lead(before, anchor), _lead(after, anchor)
    for metric, value in (before.get("values") or {}).items():
        other = after["values"].get(metric)
        if value is not None and other is not None:
            return metric, float(value), float(other)
    return None


def _chosen(row: Row, options: Sequence[str]) -> str:
    if row.get("answer"):
        return str(row["answer"])
    pred = row.get("pred")
    if pred is None:
        return ""
    return options[pred] if pred < len(options) else f"option {pred + 1}"


def most_moved(
    slug: str,
    task: str,
    records: Sequence[Sequence[Row]],
    texts: Mapping[str, ItemText],
) -> list[Moved]:
    """Return the items whose score changed most, the furthest first; equal ones in their order.

    ``records`` are those of the dense and the pruned model, ``texts`` those of items by id.
    """
    found = []
    for before, after in zip(*records, strict=True):
        score = _score(task, before, after)
        if score is None or not abs(score[2] - score[1]) > 0:
            continue
        own = texts.get(str(before["item_id"]))
        words = own[0] if own else [before["text"]] if before.get("text") else []
        options = list(own[1] if own else before.get("options") or ())
        found.append(
            Moved(
                slug, str(before["item_id"]), str(before.get("category") or ""), *score,
                (_chosen(before, options), _chosen(after, options)), list(words), options,
            )
        )  # fmt: skip
    return sorted(found, key=lambda one: -abs(one.after - one.before))[:MOST]
