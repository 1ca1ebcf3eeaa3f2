"""Typeset all tables and figures of a run as one PDF with pdflatex.

Runs latexmk in a temporary folder, without shell escape and without user settings. The PDF
has no dates or random ids: equal tables and figures give equal bytes.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from ..base.errors import UserError
from ..base.files import atomic_path
from ..base.outputs import check_file
from ..plan.run_sheet import RunSheet, read_run_sheet
from .figure_captions import caption
from .labels import (
    REGIME_LABELS,
    calibration_label,
    column_order,
    judge_label,
    method_label,
    model_label,
    own_protocol,
    protocol_words,
)
from .latex import latex_available
from .render import escape_latex

# Part of this module's code, see codedigest.py.
DATA_FILES = ("preamble.tex",)
PACKAGES = "latexmk texlive-latex-base texlive-latex-recommended texlive-latex-extra"
SECONDS = 300  # a document that takes longer hangs
APPENDIX = ("errata",)  # tables that come last, behind the figures


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``make-paper``."""
    add = parser.add_argument
    add("--tables", type=Path, required=True, help="folder with TABLE.tex")
    add("--figures", type=Path, required=True, help="folder with FIGURE.pdf")
    add("--run-sheet", type=Path, required=True, help="run_sheet.json, written by the workflow")
    add("--out", type=Path, required=True, help="the PDF")


def provenance(run_sheet: RunSheet) -> list[str]:
    """Return paragraphs that say what was run: sources, models, grids, benchmarks, options."""
    config = run_sheet.config
    lines = []
    if config.source == "world":
        lines.append(
            "All numbers were measured in a small invented world with a model trained for it "
            f"(seed {config.world.seed}). They test the method where the planted bias is known "
            "and are not the numbers of the paper."
        )
    else:
        lines.append(
            "All numbers were measured by this workflow. Where the paper prints a counterpart, "
            "the CSV beside each table has it next to ours."
        )
    names = sorted({point.model for point in run_sheet.files})
    models = [
        f"{model_label(run_sheet, name)} ({', '.join(filter(None, (name, own)))})"
        for name in names
        for own in [own_protocol(run_sheet, name)]
    ]
    lines.append(f"Models: {'; '.join(models)}.")
    grids = []
    for name, points in run_sheet.experiments.items():
        regimes = dict.fromkeys(point.regime for point in points if not point.is_base)
        calibrations = dict.fromkeys(p.calibration for p in points if p.calibration != "none")
        methods = dict.fromkeys(method_label(run_sheet, point.method) for point in points)
        seeds = dict.fromkeys(str(point.seed) for point in points)
        grids.append(
            f"{name}: {len(points)} checkpoints ({', '.join(methods)}; "
            f"{', '.join(REGIME_LABELS[regime] for regime in regimes)}; "
            f"{', '.join(calibration_label(run_sheet, c) for c in calibrations)}; "
            f"seed {', '.join(seeds)})"
        )
    lines.append(f"Experiments: {'. '.join(grids)}.")
    benchmarks = []
    for slug, entry in column_order(run_sheet).items():
        words = [
            f"task {entry.task}",
            f"data {entry.dataset}",
            f"metric {run_sheet.headline(slug)}",
        ]
        words += protocol_words(entry)
        judge = judge_label(run_sheet, slug)
        words += [f"judge {judge}"] if judge else []
        words.append(
            "all items" if entry.limit is None else f"{entry.limit:,} items, seed {entry.seed}"
        )
        benchmarks.append(f"{slug} ({', '.join(words)})")
    lines.append(f"Benchmarks: {'; '.join(benchmarks)}.")
    options = config.pruning
    lines.append(
        f"Pruning: block size {options.block_size}, damping {options.damping:g}, bias weight "
        f"{options.bias_weight:g} ({options.bias_scaling}), alignment {options.alignment}. "
        "A regime N:M has N zeros in every M weights (1:4 is 25% zeros)."
    )
    return lines


def document(run_sheet: RunSheet, tables: Sequence[str], figures: Sequence[str]) -> str:
    """Return the LaTeX document that inputs ``tables/SLUG.tex`` and ``figures/SLUG.pdf``."""
    preamble = resources.files(__package__).joinpath("preamble.tex").read_text(encoding="utf-8")
    title = escape_latex(run_sheet.config.title or "Results")
    parts = [
        r"\documentclass[a4paper,10pt]{article}",
        r"\pdfinfoomitdate=1",
        r"\pdftrailerid{}",
        r"\pdfsuppressptexinfo=-1",
        r"\usepackage[margin=2.2cm]{geometry}",
        preamble,
        r"\usepackage[font=small,labelfont=bf]{caption}",
        # Tables and figures stay in order, where they are put.
        r"\usepackage{float}",
        r"\floatplacement{table}{H}",
        r"\floatplacement{figure}{H}",
        r"\raggedbottom",
        r"\setlength{\parindent}{0pt}",
        r"\setlength{\parskip}{4pt}",
        r"\emergencystretch=3em",
        r"\begin{document}",
        rf"\begin{{center}}{{\Large\bfseries {title}}}\\[4pt]",
        r"{\large Debias-SparseGPT: tables and figures}\end{center}",
        r"\section*{What was run}",
        r"\begin{small}",
    ]
    for line in provenance(run_sheet):
        parts += [escape_latex(line), ""]
    parts += [r"\end{small}", r"\section*{Tables}"]
    parts += [rf"\input{{tables/{slug}.tex}}" for slug in tables if slug not in APPENDIX]
    if figures:
        parts.append(r"\section*{Figures}")
    for slug in figures:
        parts += [
            r"\begin{figure}\centering",
            r"\includegraphics[max width=\linewidth,max height=0.85\textheight]"
            rf"{{figures/{slug}.pdf}}",
            rf"\caption{{{escape_latex(caption(run_sheet, slug))}}}\label{{fig:{slug}}}",
            r"\end{figure}",
        ]
    last = [slug for slug in tables if slug in APPENDIX]
    if last:
        parts.append(r"\section*{Appendix: errata of the paper}")
    parts += [rf"\input{{tables/{slug}.tex}}" for slug in last]
    return "\n".join([*parts, r"\end{document}"]) + "\n"


def first_error(log: str) -> str:
    """Return LaTeX's first error from a log: the line with ``!`` and the line number after it."""
    lines = log.splitlines()
    for index, line in enumerate(lines):
        if line.startswith("!"):
            place = next((x for x in lines[index + 1 : index + 12] if x.startswith("l.")), "")
            return " ".join(f"{line} {place}".split())
    return lines[-1] if lines else "no log was written"


def typeset(folder: Path) -> bytes:
    """Run latexmk on ``paper.tex`` in ``folder`` and return the PDF.

    Raises UserError with LaTeX's first error, and when LaTeX takes longer than ``SECONDS``.
    """
    environment = os.environ | {
        "SOURCE_DATE_EPOCH": "0",
        "FORCE_SOURCE_DATE": "1",
        "TZ": "UTC",
        "openin_any": "p",
        "openout_any": "p",
        "max_print_line": "1000",
    }
    command = [
        "latexmk", "-norc", "-pdf", "-interaction=nonstopmode", "-halt-on-error",
        "-no-shell-escape", "paper.tex",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"LaTeX did not finish the paper within {SECONDS} s; look at the tables' .tex files"
        ) from None
    pdf = folder / "paper.pdf"
    if done.returncode or not pdf.is_file():
        log = folder / "paper.log"
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        reason = first_error(text or done.stderr.decode(errors="replace"))
        raise UserError(f"LaTeX could not typeset the paper: {reason}")
    return pdf.read_bytes()


def make_paper(run_sheet: RunSheet, tables: Path, figures: Path, out: Path) -> None:
    """Typeset the configured tables and figures into ``out``.

    Raises UserError when LaTeX is missing, a table or figure is, or LaTeX fails.
    """
    if not latex_available():
        raise UserError(
            f"make-paper needs latexmk and pdflatex, which are not installed; install {PACKAGES}, "
            "or leave the PDF out: tables and figures do not need it"
        )
    with tempfile.TemporaryDirectory(prefix="paper-") as name:
        folder = Path(name)
        for kind, source, slugs, suffix in (
            ("tables", tables, run_sheet.config.tables, "tex"),
            ("figures", figures, run_sheet.config.figures, "pdf"),
        ):
            (folder / kind).mkdir()
            for slug in slugs:
                file = source / f"{slug}.{suffix}"
                if not file.is_file():
                    raise UserError(
                        f"expected {file}, found none; run make-{kind[:-1]} "
                        f"--{kind[:-1]} {slug} first"
                    )
                shutil.copy(file, folder / kind / file.name)
        text = document(run_sheet, run_sheet.config.tables, run_sheet.config.figures)
        (folder / "paper.tex").write_text(text, encoding="utf-8")
        content = typeset(folder)
    with atomic_path(out) as temporary:
        temporary.write_bytes(content)


def run(args: argparse.Namespace) -> None:
    """Run ``make-paper``."""
    run_sheet = read_run_sheet(args.run_sheet)
    used = [args.tables / f"{slug}.tex" for slug in run_sheet.config.tables]
    used += [args.figures / f"{slug}.pdf" for slug in run_sheet.config.figures]
    check_file(args.out, [args.run_sheet, *used])
    make_paper(run_sheet, args.tables, args.figures, args.out)
    print(args.out)
