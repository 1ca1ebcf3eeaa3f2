"""What the document of a run says, whatever form it is set in: PDF by LaTeX or a page of HTML.

First the bottom line, then what was run, then tables and figures in the paper's order, and how to
make one number again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..analysis.results import groups
from ..plan.paths import Paths
from ..plan.run_sheet import RunSheet
from ..plan.table_registry import SHOWN
from .bottom_line import bottom_line
from .captions import figure_caption, item_counts, seeds_words
from .cells import Run
from .labels import (
    REGIME_LABELS,
    benchmark_label,
    calibration_label,
    column_order,
    judge_label,
    method_label,
    model_label,
    own_protocol,
    protocol_words,
)
from .tables.answer import Answer, answers, summary

# Tables and figures in the order of tables.yaml, which is the paper's.
ORDER = [("table", one["table"]) if "table" in one else ("figure", one["figure"]) for one in SHOWN]
DATA_FILES = ("tables.yaml",)  # part of this module's code, see codedigest.py
SUBTITLE = "What pruning changed, what was run, tables and figures"


@dataclass(frozen=True)
class Piece:
    """A table or figure of the document; a table's caption is in its own files."""

    kind: str
    slug: str
    caption: str = ""


@dataclass(frozen=True)
class Document:
    """The document: paragraphs of the bottom line, facts of the run by name, pieces in order.

    ``bottom`` and ``facts`` are (head, text); ``again`` are (sentence, command) of one cell;
    ``summary`` is what pruning did to all models and ``answers`` to each, which the page of HTML
    begins with.
    """

    title: str
    bottom: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...]
    pieces: tuple[Piece, ...]
    again: tuple[tuple[str, str], ...]
    answers: tuple[Answer, ...] = ()
    summary: tuple[str, ...] = ()


def ordered(tables: Sequence[str], figures: Sequence[str]) -> list[Piece]:
    """Return tables and figures in the document's order."""
    chosen = {"table": {*tables}, "figure": {*figures}}
    return [Piece(kind, slug) for kind, slug in ORDER if slug in chosen[kind]]


def facts(run: Run) -> list[tuple[str, str]]:
    """Return what was run, by name: models, methods, regimes, data, items, seeds, options."""
    sheet = run.sheet
    pruned = [point for point in sheet.files if not point.is_base]
    models = [
        model_label(sheet, name) + (f" ({own})" if own else "")
        for name in sorted({point.model for point in sheet.files})
        for own in [own_protocol(sheet, name)]
    ]
    calibrations = dict.fromkeys(p.calibration for p in pruned if p.calibration != "none")
    grids = [f"{_words(name)}: {len(groups(points))}" for name, points in sheet.experiments.items()]
    options = sheet.config.pruning
    used = {point.regime for point in pruned}
    seeds = seeds_words(point.seed for point in pruned if point.calibration != "none")
    found = {
        "Models": ", ".join(models),
        "Methods": _listed(method_label(sheet, point.method) for point in pruned),
        "Sparsity": ", ".join(label for name, label in REGIME_LABELS.items() if name in used)
        + " (N:M is N zeros in every M weights; 1:4 is 25% zeros)",
        "Calibration": _listed(calibration_label(sheet, name) for name in calibrations)
        + (f"; {seeds}" if seeds else ""),
        "Benchmarks": benchmarks(run),
        "Checkpoints": f"{len(pruned)} pruned, {len(sheet.files) - len(pruned)} dense; grid points "
        f"by experiment: {', '.join(grids)}",
        "Pruning": f"block size {options.block_size}, damping {options.damping:g}, bias weight "
        f"{options.bias_weight:g} ({options.bias_scaling}), alignment {options.alignment}",
    }
    return [(name, f"{text}.") for name, text in found.items() if text]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _words(name: str) -> str:
    return name.replace("_", " ")


def benchmarks(run: Run) -> str:
    """Return each benchmark with its items, sample, metric where it is not the usual, protocol."""
    sheet, parts = run.sheet, []
    counts = item_counts(run, sheet.config.benchmarks)
    for slug, entry in column_order(sheet).items():
        words = []
        if slug in counts:
            words.append(f"{counts[slug]} {'tokens' if entry.task == 'perplexity' else 'items'}")
        if entry.limit is not None:
            words.append(f"sampled with seed {entry.seed}")
        words += protocol_words(entry)
        judge = judge_label(sheet, slug)
        words += [f"judge {judge}"] if judge else []
        label = benchmark_label(sheet, slug)
        parts.append(f"{label} ({', '.join(words)})" if words else label)
    return ", ".join(parts)


def again(run: Run) -> list[tuple[str, str]]:
    """Return how one number is traced and made again: (sentence, command), of one of this run."""
    sheet = run.sheet
    table = next((name for name in ("main", "regimes") if name in sheet.config.tables), None)
    points = sheet.experiments.get(table or "", [])
    pruned = [point for point in points if not point.is_base]
    own = [one for one in pruned if sheet.base_method(one.method) == "debias-sparsegpt"]
    point = next(iter([*own, *pruned]), None)
    slug = next((one for one in (sheet.primary("unqover"), *column_order(sheet)) if one), None)
    if table is None or point is None or slug is None:
        return []
    folder, paths = sheet.config.results, Paths(sheet.config)
    cell = f"{point.model}/{point.method}/{point.regime}/{point.calibration}/{slug}"
    where = f"{method_label(sheet, point.method)} on {benchmark_label(sheet, slug)}"
    return [
        (
            f"Where a number comes from, checked on the way (here {where}; in the page of HTML "
            "each cell names its own command):",
            f"evenprune explain {table} --cell {cell} --results {folder}",
        ),
        (
            "Its evaluation again (with this run's configuration file, if it has one):",
            f"snakemake --cores all -f {paths.evaluation(point)}/summary.json",
        ),
        ("The table again:", f"snakemake --cores all {folder}/tables/{table}.csv"),
        ("What is left to do after any change:", "snakemake -n"),
    ]


def document(run: Run) -> Document:
    """Return the document of a run."""
    sheet: RunSheet = run.sheet
    pieces = [
        Piece(one.kind, one.slug, figure_caption(run, one.slug) if one.kind == "figure" else "")
        for one in ordered(sheet.config.tables, sheet.config.figures)
    ]
    found = answers(run)
    return Document(
        sheet.config.title or "Results",
        tuple(bottom_line(run)),
        tuple(facts(run)),
        tuple(pieces),
        tuple(again(run)),
        tuple(found),
        tuple(summary(found)),
    )
