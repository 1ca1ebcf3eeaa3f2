"""Tables of analyses: matrices by their masks, the paper's claims, groups by association."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from ..analysis import mask_diffs
from ..analysis.claims import ALPHA, Finding, counts, findings
from ..analysis.comparisons import Comparison, Key
from ..analysis.labels import model_label, pair_label, point_label
from ..analysis.results import Group, Quantity, Run, dense_group, groups
from ..config.finished import ITEMS
from ..config.table_registry import TABLES
from ..io.errors import UserError
from ..io.reading import expected_form
from ..stats import inference
from ..stats.records import read_records
from .notes import provenance_notes
from .rows import embolden, made, make_cell, points_of
from .table_columns import benchmark_column, benchmark_with, columns_of, refused
from .tables import Cell, Column, Row, Table

MOST = 20  # groups
FEWEST = 5  # items, for an interval that says something
MASKS_BOLD = "Bold: largest disagreement or difference, smallest Jaccard index."
ZEROS = "Weights that were zero before pruning count as pruned."


def masks(run: Run, slug: str) -> Table:
    """Return the matrices whose masks differ most from SparseGPT's (tab:sparsity-pattern-analysis).

    A block a grid point of the experiment. The directions of the columns say what is bold, as in
    the paper, not what is good: largest differences, the smallest Jaccard index.
    """
    sheet, columns = run.sheet, columns_of(run, slug)
    shown = mask_diffs.compared(sheet, f"the table {slug}")
    rows, sentences = list[Row](), list[str]()
    for group in shown:
        run.results.require(group.checkpoints())
        label = pair_label(sheet, group) if len(shown) > 1 else ""
        if label:
            rows.append(Row((label,), kind="heading", rule="full" if rows else ""))
        values = mask_diffs.by_matrix(run.results, group)
        start = len(rows)
        for name in mask_diffs.ranked(values)[: mask_diffs.TOP]:
            layer, _, kind = name.partition(".")
            own = [replace(one, quantity=one.quantity._replace(category=name)) for one in columns]
            cells = {one.key: make_cell(run, group, one, marks=False) for one in own}
            named = group.identity | {"layer": layer, "module": kind}
            rows.append(Row((layer, kind), cells, named))
        embolden(rows, columns, range(start, len(rows)))
        sentence = mask_sentence(run, group, values, rows[start:])
        sentences.append(f"{label}: {sentence}" if label else sentence)
    columns = [replace(column, direction="") for column in columns]
    fixed = "" if len(shown) > 1 else f" ({pair_label(sheet, shown[0])})"
    bold = any(cell.bold for row in rows for cell in row.cells.values())
    said = [*sentences, *[MASKS_BOLD] * bold, ZEROS, *provenance_notes(sheet)]
    return made(run, slug, rows, columns, said, fixed=fixed)


def mask_sentence(run: Run, group: Group, values: Mapping[str, float], rows: Sequence[Row]) -> str:
    """Return of which modules the listed matrices are, how that compares to chance, the whole."""
    kinds = [row.identity["module"] for row in rows]
    order = sorted(dict.fromkeys(kinds), key=lambda kind: (-kinds.count(kind), kind))
    listed = ", ".join(f"{kinds.count(kind)} {kind}" for kind in order)
    text = f"{len(kinds)} of {len(values)} matrices are listed: {listed}"
    if spread := mask_diffs.concentration(values):
        text += f" (the model has {spread.kind} {mask_diffs.OUTPUT}; "
        text += f"{inference.p_text(spread.p_value)} by Fisher's exact test)"
    printed = [row.cells[mask_diffs.PATTERN].printed is not None for row in rows]
    if any(printed):
        text += f"; {sum(printed)} of them are among the paper's {mask_diffs.TOP}"
    if whole := run.results.of(group, Quantity(mask_diffs.SLUG, mask_diffs.PATTERN)):
        text += f"; pattern disagreement of all matrices together {whole.value:.4f}"
    return f"{text}."


# Claims: printed and measured evidence, and the verdict on each

SHOWN = 3  # comparisons spelled out; of more, the weakest and the strongest


def printed_evidence(finding: Finding) -> str:
    """Return in how many printed comparisons a claim holds, and their range by unit; "" of none."""
    printed = finding.printed
    if not printed:
        return ""
    wins, ties, losses, p = inference.sign_test([c.lead for c in printed])
    text = f"{wins} of {len(printed)} as claimed"
    text += f", {ties} at the limit" if ties else ""
    text += f", {losses} against" if losses else ""
    parts = []
    for unit in dict.fromkeys(c.unit for c in printed):
        same = sorted((c for c in printed if c.unit == unit), key=lambda c: c.difference.value)
        low, high = (c.show(c.difference.value) for c in (same[0], same[-1]))
        what = {"points": " points", "dto": " DTO", "relative": ""}[unit]
        parts.append(f"{low}{what}" if low == high else f"{low} to {high}{what}")
    text += f" ({'; '.join(parts)})"
    return text + (f"; sign test {inference.p_text(p)}" if len(printed) >= 6 else "")


def describe(comparison: Comparison, adjusted: Mapping[Key, float]) -> str:
    """Return one comparison as text: difference, simultaneous interval, adjusted p, n."""
    difference = comparison.difference
    text = f"{comparison.label} {comparison.show(difference.value)}"
    half = difference.half_width(1 - ALPHA, tests=len(adjusted)) if adjusted else None
    if half is not None:
        low, high = (comparison.show(difference.value + sign * half) for sign in (-1, 1))
        text += f" [{low}, {high}]"
    if half is not None or comparison.exact_p is not None:
        text += f", {inference.p_text(adjusted[comparison.key])}"
    return text + (f", n = {difference.n:,}" if difference.n else "")


def our_evidence(finding: Finding) -> str:
    """Return our comparisons as text: counts, then all of them or the two extremes."""
    ours, adjusted = finding.ours, finding.adjusted
    if len(ours) <= SHOWN:
        return "; ".join(describe(c, adjusted) for c in ours)
    supporting, opposing = counts(ours, adjusted)
    text = f"{sum(c.lead > 0 for c in ours)} of {len(ours)} as claimed, {supporting} clearly; "
    text += f"{opposing} clearly against"
    text += f"; joint {inference.p_text(finding.joint)}" if finding.joint is not None else ""
    ordered = sorted(ours, key=lambda c: c.lead / (c.difference.stderr or 1.0))
    weakest, strongest = describe(ordered[0], adjusted), describe(ordered[-1], adjusted)
    return f"{text}. Weakest: {weakest}. Strongest: {strongest}"


def claims(run: Run, slug: str) -> Table:
    """Return the paper's claims with printed and measured evidence and a verdict on each."""
    rows: list[Row] = []
    for finding in findings(run):
        claim, printed = finding.claim, printed_evidence(finding)
        measured = ". ".join(filter(None, [our_evidence(finding), finding.reason]))
        supporting, opposing = counts(finding.ours, finding.adjusted)
        identity = {"claim": claim.slug}
        identity |= {name: getattr(claim, name) for name in ("wording", "text", "place")}
        identity |= {"printed": printed, "comparisons": str(len(finding.ours))}
        identity |= {"clearly_for": str(supporting), "clearly_against": str(opposing)}
        identity["evidence"] = "; ".join(describe(c, finding.adjusted) for c in finding.ours)
        identity["joint_p"] = "" if finding.joint is None else f"{finding.joint:.3g}"
        identity |= {"verdict": finding.verdict, "reason": finding.reason}
        said = f"“{claim.wording}” ({claim.place}). Tested: {claim.text}"
        labels = (said, printed or "–", measured, finding.verdict)
        rows.append(Row(labels, identity=identity, rule="dashed" if rows else ""))
    return made(run, slug, rows)


def associations(run: Run, slug: str) -> Table:
    """Return the groups with the largest association in the dense model, and what became of it.

    A row a group of at least ``FEWEST`` items: its bias type, the number of its items and its mean
    association in each checkpoint, with the 95 % interval of t over its items. Of several seeds an
    item has their mean.
    """
    sheet, task, metric = run.sheet, TABLES[slug]["task"], TABLES[slug]["metric"]
    benchmark = benchmark_with(sheet, task, metric)
    if benchmark is None:
        raise refused(slug, [task])
    shown = groups(points_of(run, slug))
    base = next((one for one in (dense_group(sheet, group.model) for group in shown) if one), None)
    if base is None:
        raise UserError(f"the table {slug} is of a dense model's associations; add method dense")
    mine = [base, *(one for one in shown if one.model == base.model and not one.is_base)]
    model = model_label(sheet, base.model)
    values = [_by_group(run, one, benchmark, metric) for one in mine]
    usual = benchmark_column(sheet, benchmark, metric)
    heads = [point_label(sheet, one).removeprefix(f"{model}, ") for one in mine]
    columns = [replace(usual, key=f"value{k}", head=head) for k, head in enumerate(heads)]
    known = {name: found for name, found in values[0].items() if len(found) >= FEWEST}
    order = sorted(known, key=lambda name: (-abs(math.fsum(known[name]) / len(known[name])), name))
    rows = []
    for category, target in order[:MOST]:
        cells = {
            column.key: _mean_cell(column, found.get((category, target), []))
            for column, found in zip(columns, values, strict=True)
        }
        named = {**base.identity, "group": target, "category": category}
        rows.append(Row((target, category, str(len(known[category, target]))), cells, named))
    return made(run, slug, rows, columns, model=model)


def _by_group(
    run: Run, group: Group, benchmark: str, metric: str
) -> Mapping[tuple[str, str], Sequence[float]]:
    """Return the items' values of a metric, means over the seeds, by bias type and group."""
    names, frames = ["category", "cluster", "item_id"], []
    for point in group.checkpoints():
        path = run.sheet.result_folder(point, benchmark) / ITEMS
        with expected_form("records of StereoSet", path, "evaluate again"):
            records = pd.DataFrame(read_records(path, (*names, metric)), columns=[*names, metric])
            frames.append(
                records.dropna(subset=metric).astype({metric: float, **dict.fromkeys(names, str)})
            )
    items = pd.concat(frames).groupby(names, sort=False)[metric]
    means = items.agg(lambda seeds: math.fsum(seeds) / len(seeds))
    return dict(means.groupby(names[:2], sort=False).agg(list))


def _mean_cell(column: Column, values: Sequence[float]) -> Cell:
    """Return a mean with its interval."""
    mean, n = float(np.mean(values)) if values else None, len(values)
    if mean is None or n < 2:
        return Cell(mean, column.show(mean))
    error = float(np.std(values, ddof=1)) / math.sqrt(n)
    width = inference.t_quantile(0.975, n - 1) * error
    ends = (mean - width, mean + width)
    return Cell(mean, column.with_ends(mean, ends), error=error, ends=ends)
