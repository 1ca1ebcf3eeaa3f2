"""Tables of the paper's analyses: the matrices whose masks differ most, and its claims."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..analysis import mask_diffs
from ..analysis.claims import ALPHA, Finding, findings
from ..analysis.comparisons import Comparison, Key
from ..analysis.labels import REGIME_LABELS, pair_label
from ..analysis.results import Group, Quantity
from ..analysis.run import Run
from ..stats import inference
from .notes import provenance_notes
from .rows import embolden, made, make_cell
from .table_columns import fields_of
from .tables import Row, Table


def masks(run: Run, slug: str) -> Table:
    """Return the matrices whose masks differ most from SparseGPT's (tab:sparsity-pattern-analysis).

    A block a grid point of the experiment. The directions of the columns say what is bold, as in
    the paper, not what is good: largest differences, the smallest Jaccard index.
    """
    sheet, fields = run.sheet, fields_of(run, slug)
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
            own = [replace(one, quantity=one.quantity._replace(category=name)) for one in fields]
            cells = {one.column.key: make_cell(run, group, one, marks=False) for one in own}
            named = group.identity | {"layer": layer, "module": kind}
            rows.append(Row((layer, kind), cells, named))
        embolden(rows, fields, range(start, len(rows)))
        sentence = mask_sentence(run, group, values, rows[start:])
        sentences.append(f"{label}: {sentence}" if label else sentence)
    columns = [replace(field.column, direction="") for field in fields]
    fixed = "" if len(shown) > 1 else f" ({pair_label(sheet, shown[0])})"
    said = [*sentences, *mask_notes(shown, rows), *provenance_notes(sheet)]
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


def mask_notes(shown: Sequence[Group], rows: Sequence[Row]) -> list[str]:
    """Return sentences on what is bold, and on random masks."""
    expected = []
    for regime in dict.fromkeys(group.regime for group in shown):
        words = "{:.4f}, {:.4f} and {:.4f}".format(*mask_diffs.random_masks(regime))
        expected.append(f"{words} at {REGIME_LABELS[regime]}")
    bold = any(cell.bold for row in rows for cell in row.cells.values())
    return ["Bold: largest disagreement or difference, smallest Jaccard index."] * bold + [
        "Weights that were zero before pruning count as pruned.",
        "Two random masks would have a weight disagreement, pattern disagreement and Jaccard index "
        f"of {'; '.join(expected)}.",
    ]


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
    supporting, opposing = finding.counts()
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
        supporting, opposing = finding.counts()
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
