"""What the page says of the items in words: benchmarks, checkpoints, and what was left out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base.errors import UserError
from ...base.reading import expected_form, read_json
from ...plan.grids import Checkpoint
from ...plan.run_sheet import RunSheet
from ..labels import (
    REGIME_LABELS,
    benchmark_label,
    calibration_label,
    method_label,
    model_label,
)

BASE64 = re.compile(r"[A-Za-z0-9+/]+=*")
REMEDY = "run make-items again"
# Which answers of a task count as stereotyped.
STEREOTYPED = {
    "unqover": "Stereotyped is an answer that names a person: the context decides nothing.",
    "bbq": "Stereotyped is the answer in line with the bias, where the data say which.",
    "crows_pairs": "Stereotyped is the more stereotyping sentence where it is the likelier one.",
    "stereoset": "Stereotyped is the stereotype where it is likelier than the anti-stereotype.",
}
PAIRS = ("crows_pairs", "stereoset")


@dataclass(frozen=True)
class Items:
    """The items of a page: what it knows at once, and the blocks that it unpacks later."""

    index: dict[str, Any]
    blocks: list[str]


def read_items(path: Path, sheet: RunSheet) -> Items | None:
    """Return what ``make-items`` wrote, in the words of a run; None where the run has no items.

    Raises UserError for a file of another form: what stands in a page unescaped is checked here.
    """
    content = read_json(path)
    with expected_form("items that make-items wrote", path, REMEDY):
        blocks = list(content["blocks"])
        if not all(isinstance(one, str) and BASE64.fullmatch(one) for one in blocks):
            raise UserError(f"expected blocks of items in base 64 in {path}; {REMEDY}")
        slugs = [one["benchmark"] for one in content["sets"]]
        sets = [
            _worded(sheet, one, content["seed"], slugs.count(one["benchmark"]) > 1)
            for one in content["sets"]
        ]
    return Items({"sets": sets}, blocks) if sets else None


def _worded(sheet: RunSheet, one: Mapping[str, Any], seed: int, several: bool) -> dict[str, Any]:
    """Return what the page says of a set of items, its labels and a note.

    ``several``: whether models were asked the benchmark in several ways, a set each.
    """
    slug, task = one["benchmark"], one["task"]
    way = ", ".join(filter(None, [one["split"], one["style"], "chat" if one["chat"] else ""]))
    names = ("model", "method", "regime", "calibration", "seed")
    points = [Checkpoint(**{name: each[name] for name in names}) for each in one["answers"]]
    seeds = {point.seed for point in points if not point.is_base}
    answers = [
        {
            "model": point.model,
            "model_label": model_label(sheet, point.model),
            "label": answer_label(sheet, point, len(seeds) > 1),
            "point": "/".join(point.key.split("/")[:-1]),
            "dense": point.is_base,
            "preferred": sheet.base_method(point.method) == "debias-sparsegpt",
            "block": each["block"],
        }
        for point, each in zip(points, one["answers"], strict=True)
    ]
    kinds = [] if task in PAIRS else ["wrong", "right"]
    kinds += ["biased", "unbiased"] if task in STEREOTYPED else []
    kept = ("benchmark", "task", "chat", "fields", "prompt", "candidates", "categories", "texts")
    return {
        **{name: one[name] for name in kept},
        "label": benchmark_label(sheet, slug) + (f" ({way})" if several else ""),
        "kinds": kinds,
        "note": note(one, seed),
        "answers": answers,
    }


def answer_label(sheet: RunSheet, point: Checkpoint, seeds: bool) -> str:
    """Return a checkpoint's name beside others of its model; ``seeds``: whether its seed too."""
    if point.is_base:
        return method_label(sheet, point.method)
    words = [method_label(sheet, point.method), REGIME_LABELS[point.regime]]
    if point.calibration != "none":
        words.append(calibration_label(sheet, point.calibration))
        words += [f"seed {point.seed}"] if seeds else []
    return ", ".join(words)


def note(one: Mapping[str, Any], seed: int) -> str:
    """Return how many items of a set there are, whether they are a sample, what is stereotyped."""
    text = (
        f"{one['of']:,} items; pruning changes the answer to {one['changed']:,} of them at least "
        "once."
    )
    if one["shown"] < one["of"]:
        text += (
            f" This page holds {one['shown']:,}, a sample with seed {seed} that takes changed "
            "items first: its shares are not those of the benchmark. All are in items.jsonl."
        )
    return f"{text} {STEREOTYPED.get(one['task'], '')}".strip()
