"""Matrices whose masks differ most from SparseGPT's: the paper's tab:sparsity-pattern-analysis."""

import dataclasses
from collections.abc import Mapping, Sequence

from ...analysis import mask_diffs
from ...analysis.results import Group, Quantity
from ...stats import inference
from ..cells import Field, Run, embolden, identity, make_cells
from ..claims.numbers import PrintedNumbers
from ..described import fields_of, made
from ..labels import REGIME_LABELS, pair_label
from ..notes import provenance_notes
from ..render import Table, TableRow


def build(run: Run, slug: str) -> Table:
    """Return the matrices whose masks differ most from SparseGPT's (tab:sparsity-pattern-analysis).

    A block a grid point of the experiment. The directions of the columns say what is bold, as in
    the paper, not what is good: largest differences, the smallest Jaccard index.
    """
    run_sheet, fields = run.sheet, fields_of(run, slug)
    shown = mask_diffs.compared(run_sheet, f"the table {slug}")
    rows: list[TableRow] = []
    sentences: list[str] = []
    for group in shown:
        run.results.require(group.checkpoints())
        label = f"{pair_label(run_sheet, group)}: " if len(shown) > 1 else ""
        if label:
            heading = TableRow(
                (label.removesuffix(": "),), kind="heading", rule="full" if rows else ""
            )
            rows.append(heading)
        values = mask_diffs.by_matrix(run.results, group)
        top, start = mask_diffs.ranked(values)[: mask_diffs.TOP], len(rows)
        for name in top:
            layer, kind = mask_diffs.split(name)
            own = [
                Field(one.column, Quantity(mask_diffs.SLUG, one.quantity.metric, name))
                for one in fields
            ]
            cells = make_cells(run, group, own, marks=False)
            named = identity(group) | {"layer": str(layer), "module": kind}
            rows.append(TableRow((str(layer), kind), cells, named))
        embolden(rows, fields, range(start, len(rows)))
        sentences.append(label + mask_sentence(run, group, values, rows[start:]))
    columns = [dataclasses.replace(field.column, direction="") for field in fields]
    fixed = "" if len(shown) > 1 else f" ({pair_label(run_sheet, shown[0])})"
    said = [*sentences, *mask_notes(shown, rows), *provenance_notes(run_sheet)]
    return made(run, slug, rows, columns, said, words={"fixed": fixed})


def mask_sentence(
    run: Run, group: Group, values: Mapping[str, float], rows: Sequence[TableRow]
) -> str:
    """Return of which modules the listed matrices are, how that compares to chance, the whole."""
    kinds = [row.identity["module"] for row in rows]
    order = sorted(dict.fromkeys(kinds), key=lambda kind: (-kinds.count(kind), kind))
    listed = ", ".join(f"{kinds.count(kind)} {kind}" for kind in order)
    text = f"{len(kinds)} of {len(values)} matrices are listed: {listed}"
    found = mask_diffs.concentration(values)
    if found is not None:
        text += (
            f" (the model has {found.kind} {mask_diffs.OUTPUT}; "
            f"{inference.p_text(found.p_value)} by Fisher's exact test)"
        )
    printed = [row.cells[mask_diffs.PATTERN].printed is not None for row in rows]
    if any(printed):
        text += f"; {sum(printed)} of them are among the paper's {mask_diffs.TOP}"
    whole = run.results.of(group, Quantity(mask_diffs.SLUG, mask_diffs.PATTERN))
    if whole is not None:
        text += f"; pattern disagreement of all matrices together {whole.value:.4f}"
    return f"{text}."


def mask_notes(shown: Sequence[Group], rows: Sequence[TableRow]) -> list[str]:
    """Return sentences on what is bold, and on random masks."""
    expected, printed = [], PrintedNumbers().concentration(mask_diffs.PAPER_POINT)
    for regime in dict.fromkeys(group.regime for group in shown):
        words = "{:.4f}, {:.4f} and {:.4f}".format(*mask_diffs.random_masks(regime))
        expected.append(f"{words} at {REGIME_LABELS[regime]}")
    bold = any(cell.bold for row in rows for cell in row.cells.values())
    sentences = ["Bold: largest disagreement or difference, smallest Jaccard index."] * bold
    sentences += [
        "Weights that were zero before pruning count as pruned.",
        "Two random masks would have a weight disagreement, pattern disagreement and Jaccard index "
        f"of {'; '.join(expected)}.",
    ]
    if printed is not None:
        sentences.append(
            f"In the paper's list (Qwen-2.5-7B-IT, 2:4) {printed.found} of {printed.top} are "
            f"self_attn.{mask_diffs.OUTPUT}."
        )
    return sentences
