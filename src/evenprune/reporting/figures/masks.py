"""Where the masks of SparseGPT and Debias-SparseGPT differ, by layer and module."""

import math
import textwrap

from ...plan.run_sheet import RunSheet
from .. import mask_diffs
from ..labels import pair_label
from ..plots import ANNOTATED, Drawing, Row, heat_maps, write_values
from ..results import Quantity, Results


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return pattern disagreement with SparseGPT by layer and module: one panel a grid point.

    All panels share one colour scale, from 0 to the largest value.
    """
    shown = mask_diffs.compared(run_sheet, f"the figure {slug}")
    results.require([point for group in shown for point in group.checkpoints()])
    rows: list[Row] = []
    panels: list[tuple[list[str], list[list[float]]]] = []
    for group in shown:
        values = mask_diffs.by_matrix(results, group)
        places = {mask_diffs.split(name): name for name in values}
        kinds = sorted({kind for _, kind in places}, key=mask_diffs.kind_order)
        layers = range(max(layer for layer, _ in places) + 1)
        names = [[places.get((layer, kind), "") for kind in kinds] for layer in layers]
        shares = [[100 * values.get(name, math.nan) for name in line] for line in names]
        panels.append((kinds, shares))
        for name in (name for line in names for name in line if name):
            found = results.of(group, Quantity(mask_diffs.SLUG, mask_diffs.PATTERN, name))
            printed = None if found is None else found.printed
            layer, kind = mask_diffs.split(name)
            rows.append(
                {
                    **group.named,
                    "layer": layer,
                    "module": kind,
                    "pattern_disagreement": f"{values[name]:.6f}",
                    "pattern_disagreement_printed": "" if printed is None else f"{printed:.4f}",
                }
            )
    across, deepest = min(2, len(panels)), max(len(shares) for _, shares in panels)
    annotated = deepest <= ANNOTATED
    highest = max(100 * float(row["pattern_disagreement"]) for row in rows) or 1.0
    titles = [textwrap.fill(pair_label(run_sheet, group), 80 // across) for group in shown]
    figure, axes = heat_maps(
        [(title, shares) for title, (_, shares) in zip(titles, panels, strict=True)], across,
        1.0 + (0.2 if annotated else 0.12) * deepest, "differing groups of four (%)",
        vmin=0, vmax=highest,
    )  # fmt: skip
    for axis, (kinds, shares) in zip(axes, panels, strict=True):
        short = [kind.rpartition(".")[2] for kind in kinds]
        names_shown = short if len(set(short)) == len(short) else kinds
        axis.set_xticks(range(len(kinds)), names_shown, rotation=30 if across > 1 else 0)
        axis.set_yticks(range(0, len(shares), 1 if annotated else 4))
        axis.set_ylabel("decoder layer")
        if annotated:
            texts = [["" if math.isnan(x) else f"{x:.1f}" for x in line] for line in shares]
            write_values(axis, texts, [[x > 0.6 * highest for x in line] for line in shares])
    return Drawing(figure, rows)
