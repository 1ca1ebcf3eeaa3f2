"""What generation costs by method: seconds and joules."""

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from ...base.errors import UserError
from ...plan.run_sheet import RunSheet
from ..labels import COLORS, REGIME_LABELS, method_label, model_label
from ..measurements import ratio_to_dense
from ..plots import WIDTH, Drawing
from ..results import Group, Quantity, Results, dense_group, groups

SPEED, ENERGY = Quantity("serving", "decode_tok_per_s"), Quantity("serving", "j_per_token")
TOKENS = 1000  # generated tokens that a bar stands for


@dataclass(frozen=True)
class Bar:
    """A value with the ends of its interval, None where none is known."""

    value: float
    low: float | None = None
    high: float | None = None


def draw(run_sheet: RunSheet, results: Results, slug: str) -> Drawing:
    """Return seconds and joules for 1,000 generated tokens at the first batch size.

    A bar a checkpoint that was served. The dense model's is its median over rounds; a pruned one's
    is that times its paired ratio to the dense model, with the ratio's 95 % interval, so that
    bars compare what was measured side by side. Without a dense model all are medians. Raises
    UserError where nothing was measured.
    """
    grid = run_sheet.experiments.get(run_sheet.config.serving.experiment or "", [])
    shown = [group for group in groups(grid) if results.of(group, SPEED) is not None]
    if not shown:
        raise UserError(
            f"the figure {slug} shows measured throughput, but this run measures none; set "
            "serving.experiment in the configuration or leave the figure out"
        )
    several = len({group.model for group in shown}) > 1
    rows: list[dict[str, Any]] = []
    labels: list[str] = []
    colors: list[str] = []
    seconds: list[Bar | None] = []
    joules: list[Bar | None] = []
    for group in shown:
        label = method_label(run_sheet, group.method)
        if not group.is_base:
            label += f" {REGIME_LABELS[group.regime]}"
        labels.append(f"{model_label(run_sheet, group.model)}: {label}" if several else label)
        colors.append(COLORS[run_sheet.base_method(group.method)])
        seconds.append(_bar(run_sheet, results, group, SPEED, per_second=True))
        joules.append(_bar(run_sheet, results, group, ENERGY, per_second=False))
        bars = {"seconds": seconds[-1], "joules": joules[-1]}
        rows.append(
            {
                "model": group.model,
                "method": group.method,
                "regime": group.regime,
                "calibration": group.calibration,
                **{f"{name}_per_1000_tokens": _text(bar, "value") for name, bar in bars.items()},
                **{
                    f"{name}_{end}": _text(bar, end)
                    for name, bar in bars.items()
                    for end in ("low", "high")
                },
            }
        )
    figure = Figure(figsize=(WIDTH, 0.9 + 0.3 * len(shown)))
    axes = figure.subplots(1, 2, sharey=True)
    for axis, values, unit in ((axes[0], seconds, "seconds"), (axes[1], joules, "joules")):
        lengths = [0.0 if bar is None else bar.value for bar in values]
        axis.barh(range(len(lengths)), lengths, color=colors, height=0.6)
        ends = [bar.high for bar in values if bar is not None and bar.high is not None]
        # Few rounds make intervals that would leave no room for the bars: such lines are cut.
        longest = max(lengths)
        limit = 1.2 * min(max([longest, *ends]), 2 * longest)
        for place, bar in enumerate(values):
            beyond = 0.0 if bar is None else bar.value
            if bar is not None and bar.low is not None and bar.high is not None:
                axis.plot([bar.low, bar.high], [place, place], color="0.2", linewidth=1)
                beyond = max(beyond, min(bar.high, limit / 1.2))
            text = "–" if bar is None else _shown(bar.value)
            axis.annotate(text, (beyond, place), xytext=(3, 0), textcoords="offset points",
                          va="center", fontsize=7)  # fmt: skip
        axis.set_xlim(0, limit or 1.0)
        axis.set_xlabel(f"{unit} for {TOKENS:,} tokens")
    axes[0].set_yticks(range(len(labels)), labels)
    axes[0].invert_yaxis()
    return Drawing(figure, tuple(rows[0]), rows)


def _bar(
    run_sheet: RunSheet, results: Results, group: Group, quantity: Quantity, per_second: bool
) -> Bar | None:
    """Return what 1,000 tokens cost, from tokens a second or from a cost per token."""
    measured = results.of(group, quantity)
    ratio = ratio_to_dense(run_sheet, group, quantity.metric)
    dense = dense_group(run_sheet, group.model)
    if ratio is not None and dense is not None:
        measured = results.of(dense, quantity)
    if measured is None or measured.value <= 0:
        return None
    cost = TOKENS / measured.value if per_second else TOKENS * measured.value
    if ratio is None:
        return Bar(cost)
    factors = [ratio.value, ratio.low, ratio.high]
    found = [None if x is None else cost / x if per_second else cost * x for x in factors]
    ends = sorted(x for x in found[1:] if x is not None)
    return Bar(found[0] or cost, *ends)


def _text(bar: Bar | None, name: str) -> str:
    value = None if bar is None else getattr(bar, name)
    return "" if value is None else f"{value:.6g}"


def _shown(value: float) -> str:
    """Return a value with three significant digits, those before the point all."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
