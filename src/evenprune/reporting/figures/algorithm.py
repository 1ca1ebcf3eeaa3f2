"""Debias-SparseGPT as a diagram, with the options of the run: the paper's algorithm."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from ...plan.run_sheet import RunSheet
from ..labels import COLORS
from ..plots import WIDTH, Drawing
from ..results import Results

HEIGHT, STEP = 0.4, 0.58  # of a box, and from one box to the next, in inches


def steps(run_sheet: RunSheet) -> list[tuple[str, str, bool]]:
    """Return (name, what is done, whether SparseGPT does not have it), with the run's options."""
    options = run_sheet.config.pruning
    scaled = "" if options.bias_scaling == "equation" else f" ({options.bias_scaling})"
    return [
        (
            "Inputs of a layer",
            "X₀ of stereotypes, X₁ of anti-stereotypes (tokens aligned: "
            f"{options.alignment}), and X of texts without a partner",
            False,
        ),
        ("Reconstruction", "A = X₀X₀ᵀ + X₁X₁ᵀ + XXᵀ", False),
        (
            "Bias term",
            f"B = 2b (X₀ − X₁)(X₀ − X₁)ᵀ,   b = {options.bias_weight:g}{scaled}",
            True,
        ),
        (
            "Factor",
            f"H = A + B,  H[j, j] += {options.damping:g} · mean diagonal,  C = Cholesky(H⁻¹)ᵀ",
            False,
        ),
        (
            "Mask",
            "in each stride of columns prune the weights with the least W[i, j]² / C[j, j]² "
            "(N of every M, or a share)",
            False,
        ),
        (
            "Compensation",
            "E = (1 − M) ⊙ W[:, j] / C[j, j],   W[:, j:] −= E · C[j, j:]  within blocks of "
            f"{options.block_size} columns, then behind them",
            False,
        ),
        ("Pruned matrix", "Ŵ = W ⊙ M, and its outputs are the next layer's inputs", False),
    ]


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return the steps of Debias-SparseGPT for one matrix, the one SparseGPT lacks in colour."""
    shown = steps(run_sheet)
    height = STEP * len(shown) - (STEP - HEIGHT) + 0.1
    figure = Figure(figsize=(WIDTH, height))
    figure.set_layout_engine("none")
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_xlim(0, WIDTH)
    axis.set_ylim(0, height)
    axis.axis("off")
    rows: list[dict[str, Any]] = []
    for index, (name, text, new) in enumerate(shown):
        top = height - 0.05 - index * STEP
        color = COLORS["debias-sparsegpt"] if new else "0.4"
        axis.add_patch(
            FancyBboxPatch(
                (0.1, top - HEIGHT),
                WIDTH - 0.2,
                HEIGHT,
                boxstyle="round,pad=0,rounding_size=0.08",
                facecolor="#FBEADF" if new else "0.96",
                edgecolor=color,
                linewidth=1.0,
            )
        )
        title = f"{index + 1}  {name}" + (" (not in SparseGPT)" if new else "")
        axis.text(0.25, top - 0.13, title, fontweight="bold", fontsize=8, color=color, va="center")
        axis.text(0.25, top - 0.29, text, fontsize=8, va="center")
        if index + 1 < len(shown):
            axis.annotate(
                "",
                (WIDTH / 2, top - STEP),
                (WIDTH / 2, top - HEIGHT),
                arrowprops={"arrowstyle": "-|>", "color": "0.3", "linewidth": 0.8},
            )
        rows.append({"step": index + 1, "name": name, "text": text, "new": int(new)})
    return Drawing(figure, tuple(rows[0]), rows)
