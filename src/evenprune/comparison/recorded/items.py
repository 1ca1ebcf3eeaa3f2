"""Items of other evaluators' records, matched by what they hold, and the metrics of two records.

An item is the hash of its document and prompt. What one record holds several times (epochs,
duplicates in the data) is one item whose scores are means; nothing is matched by its place.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...config.tasks import Direction
from ...io.errors import UserError, shown
from ...io.files import canonical_json
from ...stats.measures import Measure
from ...stats.paired import FITS, Sums, sums_of
from ...stats.records import Record as Row
from ...stats.verdicts import Meaning, paired_test
from ..differences import Difference, Pair, Tested, answers, flips
from .metric_table import Entry, MetricTable

Item = dict[str, Any]  # an item's record
TEXT = 400  # signs of a text that are kept to be shown


@dataclass(frozen=True)
class Sample:
    """An item as one record holds it: hashes of document and prompt, and what was answered.

    ``values`` are metric -> score, None for one that is no number. ``shown`` are texts.
    """

    document: str
    prompt: str
    values: Mapping[str, float | None]
    category: str = ""
    options: Sequence[str] = ()
    option_logprobs: Sequence[float] | None = None
    gold: int | None = None
    text: str = ""
    answer: str = ""


@dataclass(frozen=True)
class Recording:
    """One task in a record.

    ``recorded`` are the evaluator's own numbers, those in ``means`` said to be means of the items;
    ``good`` is what the task says of its metrics. ``fixed`` has to be the same in both records,
    ``told`` is said where it differs. ``counted``: how many samples the evaluator scored.
    """

    task: str
    place: Path
    samples: Sequence[Sample]
    recorded: Mapping[str, float] = field(default_factory=dict)
    means: frozenset[str] = frozenset()
    good: Mapping[str, Direction] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    counted: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


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


def once(recordings: Iterable[Recording], place: Path) -> dict[str, Recording]:
    """Return the recordings by task; UserError for a task twice, of which none is the one."""
    found: dict[str, Recording] = {}
    for one in recordings:
        if one.task in found:
            raise UserError(
                f"expected one record of {one.task} in {place}, found {found[one.task].place} and "
                f"{one.place}; name the folder or file of one run"
            )
        found[one.task] = one
    return found


def _mean(values: Sequence[float | None]) -> float:
    known = [math.nan if one is None else one for one in values]
    return math.fsum(known) / len(known)


def rows_of(recording: Recording) -> dict[str, Item]:
    """Return item -> its record, in the order of items."""
    found: dict[str, list[Sample]] = {}
    for sample in recording.samples:
        found.setdefault(content(sample.document, sample.prompt), []).append(sample)
    rows = {}
    for name in sorted(found):
        several = found[name]
        one = several[0]
        names = [m for m in one.values if all(m in each.values for each in several)]
        row: Item = {
            "item_id": name[:32],
            "weight": len(several),
            "values": {m: _mean([each.values[m] for each in several]) for m in names},
            **{key: getattr(one, key) for key in ("document", "category", "text", "answer")},
            "options": list(one.options),
        }
        if one.option_logprobs is not None and all(one == each for each in several):
            scores = list(one.option_logprobs)
            row |= {"option_logprobs": scores, "gold": one.gold}
            row["pred"] = int(np.argmax(scores))
        rows[name] = row
    return rows


def matched(dense: Recording, pruned: Recording) -> tuple[list[Item], list[Item], list[str]]:
    """Return the records of the items that both have, in one order, and what was left out.

    Raises UserError where the two are no records of the same task, or share no item.
    """
    for name in dense.fixed:
        one, other = (each.fixed.get(name) for each in (dense, pruned))
        if pruned.fixed and one != other:
            raise UserError(
                f"{dense.task} was recorded with another {name}: {shown(one)} in {dense.place}, "
                f"{shown(other)} in {pruned.place}; evaluate both with the same"
            )
    both = [rows_of(one) for one in (dense, pruned)]
    shared = [name for name in both[0] if name in both[1]]
    kept = [name for name in shared if both[0][name]["weight"] == both[1][name]["weight"]]
    documents = [Counter(row["document"] for row in rows.values()) for rows in both]
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
    for recording in (dense, pruned):
        if not recording.fixed:
            notes.append(
                f"{dense.task}: no results of its evaluator beside {recording.place}, so that the "
                "task's version and the number of samples are not checked"
            )
        if recording.counted is not None and recording.counted != len(recording.samples):
            notes.append(
                f"{dense.task}: {recording.place} holds {len(recording.samples):,} of the "
                f"{recording.counted:,} samples that its evaluator counted"
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
    notes += [
        f"{dense.task}: {name} {shown(dense.told.get(name))} (dense), "
        f"{shown(pruned.told.get(name))}"
        for name in dense.told
        if dense.told.get(name) != pruned.told.get(name)
    ]
    ours, theirs = ([rows[name] for name in kept] for rows in both)
    return ours, theirs, notes


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


def _is_mean(metric: str, entry: Entry, recording: Recording) -> bool:
    """Return whether the evaluator's number is what the items give, or is said to be a mean.

    Raises UserError for one that is said to be a mean of all items and is another number.
    """
    if metric not in recording.recorded or recording.counted != len(recording.samples):
        return metric in recording.means or metric not in recording.recorded
    rows = list(rows_of(recording).values())
    found, told = _measure(metric, entry, rows).value(rows), recording.recorded[metric]
    fits = found is not None and math.isclose(found, told, rel_tol=FITS, abs_tol=FITS)
    if not fits and metric in recording.means:
        raise UserError(
            f"expected the mean of {metric} in {recording.place} to be {told:.9g}, as its "
            f"evaluator recorded, got {found}; the two are not of one run: evaluate again"
        )
    return fits


def meaning_of(entry: Entry, stated: Direction, rows: Sequence[Row]) -> Meaning:
    """Return what a metric says, by its entry in the table and what its task stated."""
    level = entry.chance
    if level == "options":
        counts = [len(row["options"]) for row in rows]
        level = float(np.mean([1 / count for count in counts])) if all(counts) else None
    return Meaning(entry.kind, entry.direction(stated), level, entry.perplexity)


def _stereotyped(known: Meaning, both: Sequence[Sums]) -> list[Pair | None]:
    """Return whether answers are stereotyped, by a score of 0 or 1; nothing for other scores."""
    if known.kind != "bias" or known.direction not in ("half", "down", "up"):
        return []
    marks = [one.parts[:, 0, 0] / one.parts[:, 1, 0] for one in both]
    if not np.isin(np.concatenate(marks), (0, 1)).all():
        return []
    bad = float(known.direction != "up")
    return [(bool(before == bad), bool(after == bad)) for after, before in zip(*marks)]


def recorded_differences(
    dense: Recording, pruned: Recording, table: MetricTable
) -> tuple[list[Tested], list[str], tuple[list[Item], list[Item]]]:
    """Return the rows of a task before the correction for their number, notes, matched records.

    Raises UserError where the two records are no pair.
    """
    ours, theirs, notes = matched(dense, pruned)
    metrics = [m for m in ours[0]["values"] if all(m in row["values"] for row in (*ours, *theirs))]
    same = ours == theirs
    found, unlike = [], []
    for metric in metrics:
        entry = table.entry(dense.task, metric)
        stated = dense.good.get(metric, "")
        known = meaning_of(entry, stated, ours)
        if not all(_is_mean(metric, entry, one) for one in (dense, pruned)):
            unlike.append(metric)
            continue
        measure = _measure(metric, entry, [*ours, *theirs])
        sums = tuple(sums_of(measure, rows) for rows in (theirs, ours))
        after, before = (one.value for one in sums)
        test, pairs = None, _stereotyped(known, sums)
        if before is not None and after is not None and known.direction:
            test = paired_test(dense.task, metric, sums[:1], sums[1:], known)
        if known.direction == "half":  # of a pair of sentences the first one is the stereotype
            for each in (*ours, *theirs):
                each["stereotype_idx"] = each.get("gold")
        row = Difference(
            *(dense.task, dense.task, metric, known.kind, known.direction, known.chance),
            n=len(ours),
            clustered=False,
            dense=before,
            pruned=after,
            difference=None if before is None or after is None else after - before,
            flips=flips(pairs) if pairs else None,
            answers=answers(*sums) if known.kind == "ability" else None,
        )
        categories = [str(one["category"]) for one in ours]
        found.append(Tested(row, test, "", sums, categories, pairs, same))
    if unlike:
        notes.append(
            f"{dense.task}: not compared, as its evaluator's number is no mean over its items: "
            f"{', '.join(unlike)}"
        )
    if not found:
        raise UserError(
            f"expected a metric of {dense.task} that is a mean over the items in {dense.place}, "
            f"found {', '.join(unlike) or 'none'}; compare another task"
        )
    return found, notes, (ours, theirs)
