"""The report of ``report-controls``: figures, Markdown and one HTML file that needs no other.

Equal effects give equal bytes: no dates, no versions, fixed ids.
"""

import base64
import html
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
from matplotlib.figure import Figure

from ..base.files import atomic_path, write_text
from ..plan.config import METHODS
from ..plan.grids import Checkpoint
from ..plan.run_sheet import RunSheet
from ..reporting.labels import COLORS, MARKERS, REGIME_LABELS, calibration_label, method_label
from ..reporting.plots import METADATA, STYLE, WIDTH
from ..reporting.render import escape_markdown
from .report_controls import METRICS, RESAMPLES, RULE, Effect, Metric, World, bias_of, control_of

TITLE = "The bias term against its negative controls"
DRAWN = ("acc_amb", "acc_dis", "s_amb", "s_dis")
REGIME_ORDER = tuple(REGIME_LABELS)
MARKS = {
    "better": "▲",
    "worse": "▼",
    "better in these worlds": "△",
    "worse in these worlds": "▽",
    "undefined": "undefined",
}
LEGEND = (
    "Change with its 95 % bootstrap interval; accuracies and bias scores in points (hundredths), "
    "the loss of WikiText in nats a token. ▲ better, ▼ worse, △ ▽ better, worse in these worlds "
    "only, no mark: no difference shown. s_amb and s_dis are shown with their sign, positive for "
    "stereotyped answers, and judged by their distance from 0."
)
BAND_COLORS = ("0.45", "#CC79A7", "#56B4E9")
Key = tuple[bool, float]  # of a variant of the bias term: released-code scaling, bias weight


@dataclass(frozen=True)
class Block:
    """A piece of the page: ``heading``, ``text``, ``list``, ``table`` (head first) or ``image``."""

    kind: str
    text: str = ""
    rows: Sequence[Sequence[str]] = ()


def shown(value: float, metric: Metric, signed: bool = True) -> str:
    """Return a value on the printed scale, with a real minus sign."""
    decimals = 1 if metric.scale == 100 else 3
    text = f"{metric.scale * value:{'+' if signed else ''}.{decimals}f}"
    return text.replace("-", "−")


def effect_text(one: Effect) -> str:
    """Return ``+1.2 [−0.3, +2.6] ▲``."""
    if math.isnan(one.effect):
        return "undefined"
    ends = ", ".join(shown(end, one.metric) for end in (one.ci.low, one.ci.high))
    return f"{shown(one.effect, one.metric)} [{ends}] {MARKS.get(one.verdict, '')}".strip()


def weight_key(spec: RunSheet, method: str) -> Key:
    """Return what bias weights are sorted by, those of the released code last."""
    weight, scaling = bias_of(spec.config, method)
    return scaling == "released-code", weight or 0.0


def weight_label(key: Key) -> str:
    """Return a bias weight in words."""
    released, weight = key
    if not released:
        return f"{weight:g}"
    return "released code" if weight == 1 else f"released code × {weight:g}"


def _order(spec: RunSheet, one: Effect) -> tuple[Any, ...]:
    point = one.contrast.candidate
    regime = REGIME_ORDER.index(point.regime)
    if one.contrast.kind == "dense":
        return (regime, METHODS.index(point.method), point.calibration)
    return (regime, weight_key(spec, point.method), one.contrast.reference.calibration, point)


def select(
    spec: RunSheet, found: Sequence[Effect], kind: str, name: str | None = None
) -> list[Effect]:
    """Return one kind's effects (of one metric) in the order of the tables.

    Against dense only the five methods themselves are shown, without variants and controls.
    """
    chosen = [
        one
        for one in found
        if one.contrast.kind == kind
        and name in (None, one.metric.name)
        and (kind != "dense" or _is_plain(spec, one.contrast.candidate))
    ]
    return sorted(chosen, key=lambda one: _order(spec, one))


def _is_plain(spec: RunSheet, point: Checkpoint) -> bool:
    return point.method in METHODS and control_of(spec.config, point.calibration) is None


# The answer


def _place(spec: RunSheet, one: Effect) -> str:
    point = one.contrast.candidate
    label = weight_label(weight_key(spec, point.method))
    return f"{one.metric.label} at {REGIME_LABELS[point.regime]}, weight {label}"


def _count(spec: RunSheet, chosen: Sequence[Effect]) -> str:
    said = [one.verdict for one in chosen]
    return (
        f"Of {len(said)} comparisons, {said.count('better')} are better, {said.count('worse')} "
        f"worse, {said.count('better in these worlds')} better and "
        f"{said.count('worse in these worlds')} worse in these worlds only."
    )


def answer(spec: RunSheet, found: Sequence[Effect]) -> list[str]:
    """Return in sentences whether the bias term beats its controls, and what it does at all."""
    judged = [one for one in found if one.metric.good and one.metric.task != "perplexity"]
    lines = []
    against = select(spec, judged, "control")
    if against:
        cases = [
            list(group)
            for _, group in itertools.groupby(
                sorted(against, key=lambda one: (one.metric.name, one.contrast.candidate)),
                key=lambda one: (one.metric.name, one.contrast.candidate),
            )
        ]
        won = [case[0] for case in cases if all(one.verdict == "better" for one in case)]
        lost = [case[0] for case in cases if all(one.verdict == "worse" for one in case)]
        if won:
            places = "; ".join(_place(spec, one) for one in won)
            lines.append(
                f"The bias term beats its negative controls in {len(won)} of {len(cases)} cases "
                f"(a metric at a regime and a weight): {places}."
            )
        else:
            lines.append(
                "The bias term does not beat its negative controls: in none of "
                f"{len(cases)} cases (a metric at a regime and a weight) is it better than every "
                "control."
            )
        if lost:
            places = "; ".join(_place(spec, one) for one in lost)
            lines.append(f"It is worse than every control in {len(lost)} cases: {places}.")
        lines.append("Against the controls one by one: " + _count(spec, against))
    else:
        lines.append("This run has no negative control, so nothing is said about the bias term.")
    plain = [
        one
        for one in select(spec, judged, "sparsegpt")
        if control_of(spec.config, one.contrast.candidate.calibration) is None
        and weight_key(spec, one.contrast.candidate.method)[1] > 0
    ]
    if plain:
        lines.append("With the bias term against SparseGPT: " + _count(spec, plain))
    return lines


# Tables


def _table(
    spec: RunSheet, chosen: Sequence[Effect], heads: Sequence[str], labels: Any
) -> list[list[str]]:
    lines = [[*heads, *(metric.label for metric in METRICS)]]
    for contrast in dict.fromkeys(one.contrast for one in chosen):
        cells = {one.metric.name: effect_text(one) for one in chosen if one.contrast == contrast}
        lines.append([*labels(contrast), *(cells[metric.name] for metric in METRICS)])
    return lines


def dense_table(points: Sequence[Checkpoint], worlds: Sequence[World]) -> list[list[str]]:
    """Return the dense model's metrics in every world: what there is to lose."""
    lines = [["world", *(metric.label for metric in METRICS)]]
    index = next(k for k, point in enumerate(points) if point.regime == "dense")
    for world in worlds:
        values = [metric.compute(world.sums[metric.task].sum(axis=0))[index] for metric in METRICS]
        lines.append(
            [
                str(world.seed),
                *(
                    shown(float(value), metric, signed=metric.good == 0)
                    for value, metric in zip(values, METRICS)
                ),
            ]
        )
    return lines


def blocks(
    spec: RunSheet, points: Sequence[Checkpoint], worlds: Sequence[World], found: Sequence[Effect]
) -> Iterator[Block]:
    """Yield the page."""
    seeds = ", ".join(str(world.seed) for world in worlds)
    yield Block("text", f"Invented worlds {seeds}, each with a model of its own; no real people.")
    yield Block("heading", "Answer")
    yield Block("list", rows=[answer(spec, found)])
    yield Block("heading", "Dense models")
    yield Block("table", rows=dense_table(points, worlds))
    yield Block("heading", "Methods against dense")
    yield Block("image", "controls_regimes")
    yield Block("text", LEGEND)
    yield Block(
        "table",
        rows=_table(
            spec,
            select(spec, found, "dense"),
            ("regime", "method"),
            lambda c: (
                REGIME_LABELS[c.candidate.regime],
                method_label(spec, c.candidate.method),
            ),
        ),
    )
    yield Block("heading", "Bias term against SparseGPT, and the controls in its place")
    yield Block("image", "controls_sweep")
    yield Block(
        "table",
        rows=_table(
            spec,
            select(spec, found, "sparsegpt"),
            ("regime", "bias weight", "calibration"),
            lambda c: (
                REGIME_LABELS[c.candidate.regime],
                weight_label(weight_key(spec, c.candidate.method)),
                calibration_label(spec, c.candidate.calibration),
            ),
        ),
    )
    if control := select(spec, found, "control"):
        yield Block("heading", "Bias term against its controls")
        yield Block(
            "table",
            rows=_table(
                spec,
                control,
                ("regime", "bias weight", "against"),
                lambda c: (
                    REGIME_LABELS[c.candidate.regime],
                    weight_label(weight_key(spec, c.candidate.method)),
                    calibration_label(spec, c.reference.calibration),
                ),
            ),
        )
    yield Block("heading", "How")
    items = "; ".join(
        f"{task}: {worlds[0].items[task]} items, {len(worlds[0].sums[task])} clusters"
        for task in worlds[0].sums
    )
    yield Block("list", rows=[[
        f"Effects are means over {len(worlds)} worlds of the difference on the same items "
        f"(a world has {items}).",
        f"Bootstrap: {RESAMPLES:,} samples; each draws worlds with replacement, then clusters of "
        "items in every drawn world, the same for all models; percentiles. From so few worlds it "
        "tends to be too short where worlds differ, hence the second interval (t_low, t_high in "
        "controls.csv).",
        RULE,
        "The controls: shuffled pairs give every stereotype an anti-stereotype of another pair of "
        "equal token count, random delta another stereotype, so their differences hold the same "
        "kind of text but no contrast of a stereotype with its opposite. Their differences are "
        "larger, since more words differ: at one weight their bias term weighs more. Random delta "
        "leaves the anti-stereotypes out of the plain term too.",
    ]])  # fmt: skip


# Figures


def regimes_figure(spec: RunSheet, found: Sequence[Effect]) -> Figure:
    """Return the effects against dense by regime and method, with every world as a dot."""
    figure = Figure(figsize=(WIDTH, 4.6))
    axes = figure.subplots(2, 2, sharex=True).ravel()
    for axis, name in zip(axes, DRAWN, strict=True):
        chosen = select(spec, found, "dense", name)
        order = list(dict.fromkeys(one.contrast.candidate.regime for one in chosen))
        lines = list(dict.fromkeys(one.contrast.candidate.method for one in chosen))
        for index, method in enumerate(lines):
            shift = 0.18 * (index - (len(lines) - 1) / 2)
            mine = [one for one in chosen if one.contrast.candidate.method == method]
            places = [order.index(one.contrast.candidate.regime) + shift for one in mine]
            _bars(axis, places, mine, COLORS[method], MARKERS[method], method_label(spec, method))
            for place, one in zip(places, mine):
                axis.plot(
                    [place + 0.05] * len(one.by_world),
                    [one.metric.scale * value for value in one.by_world],
                    ".", markersize=2, color=COLORS[method], alpha=0.7,
                )  # fmt: skip
        _finish(axis, chosen, "dense")
        axis.set_xticks(range(len(order)), [REGIME_LABELS[regime] for regime in order])
        axis.set_xlim(-0.5, len(order) - 0.5)
    for axis in axes[2:]:
        axis.set_xlabel("sparsity regime")
    _legend(figure, axes)
    return figure


def sweep_figure(spec: RunSheet, found: Sequence[Effect]) -> Figure:
    """Return the effects against SparseGPT over the bias weight, the controls as bands."""
    every = select(spec, found, "sparsegpt")
    count = {
        regime: sum(one.contrast.candidate.regime == regime for one in every)
        for regime in dict.fromkeys(one.contrast.candidate.regime for one in every)
    }
    # Regimes without a sweep have one point only.
    regimes = [regime for regime, n in count.items() if n == max(count.values())]
    keys = sorted({weight_key(spec, one.contrast.candidate.method) for one in every})
    figure = Figure(figsize=(WIDTH, 6.6))
    axes = figure.subplots(len(DRAWN), len(regimes), squeeze=False, sharex=True, sharey="row")
    for row, name in enumerate(DRAWN):
        for column, regime in enumerate(regimes):
            axis = axes[row][column]
            chosen = [one for one in every if one.metric.name == name]
            chosen = [one for one in chosen if one.contrast.candidate.regime == regime]
            calibrations = dict.fromkeys(one.contrast.candidate.calibration for one in chosen)
            bands = [c for c in calibrations if control_of(spec.config, c) is not None]
            for calibration in calibrations:
                mine = [one for one in chosen if one.contrast.candidate.calibration == calibration]
                places = [
                    keys.index(weight_key(spec, one.contrast.candidate.method)) for one in mine
                ]
                label = calibration_label(spec, calibration)
                if calibration in bands:
                    color = BAND_COLORS[bands.index(calibration) % len(BAND_COLORS)]
                    _band(axis, places, mine, color, f"control: {label}")
                else:
                    method = "debias-sparsegpt"
                    _bars(axis, places, mine, COLORS[method], MARKERS[method], label)
            _finish(axis, chosen if column == 0 else [], "SparseGPT")
            # Names go beneath the numbers, for which alone there is room side by side.
            labels = [weight_label(key) for key in keys]
            labels = ["\n" + name.replace(" ", "\n") if " " in name else name for name in labels]
            axis.set_xticks(range(len(keys)), labels)
            if row == 0:
                axis.set_title(REGIME_LABELS[regime])
    for axis in axes[-1]:
        axis.set_xlabel("bias weight")
    _legend(figure, axes.ravel())
    return figure


def _bars(
    axis: Any, places: Sequence[float], mine: Sequence[Effect], color: str, marker: str, label: str
) -> None:
    middle = [one.metric.scale * one.effect for one in mine]
    low = [one.metric.scale * (one.effect - one.ci.low) for one in mine]
    high = [one.metric.scale * (one.ci.high - one.effect) for one in mine]
    # A percentile interval of |s| need not hold the estimate itself.
    lengths = [[max(0.0, x) for x in side] for side in (low, high)]
    axis.errorbar(
        places, middle, yerr=lengths, color=color, marker=marker, linestyle="none",
        elinewidth=0.9, label=label,
    )  # fmt: skip


def _band(
    axis: Any, places: Sequence[float], mine: Sequence[Effect], color: str, label: str
) -> None:
    scale = mine[0].metric.scale
    axis.fill_between(
        places,
        [scale * one.ci.low for one in mine],
        [scale * one.ci.high for one in mine],
        color=color, alpha=0.25, linewidth=0, label=label,
    )  # fmt: skip
    axis.plot(places, [scale * one.effect for one in mine], color=color, linewidth=0.8, marker="_")


def _finish(axis: Any, chosen: Sequence[Effect], reference: str) -> None:
    axis.axhline(0, color="0.4", linewidth=0.7, linestyle="--", label=reference)
    axis.grid(axis="y")
    if chosen:
        label = chosen[0].metric.label.replace(" accuracy", "\naccuracy")
        axis.set_ylabel(f"change of {label} (points)")


def _legend(figure: Figure, axes: Sequence[Any]) -> None:
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=5)


# Files


def to_markdown(page: Sequence[Block]) -> str:
    """Return the page as Markdown; images are files beside it."""
    lines = [f"# {TITLE}"]
    for block in page:
        if block.kind == "heading":
            lines.append(f"## {block.text}")
        elif block.kind == "text":
            lines.append(escape_markdown(block.text))
        elif block.kind == "list":
            lines.append("\n".join(f"- {escape_markdown(line)}" for line in block.rows[0]))
        elif block.kind == "image":
            lines.append(f"![{block.text}]({block.text}.png)")
        else:
            head, *body = ([escape_markdown(cell) for cell in row] for row in block.rows)
            table = [head, ["---"] * len(head), *body]
            lines.append("\n".join(f"| {' | '.join(row)} |" for row in table))
    return "\n\n".join(lines) + "\n"


CSS = (
    "body{font:15px/1.45 sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "img{max-width:100%;width:46rem}div{overflow-x:auto}"
    "table{border-collapse:collapse;font-size:12px}"
    "th,td{padding:.2rem .5rem;text-align:left;border-bottom:1px solid #ddd;white-space:nowrap}"
)


def to_html(page: Sequence[Block], folder: Path) -> str:
    """Return the page as one HTML file, with the SVG figures of ``folder`` inside."""
    parts = [
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{TITLE}</title>',
        f"<style>{CSS}</style>\n<h1>{TITLE}</h1>",
    ]
    for block in page:
        text = html.escape(block.text)
        if block.kind == "heading":
            parts.append(f"<h2>{text}</h2>")
        elif block.kind == "text":
            parts.append(f"<p>{text}</p>")
        elif block.kind == "list":
            items = "".join(f"<li>{html.escape(line)}</li>" for line in block.rows[0])
            parts.append(f"<ul>{items}</ul>")
        elif block.kind == "image":
            data = base64.b64encode((folder / f"{block.text}.svg").read_bytes()).decode()
            parts.append(f'<img alt="{text}" src="data:image/svg+xml;base64,{data}">')
        else:
            lines = []
            for index, row in enumerate(block.rows):
                tag = "td" if index else "th"
                cells = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)
                lines.append(f"<tr>{cells}</tr>")
            parts.append(f"<div><table>{''.join(lines)}</table></div>")
    return "\n".join(parts) + "\n</html>\n"


def write_page(
    spec: RunSheet,
    points: Sequence[Checkpoint],
    worlds: Sequence[World],
    found: Sequence[Effect],
    out: Path,
) -> None:
    """Write the figures (svg and png), controls.md and controls.html into ``out``."""
    with mpl.rc_context():
        mpl.style.use(str(STYLE))
        figures = {
            "controls_regimes": regimes_figure(spec, found),
            "controls_sweep": sweep_figure(spec, found),
        }
        for name, figure in figures.items():
            for suffix in ("svg", "png"):
                with atomic_path(out / f"{name}.{suffix}") as temporary:
                    figure.savefig(temporary, format=suffix, metadata=dict(METADATA[suffix]))
    page = list(blocks(spec, points, worlds, found))
    write_text(out / "controls.md", to_markdown(page))
    write_text(out / "controls.html", to_html(page, out))
