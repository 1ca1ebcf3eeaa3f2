"""The items of a run's benchmarks with dense and pruned answers, as the page takes them in.

Benchmarks whose records hold answers to compare are in it (``item_texts.py``): no perplexities and
no generated answers. Where all items take more than ``MEGABYTES``, a sample is: items that pruning
changed the answer to come first.
"""

import argparse
import itertools
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..config.finished import ITEMS, read_result
from ..config.grids import Checkpoint, benchmarks_of
from ..config.run_sheet import RunSheet, read_run_sheet
from ..io.checksums import sealed, source_folder
from ..io.errors import UserError
from ..io.files import canonical_json, write_text
from ..io.outputs import check_file
from ..io.reading import expected_form
from ..stats.metrics import blocks_of, combination, softmax
from ..stats.records import Record, read_records
from .item_texts import FIELDS, ItemText, read_texts, split_of

MEGABYTES = 2.0
SEED = 0  # of the sample that a limit leaves
LEAST = 20  # items that every benchmark keeps, whatever the limit
RECORD_FIELDS = ("item_id", "category", "option_logprobs", "pred", "gold")
Items = dict[str, Any]  # a benchmark's items that were asked alike, as the page reads them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``make-items``."""
    add = parser.add_argument
    add("--run-sheet", type=Path, required=True, help="run_sheet.json, written by the workflow")
    add("--out", type=Path, required=True, help="the items, a .json file")


def asked(folder: Path, task: str, dataset: str) -> dict[str, Any]:
    """Return how a finished benchmark was asked: split, style, chat template, and the options."""
    spec = read_result(folder).get("spec", {})
    with expected_form("the options of a benchmark", folder, "evaluate again"):
        return {
            "split": split_of(spec, task, dataset),
            "style": spec.get("protocol", {}).get("style"),
            "chat": bool(spec.get("chat_template")),
            "spec": {name: spec.get(name) for name in ("limit", "seed")},
        }


def item_sets(sheet: RunSheet) -> Iterator[Items]:
    """Yield the items of each benchmark; those that models were asked otherwise are another set."""
    for slug, entry in sheet.benchmarks().items():
        if entry.task not in FIELDS or entry.dataset is None:
            continue
        alike: dict[str, list[tuple[Checkpoint, Path]]] = {}
        for point in sorted(sheet.checkpoints, key=lambda one: not one.is_base):
            if slug in benchmarks_of(sheet.config, point):
                folder = sheet.result_folder(point, slug)
                way = canonical_json(asked(folder, entry.task, entry.dataset))
                alike.setdefault(way, []).append((point, folder))
        for key, folders in alike.items():
            about = json.loads(key)
            data = source_folder(sheet.dataset(entry.dataset))
            texts = read_texts(entry.task, data, about["split"], about.pop("spec"))
            about |= {"benchmark": slug, "task": entry.task, "fields": FIELDS[entry.task]}
            records = ((one, read_records(place / ITEMS, RECORD_FIELDS)) for one, place in folders)
            with expected_form("records with options", folders[0][1] / ITEMS, "evaluate again"):
                yield joined(about, texts, records)


def stereotyped(task: str, record: Record) -> int | None:
    """Return which option is the biased answer; None where the item does not say.

    It is the stereotype of a pair or the one that a question of your own names, and BBQ's answer in
    line with the bias. UnQover's data name none, see ``leans``.
    """
    named: int | None = record.get("biased_idx", record.get("stereotype_idx"))
    return 0 if task in ("crows_pairs", "stereoset") else named


def leans(rows: Sequence[Record]) -> dict[str, int]:
    """Return question -> the person whom a model leans to on UnQover, as an option's number.

    That is the sign of UnQover's C(x1, x2, a) over the four questions of a complete block: both
    orders of the two persons, the attribute and its negation. Others have none.
    """
    indices = {}
    for block in blocks_of([row for row in rows if row.get("block") is not None]).values():
        lean = combination(block, _shares) if len(block) == 4 else 0.0
        for row in block.values() if lean else ():
            who = "x1" if (lean > 0) != bool(row["negated"]) else "x2"
            indices[row["item_id"]] = row[f"{who}_idx"]
    return indices


def _shares(row: Record) -> tuple[float, float]:
    p = softmax(row["option_logprobs"])
    return float(p[row["x1_idx"]]), float(p[row["x2_idx"]])


def _item(about: Mapping[str, Any], texts: Mapping[str, ItemText], row: Record) -> list[Any]:
    name, pair = str(row["item_id"]), about["task"] in ("crows_pairs", "stereoset")
    if name not in texts:
        raise UserError(
            f"expected the item {name!r} of {about['benchmark']} in its data, found none; "
            "evaluate again with the data that are there now"
        )
    roles = (None if pair else row["gold"], row.get("unknown_idx"))
    return [name, str(row["category"]), *texts[name], *roles, stereotyped(about["task"], row)]


def _logprobs(row: Record) -> list[float]:
    last = [row["unrelated_logprob"]] if "unrelated_logprob" in row else []
    return [round(one, 3) for one in (*row["option_logprobs"], *last)]


def joined(
    about: Mapping[str, Any],
    texts: Mapping[str, ItemText],
    records: Iterable[tuple[Checkpoint, Sequence[Record]]],
) -> Items:
    """Return a benchmark's items with the answers of all checkpoints.

    An item is [id, category, texts, options, right option, "unknown", stereotyped option]; numbers
    that it lacks are None. The first checkpoint decides order and items. One that lacks an item has
    no answer to it; what only later ones have is left out. Raises UserError for an item that the
    data do not have.
    """
    items: list[list[Any]] = []
    answers: list[Items] = []
    for point, rows in records:
        items = items or [_item(about, texts, row) for row in rows]
        mine = {str(row["item_id"]): row for row in rows}
        own, entry = [mine.get(item[0]) for item in items], asdict(point)
        entry["chosen"] = [row and row["pred"] for row in own]
        entry["logprobs"] = [row and _logprobs(row) for row in own]
        if point.is_base and about["task"] == "unqover":
            lean = leans(rows)
            entry["leans"] = [lean.get(item[0]) for item in items]
        answers.append(entry)
    return {**about, "items": items, "answers": answers}


def changes(one: Items) -> list[list[bool]]:
    """Return of each checkpoint which of its answers are others than its dense model's."""
    dense = {each["model"]: each["chosen"] for each in one["answers"] if each["method"] == "dense"}
    pairs = [
        zip(dense.get(each["model"], each["chosen"]), each["chosen"], strict=True)
        for each in one["answers"]
    ]
    return [[None not in both and both[0] != both[1] for both in each] for each in pairs]


def fitted(sets: Sequence[Items], limit: float) -> list[Items]:
    """Return the items in at most about ``limit`` characters together, all if they fit.

    Otherwise benchmarks give an item in turn, changed items first, then others, each in a random
    order; a few items of each (``LEAST``) remain whatever the limit.
    """
    columns = [changes(one) for one in sets]
    flags = [[any(row) for row in zip(*each)] for each in columns]
    orders = [random.Random(SEED).sample(range(len(each)), len(each)) for each in flags]
    for order, changed in zip(orders, flags):
        order.sort(key=[not flag for flag in changed].__getitem__)
    chosen: list[list[int]] = [[] for _ in sets]
    used = 0
    for turn in itertools.zip_longest(*orders):
        for one, mine, k in zip(sets, chosen, turn):
            if k is not None and (used < limit or len(mine) < LEAST):
                mine.append(k)
                scores = [each["logprobs"][k] for each in one["answers"]]
                used += len(canonical_json([one["items"][k], scores]))

    def some(entry: Items, places: Sequence[int]) -> Items:
        lists = {name: [v[k] for k in places] for name, v in entry.items() if isinstance(v, list)}
        return entry | lists

    return [
        one
        | {"of": len(changed), "changed": sum(changed), "items": [one["items"][k] for k in mine]}
        | {"answers": [some(a, mine) | {"flips": sum(f)} for a, f in zip(one["answers"], column)]}
        for one, mine, changed, column in zip(sets, map(sorted, chosen), flags, columns)
    ]


def run(args: argparse.Namespace) -> None:
    """Run ``make-items``."""
    check_file(args.out, [args.run_sheet])
    sets = fitted(list(item_sets(read_run_sheet(args.run_sheet))), MEGABYTES * 1e6)
    text = canonical_json(sealed({"sets": sets, "seed": SEED}))
    write_text(args.out, text + "\n")
    shown, total = sum(len(one["items"]) for one in sets), sum(one["of"] for one in sets)
    print(f"{args.out}: {shown:,} of {total:,} items, {len(text) / 1e6:.1f} MB")
