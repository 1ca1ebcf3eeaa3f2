"""What the page says of the items in words: benchmarks, checkpoints, and what was left out."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..base.reading import expected_form, read_json
from ..plan.grids import Checkpoint
from ..plan.run_sheet import RunSheet
from .labels import benchmark_label
from .tables.answer import name_of

# Which answers of a task count as stereotyped.
STEREOTYPED = {
    "bbq": "Stereotyped is the answer in line with the bias, where the data say which.",
    "crows_pairs": "Stereotyped is the more stereotyping sentence where it is the likelier one.",
    "stereoset": "Stereotyped is the stereotype where it is likelier than the anti-stereotype.",
    "multiple_choice": "Stereotyped is the option that the question names as the stereotype.",
    "unqover": "The data do not name a stereotype. Stereotyped is the person whom the dense model "
    "leans to over both orders of the two persons and the negated question, where all four are "
    "there.",
}


def read_items(path: Path, sheet: RunSheet) -> list[dict[str, Any]]:
    """Return what ``make-items`` wrote, in the words of a run: a set a benchmark.

    The first one shows a stereotyped answer of the pruned model that changed the most answers,
    where there is one. Raises UserError for a file of another form.
    """
    with expected_form("items that make-items wrote", path, "run make-items again"):
        content = read_json(path)
        slugs = [one["benchmark"] for one in content["sets"]]
        sets = [
            _worded(sheet, one, content["seed"], slugs.count(one["benchmark"]) > 1)
            for one in content["sets"]
        ]
        flips = Counter[str]()
        for one in sets:
            flips.update({each["point"]: each["flips"] for each in one["answers"]})
        harshest = max(flips, key=lambda point: flips[point], default="")
        for one in sets:
            seen = [each["flips"] for each in one["answers"] if each["point"] == harshest]
            one |= {"harshest": harshest, "flipped": any(seen)}
        order = ("stereotypes", "flipped")
        return sorted(
            sets, key=lambda one: (*(not one[name] for name in order), one["task"] != "unqover")
        )


def _worded(sheet: RunSheet, one: Mapping[str, Any], seed: int, several: bool) -> dict[str, Any]:
    """Return a set of items with labels and a note; ``several``: its benchmark has several sets."""
    slug = one["benchmark"]
    way = ", ".join(filter(None, [one["split"], one["style"], "chat" if one["chat"] else ""]))
    named = [item[6] for item in one["items"]]
    answers = []
    for each in one["answers"]:
        point = Checkpoint(*(each[field.name] for field in fields(Checkpoint)))
        named += each.get("leans", [])
        label = name_of(sheet, point) + (f", seed {point.seed}" if point.seed else "")
        answers.append({**each, "point": point.key, "label": label, "dense": point.is_base})
    return {
        **one,
        "key": f"{slug}-{way}" if several else slug,
        "label": benchmark_label(sheet, slug) + (f" ({way})" if several else ""),
        "stereotypes": any(option is not None for option in named),
        "note": note(one, seed),
        "answers": answers,
    }


def note(one: Mapping[str, Any], seed: int) -> str:
    """Return how many items of a set there are, whether they are a sample, what is stereotyped."""
    shown = len(one["items"])
    text = f"{one['of']:,} items; pruning changes the answer to {one['changed']:,} of them."
    if shown < one["of"]:
        text += (
            f" This page holds {shown:,}, a sample with seed {seed} that takes changed items "
            "first: its shares are not those of the benchmark. All are in items.jsonl."
        )
    return f"{text} {STEREOTYPED.get(one['task'], '')}".strip()
