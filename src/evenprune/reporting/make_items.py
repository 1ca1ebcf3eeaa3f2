"""The items of a run's benchmarks with dense and pruned answers, as the page takes them in.

``--out`` gets JSON: ``sets``, what there is of each benchmark, and ``blocks``, texts and answers,
each compressed. Benchmarks whose records hold answers to compare are in it (``items/texts.py``):
no perplexities and no generated answers. Where all items take more than ``MEGABYTES``, a sample
is: items that pruning changed the answer to come first.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..base.checksums import source_folder
from ..base.errors import UserError
from ..base.files import canonical_json, write_text
from ..base.outputs import check_file
from ..base.reading import expected_form
from ..plan.finished import ITEMS, read_result
from ..plan.grids import Checkpoint, benchmarks_of
from ..plan.paths import Paths
from ..plan.run_sheet import RunSheet, read_run_sheet
from ..plan.tasks import splits_of
from ..stats.records import read_records
from .items.join import ItemSet, join
from .items.pack import SEED, fit
from .items.prompts import prompt_of
from .items.texts import FIELDS, read_texts

MEGABYTES = 3.0
FIELDS_OF_RECORDS = ("item_id", "category", "option_logprobs", "pred", "gold")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``make-items``."""
    add = parser.add_argument
    add("--run-sheet", type=Path, required=True, help="run_sheet.json, written by the workflow")
    add("--out", type=Path, required=True, help="the items, a .json file")


def asked(folder: Path, task: str, dataset: str) -> dict[str, Any]:
    """Return how a finished benchmark was asked: split, style, chat template, and the options."""
    spec = read_result(folder).get("spec", {})
    with expected_form("the options of a benchmark", folder, "evaluate again"):
        facts = spec.get("protocol", {})
        return {
            "split": facts.get("split") or spec.get("split") or splits_of(task, dataset)[0],
            "style": facts.get("style"),
            "chat": bool(spec.get("chat_template")),
            "spec": {name: spec.get(name) for name in ("limit", "seed")},
        }


def item_sets(sheet: RunSheet) -> Iterator[ItemSet]:
    """Yield the items of each benchmark; those that models were asked otherwise are another set."""
    paths = Paths(sheet.config)
    for slug, entry in sheet.benchmarks().items():
        if entry.task not in FIELDS or entry.dataset is None:
            continue
        alike: dict[str, list[tuple[Checkpoint, Path]]] = {}
        ways: dict[str, dict[str, Any]] = {}
        for point in sorted(sheet.files, key=lambda one: not one.is_base):
            if slug in benchmarks_of(sheet.config, point):
                folder = sheet.result_folder(point, slug)
                way = asked(folder, entry.task, entry.dataset)
                ways[key := canonical_json(way)] = way
                alike.setdefault(key, []).append((point, folder))
        for key, found in alike.items():
            way = ways[key]
            data = source_folder(paths.dataset(entry.dataset))
            if not data.exists():
                raise UserError(
                    f"expected the data of {slug} at {data}, found nothing; run the workflow, "
                    "which fetches them, in the folder that the run was made in"
                )
            spec = way["spec"] | {"style": way["style"]}
            texts = read_texts(entry.task, data, way["split"], spec)
            pattern, candidates = prompt_of(entry.task, way["style"])
            about = {
                "split": way["split"],
                "style": way["style"],
                "chat": way["chat"],
                "fields": list(FIELDS[entry.task]),
                "prompt": pattern,
                "candidates": candidates,
            }
            records = (
                (point, read_records(folder / ITEMS, FIELDS_OF_RECORDS)) for point, folder in found
            )
            with expected_form("records with options", found[0][1] / ITEMS, "evaluate again"):
                yield join(ItemSet(slug, entry.task, about), texts, records)


def run(args: argparse.Namespace) -> None:
    """Run ``make-items``."""
    check_file(args.out, [args.run_sheet])
    packed = fit(list(item_sets(read_run_sheet(args.run_sheet))), round(MEGABYTES * 1e6))
    content = {"sets": packed.sets, "blocks": packed.blocks, "seed": SEED}
    write_text(args.out, canonical_json(content) + "\n")
    shown = sum(one["shown"] for one in packed.sets)
    total = sum(one["of"] for one in packed.sets)
    print(f"{args.out}: {shown:,} of {total:,} items, {packed.size() / 1e6:.1f} MB")
