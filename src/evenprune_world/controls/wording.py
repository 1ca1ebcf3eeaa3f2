"""How effects are ordered and worded on the page, and the answer in sentences."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from evenprune.plan.config import METHODS, Config
from evenprune.plan.grids import Checkpoint, base_method, in_calibration
from evenprune.plan.run_sheet import RunSheet
from evenprune.reporting.labels import REGIME_LABELS, calibration_label, method_label

from .contrasts import control_kind, control_of, is_control, strength
from .effects import Effect
from .frontier import Matched
from .sums import BY_NAME, PAIRS, Measure

REGIME_ORDER = tuple(REGIME_LABELS)
MARKS = {
    "better": "▲", "worse": "▼", "better in these worlds": "△", "worse in these worlds": "▽",
}  # fmt: skip
# What a measure of bias is called in a sentence.
SPOKEN = {
    "abs_slope_stereoset": "slope in StereoSet's sentences",
    "abs_slope_crows_pairs": "slope in CrowS-Pairs' sentences",
    "abs_r_bbq": "R of BBQ's questions",
    "abs_r_unqover": "R of UnQover's questions",
}
CONTROL_LABELS = {
    "shuffled-pairs": "shuffled partners",
    "random-delta": "random partners",
    "reversed": "reversed sign",
    "text": "steps on text alone",
}


def shown(value: float, metric: Measure, signed: bool = True) -> str:
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


def percent(value: float, decimals: int = 0) -> str:
    """Return a share as ``−60 %``; "undefined" for NaN."""
    if math.isnan(value):
        return "undefined"
    return f"{100 * value:+.{decimals}f} %".replace("-", "−")


def order(config: Config, point: Checkpoint) -> tuple[Any, ...]:
    """Return what checkpoints are sorted by: regime, method, strength, then the rest."""
    base = METHODS.index(base_method(config, point.method))
    amount = strength(config, point.method)
    place = REGIME_ORDER.index(point.regime)
    return place, base, is_control(config, point), abs(amount or 0), point


def select(
    run_sheet: RunSheet, found: Sequence[Effect], kind: str, name: str | None = None
) -> list[Effect]:
    """Return one kind's effects (of one metric) in the order of the tables."""
    config = run_sheet.config
    chosen = [one for one in found if one.contrast.kind == kind and name in (None, one.metric.name)]
    return sorted(chosen, key=lambda x: (order(config, x.contrast.candidate), x.contrast.reference))


def place_words(run_sheet: RunSheet, point: Checkpoint) -> tuple[str, str, str]:
    """Return a checkpoint's regime, method and calibration in words."""
    calibration = "–"
    if point.calibration != "none":
        calibration = calibration_label(run_sheet, point.calibration)
    return REGIME_LABELS[point.regime], method_label(run_sheet, point.method), calibration


def control_words(config: Config, candidate: Checkpoint, control: Checkpoint) -> str:
    """Return in which way a control differs from its candidate."""
    kind = control_kind(config, control.method)
    if kind is None or control.method == candidate.method:
        kind = config.calibrations[control.calibration].control
    return CONTROL_LABELS[kind]


def primary(config: Config, point: Checkpoint) -> str:
    """Return the metric that decides: a slope in sentences that the calibration has not seen.

    Where both kinds of sentences were seen it is that of CrowS-Pairs; where the pairs are
    questions alone, or of another kind, R of BBQ, whose questions are another kind too.
    """
    sentences = [name for name in config.calibrations[point.calibration].pairs if name in PAIRS]
    if not sentences:
        return "abs_r_bbq"
    return "abs_slope_stereoset" if sentences == ["crows_pairs"] else "abs_slope_crows_pairs"


def was_seen(config: Config, point: Checkpoint, metric: Measure) -> bool:
    """Return whether a metric's items are among a checkpoint's calibration pairs."""
    return any(
        entry.task == metric.task and in_calibration(config, point, slug)
        for slug, entry in config.benchmarks.items()
    )


class Findings:
    """All effects of one candidate, and the verdict on it."""

    def __init__(self, run_sheet: RunSheet, found: Iterable[Effect], point: Checkpoint) -> None:
        """Take the candidate's own effects out of ``found``."""
        self.run_sheet, self.config, self.point = run_sheet, run_sheet.config, point
        mine = [one for one in found if one.contrast.candidate == point]
        self.plain = {one.metric.name: one for one in mine if one.contrast.kind == "plain"}
        self.metric = primary(self.config, point)
        self.controls = [
            one for one in mine if one.contrast.kind == "control" and one.metric.name == self.metric
        ]

    def verdict(self) -> tuple[str, str]:
        """Return ``yes``, ``yes, in these worlds``, ``not shown`` or ``no``, and why."""
        own = self.plain[self.metric].verdict
        if own.startswith("worse"):
            return "no", "higher than without the method"
        if not own.startswith("better"):
            return "not shown", "not lower than without the method"
        lost = [one for one in self.controls if not one.verdict.startswith("better")]
        if lost:
            references = (one.contrast.reference for one in lost)
            names = ", ".join(control_words(self.config, self.point, other) for other in references)
            return "not shown", f"not lower than the control ({names})"
        if not self.controls:
            return "not shown", "lower than without the method, but no control was run"
        said = [own, *(one.verdict for one in self.controls)]
        why = f"lower than without the method and than {len(self.controls)} controls"
        return ("yes" if set(said) == {"better"} else "yes, in these worlds"), why

    def costs(self) -> str:
        """Return what the method costs beside what it is without, in words."""
        loss, known, settled = (self.plain[name] for name in ("nll", "mmlu", "acc_dis"))
        return (
            f"{percent(np.expm1(loss.effect), 1)} perplexity, "
            f"{shown(known.effect, known.metric)} points MMLU, "
            f"{shown(settled.effect, settled.metric)} points disambiguated"
        )

    def spills(self) -> str:
        """Return how the other measures of bias change, where a difference is shown."""
        changed = []
        for name in [name for name in SPOKEN if name != self.metric]:
            one = self.plain[name]
            if one.verdict.startswith(("better", "worse")):
                seen = was_seen(self.config, self.point, one.metric)
                words = f"{SPOKEN[name]} {percent(one.relative)}"
                changed.append(words + " (seen in calibration)" * seen)
        return "; ".join(changed) or "no other measure"

    def row(self) -> list[str]:
        """Return the verdict's row on the page."""
        own = self.plain[self.metric]
        before, after = (shown(x, own.metric, False) for x in (own.reference, own.value))
        measure = f"{SPOKEN[self.metric]}: {before} → {after} ({percent(own.relative)})"
        abstained = shown(self.plain["abstained"].effect, BY_NAME["abstained"])
        words = *place_words(self.run_sheet, self.point), *self.verdict()
        return [*words, measure, self.costs(), abstained, self.spills()]


ROW_HEADS = (
    "regime", "method", "calibration", "lowers bias", "why", "measured by", "costs",
    "over-abstention", "spills over to",
)  # fmt: skip


def findings(run_sheet: RunSheet, found: Sequence[Effect]) -> list[Findings]:
    """Return the findings on every candidate that has a checkpoint without the method."""
    config = run_sheet.config
    points = dict.fromkeys(one.contrast.candidate for one in select(run_sheet, found, "plain"))
    return [
        Findings(run_sheet, found, point)
        for point in points
        if not is_control(config, point) and strength(config, point.method)
    ]


def answer(run_sheet: RunSheet, found: Sequence[Effect]) -> list[str]:
    """Return the verdicts in sentences, one a candidate that lowers bias, and one on the rest."""
    every = findings(run_sheet, found)
    if not every:
        return [
            "This run has no method against bias beside what it is without, so nothing is said."
        ]
    lines, rest = [], []
    for one in every:
        verdict, _ = one.verdict()
        regime, method, calibration = place_words(run_sheet, one.point)
        name = f"{method} ({regime}, {calibration})"
        if verdict.startswith("yes"):
            change = f"{SPOKEN[one.metric]} {percent(one.plain[one.metric].relative)}"
            costs = f"costs {one.costs()}; spills over to {one.spills()}"
            lines.append(f"{name} lowers bias: {verdict}: {change}; {costs}.")
        else:
            rest.append(f"{name}: {verdict}")
    if rest:
        head = f"Of {len(every)} checkpoints {len(rest)} are not shown to lower bias"
        lines.append(f"{head}: {'; '.join(rest)}.")
    return lines


def checks(run_sheet: RunSheet, found: Sequence[Effect]) -> list[str]:
    """Return what the controls that must do something did: reversed signs raise bias."""
    config = run_sheet.config
    lines = []
    for one in select(run_sheet, found, "plain"):
        point = one.contrast.candidate
        if (
            control_kind(config, point.method) == "reversed"
            and control_of(config, point.calibration) is None
            and one.metric.name == primary(config, point)
        ):
            regime, method, _ = place_words(run_sheet, point)
            word = "raises" if one.verdict.startswith("worse") else "does not raise"
            measure = f"the {SPOKEN[one.metric.name]}: {effect_text(one)}"
            lines.append(f"{method} ({regime}), a reversed sign, {word} {measure}.")
    return lines


def matched_rows(run_sheet: RunSheet, found: Sequence[Effect]) -> list[list[str]]:
    """Return the table of lines at matched perplexity, head first."""
    pairs: dict[Matched, dict[str, Effect]] = {}
    for one in found:
        pairs.setdefault(one.contrast, {})[one.metric.name] = one
    rows = [["regime", "method", "calibration", "budget", "against", *SPOKEN.values()]]
    for pair, by_name in pairs.items():
        line = pair.candidate
        place = REGIME_LABELS[line.points[1].regime], line.method
        calibration = calibration_label(run_sheet, line.calibration)
        against = CONTROL_LABELS.get(pair.reference.control, "without it")
        texts = (effect_text(by_name[name]) for name in SPOKEN)
        budget = f"{percent(pair.budget)} perplexity"
        rows.append([*place, calibration, budget, against, *texts])
    return rows
