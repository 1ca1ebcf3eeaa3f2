"""Answers of dense and pruned models to the same items, joined by the items' ids."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import UserError
from ...plan.grids import Checkpoint
from ...stats.records import Record
from .texts import ItemText

MISSING = -1  # no answer of a model, no right answer, no "unknown"
NATS = 1000  # log-probabilities are kept in thousandths of a nat


@dataclass(frozen=True)
class Answers:
    """A checkpoint's answers: the chosen options, (n,), and ln p of all in 1/1000 nat, (n, k)."""

    point: Checkpoint
    chosen: NDArray[np.int8]
    logprobs: NDArray[np.int32]


@dataclass
class ItemSet:
    """Items of a benchmark that were asked alike, in the order of the records.

    ``gold`` and ``unknown`` are numbers of options; bit k of ``stereotyped`` says that option k is
    the biased answer (0: the item does not say which one is).
    """

    benchmark: str
    task: str
    about: dict[str, Any] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    texts: list[ItemText] = field(default_factory=list)
    gold: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    stereotyped: list[int] = field(default_factory=list)
    answers: list[Answers] = field(default_factory=list)

    def dense(self, model: str) -> Answers | None:
        """Return the answers of a model's dense checkpoint, None where there are none."""
        return next((a for a in self.answers if a.point.is_base and a.point.model == model), None)


def roles(task: str, record: Record) -> tuple[int, int, int]:
    """Return which option is right, which one is "unknown", and which are biased, as bits.

    Biased is the stereotype of a pair or the one that a question of your own names, BBQ's answer in
    line with the bias, and of UnQover each answer that names a person.
    """
    if task in ("crows_pairs", "stereoset"):
        return MISSING, MISSING, 1
    gold, unknown = record["gold"], record.get("unknown_idx", MISSING)
    if task == "unqover":
        return gold, unknown, 0b111 & ~(1 << unknown)
    biased = record.get("biased_idx", record.get("stereotype_idx"))
    return gold, unknown, 0 if biased is None else 1 << biased


def scores(record: Record) -> list[int]:
    """Return ln p of a record's options in 1/1000 nat, StereoSet's unrelated sentence last."""
    found = list(record["option_logprobs"])
    found += [record["unrelated_logprob"]] if "unrelated_logprob" in record else []
    return [round(one * NATS) for one in found]


def join(
    found: ItemSet,
    texts: Mapping[str, ItemText],
    records: Iterable[tuple[Checkpoint, Sequence[Record]]],
) -> ItemSet:
    """Put the items of all checkpoints into ``found``, which is returned.

    The first checkpoint decides order and items. One that lacks an item has no answer to it; what
    only later ones have is left out. Raises UserError for an item that the data do not have.
    """
    place: dict[str, int] = {}
    for point, rows in records:
        if not place:
            place = {str(row["item_id"]): number for number, row in enumerate(rows)}
            _describe(found, texts, rows)
        count = max((len(text.options) for text in found.texts), default=0)
        chosen = np.full(len(place), MISSING, np.int8)
        logprobs = np.zeros((len(place), count), np.int32)
        for row in rows:
            number = place.get(str(row["item_id"]))
            if number is not None:
                chosen[number] = row["pred"]
                values = scores(row)
                logprobs[number, : len(values)] = values
        found.answers.append(Answers(point, chosen, logprobs))
    return found


def _describe(found: ItemSet, texts: Mapping[str, ItemText], rows: Sequence[Record]) -> None:
    for row in rows:
        name = str(row["item_id"])
        if name not in texts:
            raise UserError(
                f"expected the item {name!r} of {found.benchmark} in its data, found none; "
                "evaluate again with the data that are there now"
            )
        gold, unknown, stereotyped = roles(found.task, row)
        found.ids.append(name)
        found.categories.append(str(row["category"]))
        found.texts.append(texts[name])
        found.gold.append(gold)
        found.unknown.append(unknown)
        found.stereotyped.append(stereotyped)


def changed(items: ItemSet) -> NDArray[np.bool_]:
    """Return of each item whether a pruned model answers otherwise than its dense one, (n,)."""
    found = np.zeros(len(items.ids), bool)
    for one in items.answers:
        dense = items.dense(one.point.model)
        if dense is not None and not one.point.is_base:
            both = (one.chosen != MISSING) & (dense.chosen != MISSING)
            found |= both & (one.chosen != dense.chosen)
    return found
