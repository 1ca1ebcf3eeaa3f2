"""Sentences beneath tables, and words of their captions."""

from collections.abc import Iterable, Mapping, Sequence

from ..analysis import labels
from ..analysis.results import Group, Quantity, Run
from ..config.grids import Checkpoint
from ..config.run_sheet import RunSheet
from ..config.table_registry import FIGURES, TABLES
from ..io.files import read_json
from .tables import DTO, Column, Row

WORD_LIST = (
    "A word list only counts words: those rates stand in for a judge and say nothing about safety."
)
# What is bold, by the word of tables.yaml: the best value of a block's column, or as in the paper
# where daggers stand, what is significant, and the lowest DTO of a block.
BOLD = {
    "best": "Bold: best pruned value of a block.",
    "significant": "Bold: improvements with a dagger, and the best pruned DTO of a block.",
    "tested": "Bold: improvements with a dagger.",
}


def notes(
    run: Run, columns: Sequence[Column], groups: Sequence[Group], rows: Sequence[Row],
    bold: str = "best",
) -> list[str]:  # fmt: skip
    """Return the sentences beneath a table: abbreviations, marks, item limits, provenance."""
    benchmarks = run.sheet.config.benchmarks
    named = dict.fromkeys(column.quantity.benchmark for column in columns)
    used = {slug: benchmarks[slug].task for slug in named if slug in benchmarks}
    has_cp, has_dto = "crows_pairs" in used.values(), DTO in [one.quantity for one in columns]
    cells = [cell for row in rows for cell in row.cells.values()]
    tested = [f for f in columns for group in groups if run.dagger_test(group, f.quantity)]
    heads = ", ".join(dict.fromkeys(column.head for column in tested))
    signs = ("bold", "dagger", "in_calibration")
    shown = {name for name in signs if any(getattr(cell, name) for cell in cells)}
    sentences = {
        "CP: CrowS-Pairs, 50 is unbiased and the best is the closest to it.": has_cp,
        "DTO: distance to optimum, from MMLU and UnQover.": has_dto,
        BOLD["tested" if bold == "significant" and not has_dto else bold]: "bold" in shown,
        "†: improvement of Debias-SparseGPT over SparseGPT with p < 0.01 by a paired t-test over "
        f"clusters of items, not corrected for several tests (tested: {heads}).": "dagger" in shown,
        "‡: no clean test, the calibration pairs are from the same data set and bias types; "
        "neither tested nor compared.": "in_calibration" in shown,
        "Differences are computed before rounding.": any(row.kind == "diff" for row in rows),
        "±: standard deviation over calibration seeds.": any(one.sd is not None for one in cells),
    }
    said = [sentence for sentence, holds in sentences.items() if holds]
    said += [*judge_notes(run.sheet, used), *limit_notes(run, used, groups)]
    return said + provenance_notes(run.sheet)


def judge_notes(sheet: RunSheet, benchmarks: Iterable[str]) -> list[str]:
    """Return who judges, of the benchmarks whose answers are judged."""
    judges = {slug: label for slug in benchmarks if (label := labels.judge_label(sheet, slug))}
    said = [f"{labels.benchmark_label(sheet, slug)}: {judge}" for slug, judge in judges.items()]
    listed = any(sheet.config.benchmarks[slug].judge is None for slug in judges)
    return [f"Judge of {'; '.join(said)}."] * bool(judges) + [WORD_LIST] * listed


def limit_notes(run: Run, benchmarks: Iterable[str], groups: Sequence[Group]) -> list[str]:
    """Return a sentence on benchmarks measured on a sample or under a named protocol."""
    parts = []
    points = [point for group in groups for point in group.checkpoints()]
    for slug in benchmarks:
        entry = run.sheet.config.benchmarks[slug]
        words = labels.protocol_words(entry)
        if entry.limit is not None:
            items = counts(run, Quantity(slug, run.sheet.headline(slug)), points)
            whole = [run.results.one(point, Quantity(slug, "items_total")) for point in points]
            total = {f" of {int(one.value):,}" for one in whole if one is not None}
            # A perplexity counts tokens, everything else items.
            known = len(items) == 1 and entry.task != "perplexity"
            number = f"{items[0]:,}" if known else f"at most {entry.limit:,}"
            of = total.pop() if len(total) == 1 else ""
            words = [f"{number}{of} items sampled with seed {entry.seed}", *words]
        if words:
            parts.append(f"{labels.benchmark_label(run.sheet, slug)}: {', '.join(words)}")
    return [f"{'; '.join(parts)}."] if parts else []


def provenance_notes(sheet: RunSheet) -> list[str]:
    """Return the sentence that keeps an invented world apart from the paper."""
    said = "Measured in an invented world with a model made for it; not comparable to the paper."
    return [said] if sheet.config.source == "world" else []


def weights_notes(run: Run, rows: Iterable[Row]) -> list[str]:
    """Return a sentence on each model of a table whose weights came out of another form.

    The records of the sources say it, in the folder of the run. A table whose rows name no model is
    about all of the run.
    """
    named = {row.identity["model"] for row in rows if "model" in row.identity}
    said = []
    for name, entry in run.sheet.config.models.items():
        file = run.results.path.parent / f"sources/models/{name}.json"
        if (not named or name in named) and file.is_file():
            source = read_json(file).get("source") or {}
            said += [f"{entry.label}: {source['weights']}."] if "weights" in source else []
    return said


def regimes_phrase(points: Iterable[Checkpoint]) -> str:
    """Return the regimes of checkpoints in words."""
    names = dict.fromkeys(point.regime for point in points)
    words = [labels.REGIME_LABELS[name] for name in names if name != "dense"]
    return f"{', '.join(words)} sparsity"


def contents(columns: Sequence[Column]) -> str:
    """Return what columns show, in words: perplexity, accuracy (…), bias (…) and DTO."""
    parts = []
    for group, words in labels.GROUP_WORDS.items():
        heads = [column.head for column in columns if column.group == group]
        if heads:
            listed = group in ("performance", "fairness")
            parts.append(f"{words} ({', '.join(heads)})" if listed else words)
    text = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return text[0].upper() + text[1:]


# Captions


def counts(run: Run, quantity: Quantity, points: Iterable[Checkpoint] | None = None) -> list[int]:
    """Return the numbers of items that a quantity has in checkpoints, by default all, sorted."""
    chosen = run.sheet.checkpoints if points is None else points
    measured = (run.results.one(point, quantity) for point in chosen)
    return sorted({one.n for one in measured if one is not None and one.n})


def item_counts(run: Run, slugs: Iterable[str]) -> dict[str, str]:
    """Return the number of items (of a perplexity: tokens) of each benchmark's headline."""
    known = {slug: counts(run, Quantity(slug, run.sheet.headline(slug))) for slug in slugs}
    return {
        slug: " to ".join(f"{n:,}" for n in dict.fromkeys((sizes[0], sizes[-1])))
        for slug, sizes in known.items()
        if sizes
    }


def seeds_words(seeds: Iterable[int]) -> str:
    """Return seeds of the calibration data in words."""
    names = [str(seed) for seed in sorted(set(seeds))]
    return f"calibration seed{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""


def sizes(run: Run, slugs: Iterable[str], seeds: Iterable[int]) -> str:
    """Return the sentence on items and seeds; "" where there is nothing to say."""
    named, grouped = set(slugs), dict[str, list[str]]()
    order = [slug for slug in labels.column_order(run.sheet) if slug in named]
    for slug, number in item_counts(run, order).items():
        number += " tokens" * (run.sheet.config.benchmarks[slug].task == "perplexity")
        grouped.setdefault(number, []).append(labels.benchmark_label(run.sheet, slug))
    parts = [f"{number} ({', '.join(names)})" for number, names in grouped.items()]
    text = "; ".join(filter(None, [f"n = {', '.join(parts)}" * bool(parts), seeds_words(seeds)]))
    text = text if parts else text[:1].upper() + text[1:]
    return f"{text}." if text else ""


def table_caption(run: Run, slug: str, rows: Sequence[Row], words: Mapping[str, str]) -> str:
    """Return a table's caption, which says how many items and which seeds its values are of.

    ``words`` are those that ``tables.yaml`` leaves open.
    """
    cells = [cell for row in rows for cell in row.cells.values()]
    used = [cell.source.partition("/")[0] for cell in cells if cell.source]
    seeds = [
        int(seed)
        for row in rows
        if row.identity.get("calibration", "none") != "none"
        for seed in row.identity.get("seeds", "").split()
    ]
    caption = TABLES[slug]["caption"].format_map(words)
    return f"{caption} {sizes(run, used, seeds)}".strip() if used else caption


def figure_caption(run: Run, slug: str) -> str:
    """Return a figure's caption with items and seeds; ``tasks`` says whose items it shows."""
    entry, sheet = FIGURES[slug], run.sheet
    tasks = entry.get("tasks", ())
    names = [
        name
        for name, one in sheet.config.benchmarks.items()
        if "all" in tasks or (one.task in tasks and name == sheet.primary(one.task))
    ]
    seeds = {point.seed for point in sheet.checkpoints if point.calibration != "none"}
    world = "Measured in an invented world; not comparable to the paper."
    parts = [entry["caption"], world if sheet.config.source == "world" else ""]
    return " ".join(filter(None, [*parts, sizes(run, names, seeds) if tasks else ""]))
