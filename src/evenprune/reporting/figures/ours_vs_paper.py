"""Every number of the run over the paper's, with the line of identity."""

from matplotlib.figure import Figure

from ...plan.run_sheet import RunSheet
from ..beside import agreement
from ..labels import COLORS, MARKERS, METHOD_LABELS
from ..paired import Pair, pairs, require_pairs
from ..plots import WIDTH, Drawing, Row, add_legend
from ..render import Z95, covered, interval
from ..results import Results

# Panels: title, and which numbers; the last one takes the rest.
PERCENT, RATIO = "accuracies and CrowS-Pairs (%)", "rates, DTO, masks (0–1)"
OTHER = "perplexity, tokens/s (log)"


def kind(pair: Pair) -> str:
    """Return the panel of a number: by what it is measured in."""
    if pair.column.scale == 100:
        return PERCENT
    speed = pair.quantity.metric == "decode_tok_per_s"
    return OTHER if speed or pair.column.group == "perplexity" else RATIO


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return our numbers over the printed ones: a panel a unit, hollow where not covered.

    Bars are our 95 % intervals. Raises UserError where nothing has a printed counterpart.
    """
    found = require_pairs(pairs(run_sheet, results), f"the figure {slug}")
    kinds = [one for one in (PERCENT, RATIO, OTHER) if any(kind(pair) == one for pair in found)]
    figure = Figure(figsize=(WIDTH, 2.7))
    axes = figure.subplots(1, len(kinds), squeeze=False)
    rows: list[Row] = []
    for axis, title in zip(axes[0], kinds, strict=True):
        mine = [pair for pair in found if kind(pair) == title]
        ends: list[float] = []
        for pair in mine:
            base, scale = run_sheet.base_method(pair.group.method), pair.column.scale
            inside, bounds = covered(pair.column, pair.cell), interval(pair.column, pair.cell) or ()
            ours, printed = (scale * (x or 0.0) for x in (pair.cell.value, pair.cell.printed))
            ends += [ours, printed]
            axis.errorbar(
                [printed], [ours], yerr=[scale * Z95 * (pair.cell.error or 0.0)], markersize=3,
                color=COLORS[base], marker=MARKERS[base], elinewidth=0.5, linestyle="",
                markerfacecolor="white" if inside is False else COLORS[base],
                label=METHOD_LABELS[base],
            )  # fmt: skip
            low, high = [*(f"{scale * end:.4f}" for end in bounds), "", ""][:2]
            numbers = {"ours": f"{ours:.4f}", "ci_low": low, "ci_high": high}
            numbers |= {"printed": f"{printed:.4f}"}
            numbers |= {"covered": "" if inside is None else str(int(inside))}
            rows.append({"panel": title, **pair.group.named, "number": pair.name, **numbers})
        if title == OTHER and min(ends) > 0:
            axis.set_xscale("log")
            axis.set_yscale("log")
        axis.plot(*[[min(ends), max(ends)]] * 2, color="0.3", linewidth=0.7, zorder=0)
        whole = agreement((pair.column, pair.cell) for pair in mine)
        axis.set_title(f"{title}\n{whole.inside} of {whole.tested} within the interval")
        axis.set_xlabel("paper")
    axes[0][0].set_ylabel("this run")
    add_legend(figure, axes)
    return Drawing(figure, rows)
