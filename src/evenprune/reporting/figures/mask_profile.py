"""How far masks are from SparseGPT's by layer, beside chance and beside another seed."""

from typing import Any

from matplotlib.figure import Figure

from ...plan.run_sheet import RunSheet
from .. import mask_diffs
from ..labels import METHOD_LABELS, pair_label
from ..plots import WIDTH, Drawing, add_legend
from ..results import Quantity, Results

OTHER = "other modules"
LOOKS = {mask_diffs.OUTPUT: ("#D55E00", "o"), OTHER: ("#0072B2", "s")}


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return the mean pattern disagreement with SparseGPT by decoder layer: a panel a grid point.

    Attention output projections are apart from the mean of the other modules. The dashed line is
    what two random masks of the regime would have; the dotted one, where the run has SparseGPT
    with several seeds, what another draw of the calibration data does to SparseGPT itself.
    """
    shown = mask_diffs.compared(run_sheet, f"the figure {slug}")
    results.require([point for group in shown for point in group.checkpoints()])
    figure = Figure(figsize=(WIDTH, 2.3 * len(shown) + 0.4))
    axes = figure.subplots(len(shown), 1, squeeze=False)
    rows: list[dict[str, Any]] = []
    for (axis,), group in zip(axes, shown, strict=True):
        lines = [(METHOD_LABELS["debias-sparsegpt"], group, "-")]
        null = mask_diffs.null_group(run_sheet, group)
        if null is not None:
            lines.append(("SparseGPT, another seed", null, ":"))
        for label, one, style in lines:
            for kind, values in _profile(mask_diffs.by_matrix(results, one)).items():
                color, marker = LOOKS[kind]
                axis.plot(
                    list(values),
                    [100 * value for value in values.values()],
                    color=color,
                    marker=marker,
                    markersize=3,
                    linestyle=style,
                    label=f"{label}: {kind}",
                )
                rows += [
                    {
                        "model": group.model,
                        "method": one.method,
                        "regime": group.regime,
                        "calibration": group.calibration,
                        "line": f"{label}: {kind}",
                        "layer": layer,
                        "pattern_disagreement": f"{value:.6f}",
                    }
                    for layer, value in values.items()
                ]
        chance = 100 * mask_diffs.random_masks(group.regime)[1]
        axis.axhline(chance, color="0.3", linestyle="--", linewidth=0.8, label="two random masks")
        whole = results.of(group, Quantity(mask_diffs.SLUG, mask_diffs.PATTERN))
        if whole is not None:
            axis.axhline(100 * whole.value, color="0.6", linewidth=0.8, label="all matrices")
        axis.set_ylim(0, 1.05 * chance)
        axis.set_xlabel("decoder layer")
        axis.set_ylabel("differing groups of four (%)")
        axis.set_title(pair_label(run_sheet, group))
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(axis="y")
    add_legend(figure, axes, 2)
    return Drawing(figure, tuple(rows[0]), rows)


def _profile(values: dict[str, float]) -> dict[str, dict[int, float]]:
    """Return the mean by layer of the attention output projections and of all other modules."""
    found: dict[str, dict[int, list[float]]] = {}
    for name, value in values.items():
        layer, kind = mask_diffs.split(name)
        line = mask_diffs.OUTPUT if kind.endswith(mask_diffs.OUTPUT) else OTHER
        found.setdefault(line, {}).setdefault(layer, []).append(value)
    return {
        line: {
            layer: sum(found[line][layer]) / len(found[line][layer])
            for layer in sorted(found[line])
        }
        for line in (mask_diffs.OUTPUT, OTHER)
        if line in found
    }
