"""Sentences beneath tables, and words of their captions."""

from collections.abc import Iterable, Mapping, Sequence

from ..analysis.results import Group, Quantity
from ..plan.grids import Checkpoint
from ..plan.run_sheet import RunSheet
from .cells import BOLD, DTO, Field, Run
from .labels import (
    GROUP_WORDS,
    REGIME_LABELS,
    benchmark_label,
    judge_label,
    model_label,
    protocol_words,
)
from .render import TableRow

WORD_LIST = (
    "A word list only counts words: those rates stand in for a judge and say nothing about safety."
)


def notes(
    run: Run,
    fields: Sequence[Field],
    shown: Sequence[Group],
    rows: Sequence[TableRow],
    bold: str = "best",
) -> list[str]:
    """Return the sentences beneath a table: abbreviations, marks, item limits, provenance."""
    run_sheet = run.sheet
    used = dict.fromkeys(field.quantity.benchmark for field in fields)
    sentences = []
    tasks = {
        run_sheet.config.benchmarks[slug].task
        for slug in used
        if slug in run_sheet.config.benchmarks
    }
    if "crows_pairs" in tasks:
        sentences.append("CP: CrowS-Pairs, 50 is unbiased and the best is the closest to it.")
    if any(field.quantity == DTO for field in fields):
        sentences.append("DTO: distance to optimum, from MMLU and UnQover.")
    cells = [cell for row in rows for cell in row.cells.values()]
    if any(cell.bold for cell in cells):
        has_dto = any(field.quantity == DTO for field in fields)
        sentences.append(BOLD["tested" if bold == "significant" and not has_dto else bold])
    tested = [
        field for field in fields for group in shown if run.dagger_test(group, field.quantity)
    ]
    if any(cell.dagger for cell in cells):
        heads = ", ".join(dict.fromkeys(field.column.head for field in tested))
        sentences.append(
            "†: improvement of Debias-SparseGPT over SparseGPT with p < 0.01 by a paired "
            f"t-test over clusters of items, not corrected for several tests (tested: {heads})."
        )
    if any(cell.in_calibration for cell in cells):
        sentences.append(
            "‡: no clean test, the calibration pairs are from the same data set and bias types; "
            "neither tested nor compared."
        )
    if any(row.kind == "diff" for row in rows):
        sentences.append("Differences are computed before rounding.")
    if any(cell.sd is not None for cell in cells):
        sentences.append("±: standard deviation over calibration seeds.")
    sentences += judge_notes(run_sheet, used)
    return sentences + limit_notes(run, used, shown) + provenance_notes(run_sheet)


def judge_notes(run_sheet: RunSheet, benchmarks: Iterable[str]) -> list[str]:
    """Return who judges, of the benchmarks whose answers are judged."""
    judges = {
        slug: label
        for slug in benchmarks
        if slug in run_sheet.config.benchmarks and (label := judge_label(run_sheet, slug))
    }
    if not judges:
        return []
    said = "; ".join(f"{benchmark_label(run_sheet, name)}: {one}" for name, one in judges.items())
    listed = any(run_sheet.config.benchmarks[name].judge is None for name in judges)
    return [f"Judge of {said}.", *([WORD_LIST] if listed else [])]


def limit_notes(run: Run, benchmarks: Iterable[str], shown: Sequence[Group]) -> list[str]:
    """Return a sentence on benchmarks measured on a sample or under a named protocol."""
    parts = []
    for slug in benchmarks:
        entry = run.sheet.config.benchmarks.get(slug)
        if entry is None:
            continue
        label = benchmark_label(run.sheet, slug)
        quantity = Quantity(slug, run.sheet.headline(slug))
        points = [point for group in shown for point in group.checkpoints()]
        scored, all_items = (
            [one for point in points if (one := run.results.one(point, wanted)) is not None]
            for wanted in (quantity, Quantity(slug, "items_total"))
        )
        counts, total = {one.n for one in scored if one.n}, {int(one.value) for one in all_items}
        words = []
        if entry.limit is not None:
            # A perplexity counts tokens, everything else items.
            known = len(counts) == 1 and entry.task != "perplexity"
            number = f"{min(counts):,}" if known else f"at most {entry.limit:,}"
            of = f" of {min(total):,}" if len(total) == 1 else ""
            words.append(f"{number}{of} items sampled with seed {entry.seed}")
        words += protocol_words(entry)
        if words:
            parts.append(f"{label}: {', '.join(words)}")
    return [f"{'; '.join(parts)}."] if parts else []


def provenance_notes(run_sheet: RunSheet) -> list[str]:
    """Return the sentence that keeps an invented world apart from the paper."""
    if run_sheet.config.source == "world":
        return [
            "Measured in an invented world with a model made for it; not comparable to the paper."
        ]
    return []


def weights_notes(
    run_sheet: RunSheet, weights: Mapping[str, str], rows: Iterable[TableRow]
) -> list[str]:
    """Return a sentence on each model of a table whose ``weights`` came out of another form.

    A table whose rows name no model is about all of the run.
    """
    named = {str(row.identity["model"]) for row in rows if "model" in row.identity}
    return [
        f"{model_label(run_sheet, model)}: {text}."
        for model, text in weights.items()
        if not named or model in named
    ]


def regimes_phrase(points: Iterable[Checkpoint]) -> str:
    """Return the regimes of checkpoints in words."""
    names = dict.fromkeys(point.regime for point in points)
    labels = [REGIME_LABELS[name] for name in names if name != "dense"]
    return f"{', '.join(labels)} sparsity"


def contents(fields: Sequence[Field]) -> str:
    """Return what columns show, in words: perplexity, accuracy (…), bias (…) and DTO."""
    parts = []
    for group, words in GROUP_WORDS.items():
        heads = [field.column.head for field in fields if field.column.group == group]
        if heads:
            listed = group in ("performance", "fairness")
            parts.append(f"{words} ({', '.join(heads)})" if listed else words)
    text = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return text[0].upper() + text[1:]
