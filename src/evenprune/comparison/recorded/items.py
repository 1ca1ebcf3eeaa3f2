"""Items of other evaluators' records, matched by what they hold, and the metrics of two records.

An item is the hash of its document and prompt. What one record holds several times (epochs,
duplicates in the data) is one item whose scores are means; nothing is matched by its place.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from ...config.tasks import Direction
from ...io.errors import UserError
from ...io.files import canonical_json
from ...stats.measures import Measure
from ...stats.paired import FITS, sums_of
from ...stats.records import Record as Row
from ...stats.verdicts import Meaning
from ..differences import Compared, Measured, Tested, marks, require_same, row_of
from .metric_table import Entry, MetricTable

TEXT = 400  # signs of a text that are kept to be shown


@dataclass(frozen=True)
class Sample:
    """An item as one record holds it: hashes of document and prompt, and what was answered.

    ``values`` are metric -> score, None for one that is no number. Texts are there to be shown.
    """

    document: str
    prompt: str
    values: dict[str, float | None]
    category: str = ""
    options: Sequence[str] = ()
    option_logprobs: Sequence[float] | None = None
    gold: int | None = None
    text: str = ""
    answer: str = ""


@dataclass(frozen=True, kw_only=True)
class Recording(Measured):
    """One task in a record, its samples as ``rows``.

    The numbers in ``means`` are said to be means of the items; ``good`` is what the task says of
    its metrics. ``counted``: how many samples the evaluator scored.
    """

    task: str
    means: frozenset[str] = frozenset()
    good: Mapping[str, Direction] = field(default_factory=dict)
    counted: int | None = None

    @property
    def held(self) -> int:
        """How many samples there are."""
        return sum(row["weight"] for row in self.rows)


@dataclass(frozen=True)
class Recorded:
    """A side that another evaluator recorded: task -> what it recorded of it."""

    name: str
    evaluator: str
    tasks: Mapping[str, Recording]


def content(*parts: Any) -> str:
    """Return the hash of an item's content."""
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def cut(text: Any) -> str:
    """Return the beginning and end of a text that is to be shown."""
    whole = str(text)
    return whole if len(whole) <= TEXT else f"{whole[: TEXT // 2]} … {whole[-TEXT // 2 :]}"


def rows_of(samples: Iterable[Sample]) -> list[dict[str, Any]]:
    """Return the record of each item, in the order of items."""
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(content(sample.document, sample.prompt)[:32], []).append(sample)
    rows = []
    for name, several in sorted(found.items()):
        one = several[0]
        row = {**vars(one), "item_id": name, "weight": len(several)}
        names = [m for m in one.values if all(m in each.values for each in several)]
        scores = {m: np.array([each.values[m] for each in several], float) for m in names}
        row["values"] = {m: fmean(values) for m, values in scores.items()}
        if one.option_logprobs is None or any(each != one for each in several):
            row["option_logprobs"] = None
        else:
            row["pred"] = int(np.argmax(one.option_logprobs))
        rows.append(row)
    return rows


def matched(dense: Recording, pruned: Recording) -> tuple[list[Row], list[Row], list[str]]:
    """Return the records of the items that both have, in one order, and what was left out.

    Raises UserError where the two are no records of the same task, or share no item.
    """
    told = require_same(dense.task, dense, pruned)
    both = [{row["item_id"]: row for row in one.rows} for one in (dense, pruned)]
    shared = [name for name in both[0] if name in both[1]]
    kept = [name for name in shared if both[0][name]["weight"] == both[1][name]["weight"]]
    documents = [Counter(row["document"] for row in one.rows) for one in (dense, pruned)]
    other = sum((documents[0] & documents[1]).values()) - len(shared)
    asked = f"{other:,} of the same documents were asked with other prompts" if other else ""
    if not kept:
        raise UserError(
            f"expected records of the same items of {dense.task} in {dense.place} and "
            f"{pruned.place}, found {len(both[0]):,} and {len(both[1]):,} of which none is in both"
            f"{f' ({asked})' if asked else ''}; evaluate both with the same data, prompts and "
            "number of examples"
        )
    notes = []
    for one in (dense, pruned):
        if not one.fixed:
            notes.append(
                f"{dense.task}: no results of its evaluator beside {one.place}, so that the "
                "task's version and the number of samples are not checked"
            )
        if one.counted not in (None, one.held):
            notes.append(
                f"{dense.task}: {one.place} holds {one.held:,} of the {one.counted:,} samples that "
                "its evaluator counted"
            )
    left = [len(rows) - len(kept) for rows in both]
    if any(left):
        uneven = len(shared) - len(kept)
        more = [asked, f"{uneven:,} stand more often in one of them" if uneven else ""]
        notes.append(
            f"{dense.task}: {len(kept):,} items compared that both records hold; left out are "
            f"{left[0]:,} of the dense model's and {left[1]:,} of the pruned one's"
            + "".join(f"; {one}" for one in more if one)
        )
    ours, theirs = ([rows[name] for name in kept] for rows in both)
    return ours, theirs, notes + told


# Metrics


def _measure(metric: str, entry: Entry, rows: Sequence[Row]) -> Measure:
    """Return a metric as a function of the items' scores, each as often as it was recorded."""

    def term(row: Row) -> tuple[float, float] | None:
        value = row["values"].get(metric)
        return None if value is None else (value, float(row["weight"]))

    if entry.perplexity:
        return Measure((term,), lambda ratios: np.exp(-ratios[..., 0]), (0.0, math.inf))
    known = [row["values"].get(metric, 0.0) for row in rows]
    share = all(0 <= one <= 1 for one in known if math.isfinite(one))
    return Measure((term,), bounds=(0.0, 1.0) if share else (-math.inf, math.inf))


def _is_mean(metric: str, entry: Entry, one: Recording) -> bool:
    """Return whether the evaluator's number is what the items give, or is said to be a mean.

    Raises UserError for one that is said to be a mean of all items and is another number.
    """
    told = one.recorded.get(metric)
    if told is None or one.counted != one.held:
        return metric in one.means or told is None
    found = _measure(metric, entry, one.rows).value(one.rows)
    fits = found is not None and math.isclose(found, told, rel_tol=FITS, abs_tol=FITS)
    if not fits and metric in one.means:
        raise UserError(
            f"expected the mean of {metric} in {one.place} to be {told:.9g}, as its "
            f"evaluator recorded, got {found}; the two are not of one run: evaluate again"
        )
    return fits


def meaning_of(entry: Entry, stated: Direction, rows: Sequence[Row]) -> Meaning:
    """Return what a metric says, by its entry in the table and what its task stated."""
    level = entry.chance
    if level == "options":
        counts = [len(row["options"]) for row in rows]
        level = float(np.mean([1 / count for count in counts])) if all(counts) else None
    good = entry.good or stated
    return Meaning(entry.kind, "" if good == "none" else good, level, entry.perplexity)


def compare_recordings(dense: Recording, pruned: Recording, table: MetricTable) -> Compared:
    """Return the comparison of two records of a task; UserError where they are no pair."""
    task = dense.task
    ours, theirs, notes = matched(dense, pruned)
    metrics = [m for m in ours[0]["values"] if all(m in row["values"] for row in (*ours, *theirs))]
    categories, same = [str(one["category"]) for one in ours], ours == theirs
    found, unlike = [], []
    for metric in metrics:
        entry = table.entry(task, metric)
        known = meaning_of(entry, dense.good.get(metric, ""), ours)
        if not all(_is_mean(metric, entry, one) for one in (dense, pruned)):
            unlike.append(metric)
            continue
        measure = _measure(metric, entry, [*ours, *theirs])
        sums = tuple(sums_of(measure, rows) for rows in (theirs, ours))
        told = known.kind == "ability" or known.direction in ("half", "down", "up")
        states = marks(sums, known) if told else None
        values = (sums[1].value, sums[0].value)
        row = row_of(task, task, metric, known, len(ours), values)
        found.append(Tested(row, known, sums, states, categories, identical=same))
    if unlike:
        notes.append(
            f"{task}: not compared, as its evaluator's number is no mean over its items: "
            f"{', '.join(unlike)}"
        )
    if not found:
        raise UserError(
            f"expected a metric of {task} that is a mean over the items in {dense.place}, "
            f"found {', '.join(unlike) or 'none'}; compare another task"
        )
    sides = {"dense": dense, "pruned": pruned}
    evidence = {side: {**one.evidence, "recorded": one.recorded} for side, one in sides.items()}
    half = any(one.known.direction == "half" for one in found)
    # Of a pair of sentences the first one is the stereotype.
    records = tuple(
        [{**row, "stereotype_idx": row["gold"] if half else None} for row in one]
        for one in (ours, theirs)
    )
    return Compared(found, notes, evidence, records)
