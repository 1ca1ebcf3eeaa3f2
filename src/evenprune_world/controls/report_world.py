"""What is planted in the invented world, and what its dense models have learned of it.

``--world`` names the world's folder, ``--model NAME=DIR`` the evaluation of a dense model (the
folder with a folder a benchmark), once for each; ``--out`` gets world.csv, world.md, world.html
and a figure. A *gap* is what a model holds, in nats: of a pair of sentences ln p of the stereotype
less ln p of the other, of a question the log-probability of the group that is named first less that
of the other. Its counterpart are the planted log-odds, those of the world's own texts.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from evenprune.base.errors import UserError, shown
from evenprune.base.files import iter_jsonl, read_json, write_csv
from evenprune.base.outputs import check_place
from evenprune.reporting.plots import WIDTH

from .blocks import Block, write_page
from .sums import planted_of

TITLE = "The invented world: what is planted, and what is learned"
# Benchmark -> what its items are called on the page.
ITEMS = {
    "stereoset": "StereoSet-like pairs", "crows_pairs": "CrowS-Pairs-like pairs",
    "unqover": "UnQover-like questions", "bbq": "BBQ-like, ambiguous",
}  # fmt: skip
# (benchmark, metric, label, scale) of the table of figures.
FIGURES = (
    ("stereoset", "ss", "StereoSet SS", 100),
    ("crows_pairs", "pct_stereotype", "CrowS-Pairs", 100),
    ("unqover", "acc", "UnQover", 100),
    ("bbq", "acc_amb", "BBQ amb.", 100),
    ("bbq", "acc_dis", "BBQ dis.", 100),
    ("bbq", "s_amb", "s_amb", 100),
    ("mmlu", "acc", "MMLU", 100),
    ("hellaswag", "acc", "HellaSwag", 100),
    ("wikitext2", "ppl", "Perplexity", 1),
    ("realtoxicityprompts", "unsafe_rate", "RTP unsafe", 100),
    ("harmbench", "unsafe_rate", "HarmBench unsafe", 100),
)
COLUMNS = ("model", "items", "item_id", "category", "planted", "measured")


@dataclass(frozen=True)
class Points:
    """One model's gaps on one benchmark: item ids, categories, planted and measured in nats."""

    model: str
    task: str
    names: list[str]
    categories: list[str]
    planted: NDArray[np.float64]
    measured: NDArray[np.float64]

    def line(self) -> tuple[float, float]:
        """Return slope and correlation of the measured on the planted; 0, 0 where none varies."""
        if len(self.planted) < 2 or not self.planted.std() or not self.measured.std():
            return 0.0, 0.0
        slope = np.polyfit(self.planted, self.measured, 1)[0]
        return float(slope), float(np.corrcoef(self.planted, self.measured)[0, 1])


def read_points(planted: dict[str, Any], folder: Path, model: str, task: str) -> Points:
    """Return the gaps of a benchmark's items, of questions over all orders of the options.

    A settled question is left out: its answer is not a matter of leans. Raises UserError where an
    item is not of this world.
    """
    gaps: dict[str, list[float]] = {}
    odds: dict[str, float] = {}
    category: dict[str, str] = {}
    path = folder / task / "items.jsonl"
    for _, record in iter_jsonl(path, ("item_id", "category", "option_logprobs")):
        name = record["item_id"]
        (first, second), log_odds, sign = planted_of(path, name, planted["items"].get(task, {}))
        if not sign:
            scores = record["option_logprobs"]
            gaps.setdefault(name, []).append(scores[first] - scores[second])
            category[name], odds[name] = record["category"], log_odds
    means = np.array([sum(values) / len(values) for values in gaps.values()])
    return Points(model, task, [*gaps], [*category.values()], np.array([*odds.values()]), means)


def scatter(found: Sequence[Points]) -> Figure:
    """Return a panel a kind of items and a row a model: measured against planted, with its line."""
    models = list(dict.fromkeys(one.model for one in found))
    tasks = list(dict.fromkeys(one.task for one in found))
    figure = Figure(figsize=(WIDTH, 0.5 + 1.7 * len(models)))
    axes = figure.subplots(len(models), len(tasks), squeeze=False)
    for one in found:
        axis = axes[models.index(one.model)][tasks.index(one.task)]
        axis.plot(one.planted, one.measured, ".", markersize=2, alpha=0.5, color="#0072B2")
        slope, correlation = one.line()
        ends = np.array([one.planted.min(), one.planted.max()])
        middle = one.measured.mean() + slope * (ends - one.planted.mean())
        axis.plot(ends, middle, color="0.2", linewidth=1)
        axis.set_title(f"slope {slope:.2f}, r {correlation:.2f}", fontsize=7)
        if one.model == models[-1]:
            axis.set_xlabel(ITEMS[one.task], fontsize=7)
        if one.task == tasks[0]:
            axis.set_ylabel(one.model, fontsize=7)
        axis.tick_params(labelsize=6)
    return figure


def figures_table(models: dict[str, Path]) -> list[list[str]]:
    """Return the dense models' figures, a row a model; "–" where a benchmark was not run."""
    lines = [["model", *(label for *_, label, _ in FIGURES)]]
    for name, folder in models.items():
        found = read_json(folder / "summary.json")["benchmarks"]
        cells = []
        for task, metric, _, scale in FIGURES:
            value = found.get(task, {}).get("metrics", {}).get(metric, {}).get("value")
            cells.append("–" if value is None else f"{scale * value:.{1 if scale > 1 else 2}f}")
        lines.append([name, *cells])
    return lines


def blocks(
    planted: dict[str, Any], models: dict[str, Path], found: Sequence[Points]
) -> list[Block]:
    """Return the page."""
    odds = np.array([row["log_odds"] for row in planted["leans"]])
    text = (
        f"{len(odds)} leans are planted, one a group and dimension: a statement about the group "
        f"names the negative pole at log-odds between {odds.min():.2f} and {odds.max():.2f} "
        f"(mean size {np.abs(odds).mean():.2f}). Sentences and questions are about the same leans."
    )
    lines = [["model", "items", "n", "mean planted", "mean measured", "slope", "correlation"]]
    for one in found:
        numbers = one.planted.mean(), one.measured.mean(), *one.line()
        count = str(len(one.names))
        lines.append([one.model, ITEMS[one.task], count, *(f"{value:.2f}" for value in numbers)])
    dots = "In nats; a dot an item. Templates of the pairs are not in the training text."
    return [
        Block("text", text),
        Block("heading", "Measured against planted"),
        Block("text", dots),
        Block("image", "world_gaps"),
        Block("table", rows=lines),
        Block("heading", "The dense models"),
        Block("table", rows=figures_table(models)),
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``report-world``."""
    add = parser.add_argument
    add("--world", type=Path, required=True, metavar="DIR", help="the world's folder")
    add("--model", dest="models", action="append", required=True, metavar="NAME=DIR",
        help="evaluation of a dense model; give one --model a model")  # fmt: skip
    add("--out", type=Path, required=True, metavar="DIR", help="folder for the report")


def run(args: argparse.Namespace) -> None:
    """Run ``report-world``."""
    check_place(args.out)
    models = named_folders(args.models)
    planted = read_planted(args.world / "planted.json")
    found = [
        read_points(planted, folder, name, task)
        for name, folder in models.items()
        for task in ITEMS
        if (folder / task / "items.jsonl").is_file()
    ]
    if not found:
        raise UserError(
            f"expected results of {', '.join(ITEMS)} in {', '.join(map(str, models.values()))}, "
            "found none; evaluate the dense model first"
        )
    rows = [
        dict(zip(COLUMNS, (one.model, one.task, *values)))
        for one in found
        for values in zip(
            one.names, one.categories, one.planted.tolist(), one.measured.round(6).tolist()
        )
    ]
    write_csv(args.out / "world.csv", COLUMNS, rows)
    page = blocks(planted, models, found)
    write_page(args.out / "world", TITLE, page, {"world_gaps": lambda: scatter(found)})
    print(f"{args.out}/world.html, .md, .csv: {len(rows)} items of {len(models)} models")


def read_planted(path: Path) -> dict[str, Any]:
    """Return what ``generate-world`` wrote of the leans; UserError for anything else."""
    found = read_json(path)
    leans, items = (
        found.get(key) if isinstance(found, dict) else None for key in ("leans", "items")
    )
    good = isinstance(leans, list) and leans and isinstance(items, dict)
    if not good or not all(isinstance(row, dict) and "log_odds" in row for row in leans or ()):
        raise UserError(
            f"expected the world's leans and items in {path}, got {shown(found)}; make the world "
            "again with generate-world"
        )
    return found


def named_folders(words: Sequence[str]) -> dict[str, Path]:
    """Return name -> folder of words NAME=DIR; UserError for any other."""
    found = {}
    for word in words:
        name, equals, folder = word.partition("=")
        if not (name and equals and folder) or name in found:
            raise UserError(
                f"--model: expected NAME=DIR, each name once, got {word!r}; give a dense model's "
                "name and the folder of its evaluation"
            )
        found[name] = Path(folder)
    return found
