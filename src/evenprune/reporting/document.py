"""What the document of a run says, whatever form it is set in: PDF by LaTeX or a page of HTML.

First the bottom line, then what was run, then tables and figures in the paper's order.
"""

from dataclasses import dataclass

from ..analysis import claims, labels
from ..analysis.results import Run, groups
from ..config.table_registry import SHOWN
from .answer import Answer, answers, summary
from .notes import figure_caption, item_counts, seeds_words

DATA_FILES = ("tables.yaml",)  # part of this module's code, see codedigest.py
SUBTITLE = "What pruning changed, what was run, tables and figures"
# Verdicts on claims in the order of the page, with their heads.
HEADS = {
    claims.SUPPORTED: "Held",
    claims.IN_DIRECTION: "Held jointly, not one by one",
    claims.NOT_SUPPORTED: "Not shown",
    claims.CONTRADICTED: "Did not hold",
    claims.NOT_TESTED: "Not tested here",
}
Paragraphs = list[tuple[str, str]]  # (head, text)


@dataclass(frozen=True)
class Piece:
    """A table or figure of the document; a table's caption is in its own files."""

    kind: str
    slug: str
    section: str
    shows: str
    caption: str = ""


@dataclass(frozen=True)
class Document:
    """The document: paragraphs of the bottom line, facts of the run by name, pieces in order.

    ``summary`` is what pruning did to all models and ``answers`` to each, which the page of HTML
    begins with.
    """

    title: str
    bottom: Paragraphs
    facts: Paragraphs
    pieces: list[Piece]
    answers: list[Answer]
    summary: list[str]


def document(run: Run) -> Document:
    """Return the document of a run."""
    config, replies = run.sheet.config, answers(run)
    pieces = []
    for entry in SHOWN:  # in the paper's order
        words = (entry["section"], entry["shows"])
        if (slug := entry.get("table", "")) in config.tables:
            pieces.append(Piece("table", slug, *words))
        if (slug := entry.get("figure", "")) in config.figures:
            pieces.append(Piece("figure", slug, *words, figure_caption(run, slug)))
    said, title = summary(replies), config.title or "Results"
    bottom = bottom_line(run, replies, said)
    return Document(title, bottom, facts(run), pieces, replies, said)


def bottom_line(run: Run, replies: list[Answer], said: list[str]) -> Paragraphs:
    """Return what held, what did not and what was not tested, a paragraph each.

    Of a run with the table claims these are the paper's claims, of any other one it is what pruning
    did to each model.
    """
    config = run.sheet.config
    if "claims" not in config.tables:
        about = "Each pruned model against its dense one, on the same items."
        lines = [("Bottom line", " ".join([about, *said]))]
        return lines + [(one.name, " ".join(one.sentences)) for one in replies]
    findings = claims.findings(run)
    numbers = {name: sum(one.verdict == name for one in findings) for name in HEADS}
    words = ", ".join(f"{count} {name}" for name, count in numbers.items() if count)
    where = "Where the paper prints a number too, the table has it next to ours."
    if config.source == "world":
        where = (
            f"All numbers were measured in a small invented world (seed {config.world.seed}) "
            "with models trained for it. They test the methods where the planted bias is known and "
            "are not the numbers of the paper. report/world.html shows what the dense models "
            "learned."
        )
    lines = [("Bottom line", f"Of {len(findings)} claims of the paper, {words}. {where}")]
    # The verdict stands before each claim: nobody takes a refuted one for a result.
    return lines + [
        (head, f"Claim: {one.claim.text}" + (f" ({one.reason})" if one.reason else ""))
        for name, head in HEADS.items()
        for one in findings
        if one.verdict == name
    ]


def facts(run: Run) -> Paragraphs:
    """Return what was run, by name: models, methods, regimes, data, items, seeds, options."""
    sheet = run.sheet
    pruned = [point for point in sheet.checkpoints if not point.is_base]
    calibrated = [point for point in pruned if point.calibration != "none"]
    models = [
        labels.model_label(sheet, name) + (f" ({own})" if own else "")
        for name in sorted({point.model for point in sheet.checkpoints})
        for own in [labels.own_protocol(sheet, name)]
    ]
    grids = [
        f"{name.replace('_', ' ')}: {len(groups(grid))}" for name, grid in sheet.experiments.items()
    ]
    options, used = sheet.config.pruning, {point.regime for point in pruned}
    sparsity = ", ".join(label for name, label in labels.REGIME_LABELS.items() if name in used)
    data = dict.fromkeys(labels.calibration_label(sheet, one.calibration) for one in calibrated)
    seeds = seeds_words(point.seed for point in calibrated)
    methods = dict.fromkeys(labels.method_label(sheet, point.method) for point in pruned)
    rows = {
        "Models": ", ".join(models),
        "Methods": ", ".join(methods),
        "Sparsity": f"{sparsity} (N:M is N zeros in every M weights; 1:4 is 25% zeros)",
        "Calibration": ", ".join(data) + (f"; {seeds}" if seeds else ""),
        "Benchmarks": benchmarks(run),
        "Checkpoints": f"{len(pruned)} pruned, {len(sheet.checkpoints) - len(pruned)} dense; grid "
        f"points by experiment: {', '.join(grids)}",
        "Pruning": f"block size {options.block_size}, damping {options.damping:g}, bias weight "
        f"{options.bias_weight:g} ({options.bias_scaling}), alignment {options.alignment}",
    }
    return [(name, f"{text}.") for name, text in rows.items() if text]


def benchmarks(run: Run) -> str:
    """Return each benchmark with its items, sample, metric where it is not the usual, protocol."""
    sheet, parts = run.sheet, []
    counts = item_counts(run, sheet.config.benchmarks)
    for slug, entry in labels.column_order(sheet).items():
        words, judge = list[str](), labels.judge_label(sheet, slug)
        if slug in counts:
            words.append(f"{counts[slug]} {'tokens' if entry.task == 'perplexity' else 'items'}")
        words += [f"sampled with seed {entry.seed}"] if entry.limit is not None else []
        words += labels.protocol_words(entry)
        words += [f"judge {judge}"] if judge else []
        label = labels.benchmark_label(sheet, slug)
        parts.append(f"{label} ({', '.join(words)})" if words else label)
    return ", ".join(parts)
