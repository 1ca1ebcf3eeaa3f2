"""What is planted in the invented world, and what its dense models have learned of it.

``--world`` names the world's folder, ``--model NAME DIR`` the evaluation of a dense model (the
folder with a folder a benchmark), once for each; ``--out`` gets world.csv, world.md and
world.html. A *gap* is what a model holds, in nats: ln p of the stereotype less that of the other
sentence, or of the group that a question names first less that of the other. Its counterpart are
the planted log-odds, those of the world's own texts.
"""

import argparse
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evenprune.io.errors import UserError
from evenprune.io.files import read_json, read_jsonl, write_csv, write_text
from evenprune.io.outputs import check_place
from evenprune.io.reading import expected_form
from evenprune.reporting.forms import to_html, to_markdown, to_page
from evenprune.reporting.tables import Row, Table
from evenprune.stats.records import own_order

TITLE = "The invented world: what is planted, and what is learned"
# Benchmark -> what its items are called on the page.
ITEMS = {
    "stereoset": "StereoSet-like pairs", "crows_pairs": "CrowS-Pairs-like pairs",
    "unqover": "UnQover-like questions", "bbq": "BBQ-like, ambiguous",
}  # fmt: skip
COLUMNS = ("model", "items", "item_id", "category", "planted", "measured")
HEADS = ("model", "items", "n", "mean planted", "mean measured", "slope", "correlation")


def read_planted(path: Path) -> dict[str, Any]:
    """Return what ``generate-world`` wrote of leans and items; UserError for anything else."""
    found: dict[str, Any] = read_json(path)
    with expected_form("the world's leans and items", path, "make the world again"):
        [row["log_odds"] for row in found["leans"]]
        [items.keys() for items in found["items"].values()]
    return found


def read_points(planted: dict[str, Any], folder: Path, model: str, task: str) -> pd.DataFrame:
    """Return the gaps of a benchmark's items, of questions the mean over the options' orders.

    A settled question is left out: its answer is not a matter of leans. Raises UserError where an
    item is not of this world.
    """
    path = folder / task / "items.jsonl"
    items = {
        name: one if isinstance(one, Mapping) else {"log_odds": one}
        for name, one in planted["items"].get(task, {}).items()
    }
    every = list(read_jsonl(path, ("item_id", "option_logprobs")))
    gaps: dict[str, list[float]] = {}
    with expected_form(f"records of {task}", path, "evaluate again"):
        for row in every:
            name, scores = str(row["item_id"]), row["option_logprobs"]
            if name not in items:
                raise UserError(
                    f"expected the items of this world in {path}, got {name!r}, which its "
                    "planted.json does not have; evaluate on this world's data"
                )
            if items[name].get("right") is None:
                first, second = items[name].get("groups", (0, 1))
                gaps.setdefault(name, []).append(scores[first] - scores[second])
        values = [
            (model, task, name, row.get("category", ""), float(items[name]["log_odds"]), gap)
            for row in own_order(path, every)
            if (name := str(row["item_id"])) in gaps
            for gap in [float(np.mean(gaps[name]))]
        ]
    return pd.DataFrame(values, columns=COLUMNS)


def fitted(found: pd.DataFrame) -> tuple[float, float]:
    """Return slope and correlation of the measured on the planted; 0, 0 where none varies."""
    if len(found) < 2 or not found["planted"].std() or not found["measured"].std():
        return 0.0, 0.0
    slope = np.polyfit(found["planted"], found["measured"], 1)[0]
    return float(slope), float(found["planted"].corr(found["measured"]))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``report-world``."""
    add = parser.add_argument
    add("--world", type=Path, required=True, metavar="DIR", help="the world's folder")
    add("--model", dest="models", action="append", nargs=2, required=True, metavar=("NAME", "DIR"),
        help="name and evaluation of a dense model; give one --model a model")  # fmt: skip
    add("--out", type=Path, required=True, metavar="DIR", help="folder for the report")


def run(args: argparse.Namespace) -> None:
    """Run ``report-world``."""
    check_place(args.out)
    models = {name: Path(folder) for name, folder in args.models}
    planted = read_planted(args.world / "planted.json")
    every = [
        read_points(planted, folder, name, task)
        for name, folder in models.items()
        for task in ITEMS
        if (folder / task / "items.jsonl").is_file()
    ]
    every = [one for one in every if len(one)]
    if not every:
        raise UserError(
            f"expected results of {', '.join(ITEMS)} in {', '.join(map(str, models.values()))}, "
            "found none; evaluate the dense model first"
        )
    rows = pd.concat(every).round({"measured": 6}).to_dict("records")
    write_csv(args.out / "world.csv", COLUMNS, rows)
    lines = [
        [one["model"][0], ITEMS[one["items"][0]], str(len(one))]
        + [f"{x:.2f}" for x in (one["planted"].mean(), one["measured"].mean(), *fitted(one))]
        for one in every
    ]
    odds = np.array([row["log_odds"] for row in planted["leans"]])
    text = (
        f"We plant {len(odds)} biases, one per group and trait: a statement about the group "
        f"names the negative word at log-odds between {odds.min():.2f} and {odds.max():.2f} "
        f"(mean size {np.abs(odds).mean():.2f}). Sentences and questions test the same biases. "
        "All values are in nats; world.csv has every item. The training text has no sentence in "
        "the form of these pairs."
    )
    shown = tuple(Row(tuple(line)) for line in lines)
    table = Table("gaps", "Measured against planted", HEADS, (), shown, (text,))
    html = to_page([f"<h1>{escape(TITLE)}</h1>", to_html(table)], TITLE)
    write_text(args.out / "world.html", html)
    write_text(args.out / "world.md", f"# {TITLE}\n\n{to_markdown(table)}")
    print(f"{args.out}/world.html, .md, .csv: {len(rows)} items of {len(models)} models")
