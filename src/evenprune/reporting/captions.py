"""Captions, with the number of items and the seeds; apart from drawing: a word redraws nothing."""

from collections.abc import Iterable
from dataclasses import replace

from ..analysis.results import Quantity
from ..plan.table_registry import FIGURES
from .cells import Run
from .labels import benchmark_label, column_order
from .render import Table


def item_counts(run: Run, slugs: Iterable[str]) -> dict[str, str]:
    """Return the number of items (of a perplexity: tokens) of each benchmark's headline."""
    found = {}
    for slug in slugs:
        quantity = Quantity(slug, run.sheet.headline(slug))
        measured = [run.results.one(point, quantity) for point in run.sheet.files]
        if counts := sorted({one.n for one in measured if one is not None and one.n}):
            found[slug] = " to ".join(f"{n:,}" for n in dict.fromkeys((counts[0], counts[-1])))
    return found


def seeds_words(seeds: Iterable[int]) -> str:
    """Return seeds of the calibration data in words."""
    names = [str(seed) for seed in sorted(set(seeds))]
    return f"calibration seed{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""


def sizes(run: Run, slugs: Iterable[str], seeds: Iterable[int]) -> str:
    """Return the sentence on items and seeds; "" where there is nothing to say."""
    named = set(slugs)
    wanted = [slug for slug in column_order(run.sheet) if slug in named]
    grouped: dict[str, list[str]] = {}
    for slug, number in item_counts(run, wanted).items():
        number += " tokens" * (run.sheet.config.benchmarks[slug].task == "perplexity")
        grouped.setdefault(number, []).append(benchmark_label(run.sheet, slug))
    parts = [f"{number} ({', '.join(labels)})" for number, labels in grouped.items()]
    text = "; ".join(filter(None, [f"n = {', '.join(parts)}" if parts else "", seeds_words(seeds)]))
    return f"{text[0].upper() * (not parts) or text[0]}{text[1:]}." if text else ""


def with_sizes(run: Run, table: Table) -> Table:
    """Return a table whose caption says how many items and which seeds its values are of."""
    used = [
        cell.source.partition("/")[0]
        for row in table.rows
        for cell in row.cells.values()
        if cell.source
    ]
    if not used:
        return table
    seeds = [
        int(seed)
        for row in table.rows
        if row.identity.get("calibration", "none") != "none"
        for seed in row.identity.get("seeds", "").split()
    ]
    return replace(table, caption=f"{table.caption} {sizes(run, used, seeds)}".strip())


def figure_caption(run: Run, slug: str) -> str:
    """Return a figure's caption with items and seeds; ``tasks`` says whose items it shows."""
    entry, sheet = FIGURES[slug], run.sheet
    tasks = entry.get("tasks", ())
    names = [
        name
        for name, one in sheet.config.benchmarks.items()
        if "all" in tasks or (one.task in tasks and name == sheet.primary(one.task))
    ]
    seeds = {point.seed for point in sheet.files if point.calibration != "none"}
    world = "Measured in an invented world; not comparable to the paper."
    parts = [entry["caption"], world if sheet.config.source == "world" else ""]
    return " ".join(filter(None, [*parts, sizes(run, names, seeds) if tasks else ""]))
