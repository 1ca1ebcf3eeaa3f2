"""What figures show, in words: apart from the drawing, so that a word redraws nothing."""

from ..plan.run_sheet import RunSheet
from .captions import sizes
from .fields import Run

CAPTIONS = {
    "algorithm": (
        "Debias-SparseGPT for one matrix, with the options of this run; the step in colour is what "
        "SparseGPT does not have."
    ),
    "cost": (
        "Seconds and joules for 1,000 generated tokens, at the first batch size. The dense model's "
        "are medians over rounds; a pruned model's are those times its ratio to the dense model "
        "within rounds. Lines: 95% t intervals of the ratios over rounds, cut at twice the longest "
        "bar."
    ),
    "dto": (
        "UnQover over MMLU accuracy: the DTO is the distance from the utopia point, constant on a "
        "dotted line. The sparser, the larger the marker. Bars: 95% intervals over items."
    ),
    "examples": (
        "Probabilities of the options of one UnQover question a category: that where SparseGPT and "
        "Debias-SparseGPT differ most in the probability of “unknown”, whichever has more. These "
        "are the extremes, not a sample."
    ),
    "mask_profile": (
        "Share of groups of four that are pruned at other places than by SparseGPT, mean of the "
        "matrices of a decoder layer, beside two random masks and, where the run has several "
        "seeds, beside SparseGPT with another draw of its calibration data."
    ),
    "motivation": (
        "Change of the error rate (one minus accuracy) on UnQover's religion under "
        "sparsification, in points; zero is the dense model. Bars: 95% intervals, as if the two "
        "shares were independent."
    ),
    "motivation_categories": (
        "Change of the error rate (one minus accuracy) on UnQover under "
        "sparsification by category, in points; zero is the dense model. Bars: 95% intervals, "
        "as if the two shares were independent."
    ),
    "ours_vs_paper": (
        "Every number of this run over the one that the paper prints, with the line of identity. "
        "Hollow: our 95% interval (the bar) does not cover the printed number."
    ),
    "calib_size": (
        "Effect of the number of UltraChat texts in the calibration. Bars: 95% intervals "
        "from the standard error over items, or the standard deviation over seeds."
    ),
    "frontier": (
        "Bias over perplexity. A line joins the variants of one method; the dense model and "
        "SparseGPT are where bias and cost begin. StereoSet is ICAT, higher is better; 50% is no "
        "preference of CrowS-Pairs. Bars: 95% intervals from the standard error over items."
    ),
    "masks": (
        "Share of aligned groups of four inputs that SparseGPT and Debias-SparseGPT prune at "
        "different places, in percent, by decoder layer and module."
    ),
    "regimes": (
        "Perplexity, accuracy, bias and DTO over the sparsity regimes. Bars: 95% intervals "
        "from the standard error over items, or the standard deviation over seeds."
    ),
    "stages": (
        "The stages of this run, from its own graph of jobs: each box is a rule with its number "
        "of jobs, each arrow what the next one reads; arrows that follow from others are left out."
    ),
    "throughput": (
        "Decode throughput over the batch size. Bounds: the lower of copy bandwidth over the "
        "bytes of the weights and matrix-product rate over their operations, both measured "
        "in the same run; 2:4 weights take 9/16 of the bytes (17/32 in float32)."
    ),
    "unqover_heatmap": (
        "UnQover accuracy (share of “unknown” answers, in percent) by question category for "
        "the dense model, SparseGPT and Debias-SparseGPT, and beneath it the differences to the "
        "dense model in points, computed before rounding."
    ),
}


EVERYTHING = ("all",)
# Figure -> the tasks whose items it shows; the others show none.
BENCHMARKS = {
    "dto": ("mmlu", "unqover"),
    "examples": ("unqover",),
    "motivation": ("unqover",),
    "motivation_categories": ("unqover",),
    "calib_size": ("perplexity", "mmlu", "unqover"),
    "frontier": ("perplexity", "stereoset", "crows_pairs", "unqover", "bbq"),
    "regimes": EVERYTHING,
    "unqover_heatmap": ("unqover",),
}


def caption(run_sheet: RunSheet, slug: str) -> str:
    """Return a figure's caption."""
    text = CAPTIONS[slug]
    if run_sheet.config.source == "world":
        text += " Measured in an invented world; not comparable to the paper."
    return text


def figure_caption(run: Run, slug: str) -> str:
    """Return a figure's caption with items and seeds."""
    tasks = BENCHMARKS.get(slug, ())
    names = [
        name
        for name, entry in run.sheet.config.benchmarks.items()
        if tasks == EVERYTHING or (entry.task in tasks and name == run.sheet.primary(entry.task))
    ]
    seeds = {point.seed for point in run.sheet.files if point.calibration != "none"}
    said = sizes(run, names, seeds) if tasks else ""
    return f"{caption(run.sheet, slug)} {said}".strip()
