"""How the paper's claims are compared: builders of their comparisons."""

import math
from collections.abc import Sequence
from dataclasses import replace

from ...analysis import mask_diffs
from ...plan.tasks import FACTS
from ...stats.inference import Estimate
from ..labels import METHOD_LABELS
from .numbers import (
    BASE,
    CHANCE_BAND,
    LABELS,
    MARGINS,
    OURS,
    RELATIVE_MARGIN,
    Comparison,
    Numbers,
    Point,
    RunNumbers,
    better,
    compare,
    gained,
    point_label,
    unit_of,
)

REGIMES = ("u25", "u50", "1of4", "2of4")


def versus_sparsegpt(
    numbers: Numbers,
    names: Sequence[str],
    regimes: Sequence[str],
    calibration: str = "ss",
    baselines: Sequence[str] = (BASE,),
    margins: bool = False,
) -> list[Comparison]:
    """Compare Debias-SparseGPT with the baselines: is it better (or not worse)?"""
    found = []
    for model in numbers.models():
        for regime in regimes:
            ours = (model, OURS, regime, calibration)
            for base in baselines:
                theirs = {
                    "dense": (model, "dense", "dense", "none"),
                    "magnitude": (model, "magnitude", regime, "none"),
                }.get(base, (model, base, regime, calibration))
                for name in names:
                    margin = MARGINS[unit_of(name)] if margins else 0.0
                    against = f"vs {METHOD_LABELS[base]}"
                    found += compare(numbers, ours, theirs, name, against, margin)
    return found


def versus_calibration(
    numbers: Numbers,
    names: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    methods: Sequence[str] = (OURS,),
    margins: bool = False,
) -> list[Comparison]:
    """Compare at 2:4 the first calibration of each pair with the second: is it better?"""
    return [
        comparison
        for ours, base in pairs
        for model in numbers.models()
        for method in methods
        for name in names
        for comparison in compare(
            numbers, (model, method, "2of4", ours), (model, method, "2of4", base), name,
            f"vs {numbers.calibration(base)} ({METHOD_LABELS[method]})",
            MARGINS[unit_of(name)] if margins else 0.0,
        )
    ]  # fmt: skip


def dense_shift(numbers: Numbers) -> list[Comparison]:
    """Compare the distances of both methods' UnQover accuracy to the dense model's."""
    found = []
    for model in numbers.models():
        dense = (model, "dense", "dense", "none")
        for regime in REGIMES:
            ours, base = (model, OURS, regime, "ss"), (model, BASE, regime, "ss")
            difference = numbers.estimate(
                lambda ours, base, dense: abs(base - dense) - abs(ours - dense),
                *((point, "unqover") for point in (ours, base, dense)),
            )
            if difference is not None:
                label = f"{point_label(numbers, ours)}: UnQover shift vs {METHOD_LABELS[BASE]}"
                found.append(Comparison(label, difference))
    return found


def hit_hardest(numbers: Numbers) -> list[Comparison]:
    """Compare SparseGPT's change of UnQover from dense with that of every other accuracy."""
    found = []
    for model in numbers.models():
        both = (model, BASE, "1of4", "ss"), (model, "dense", "dense", "none")
        for name in ("hellaswag", "mmlu", "bbq"):
            difference = numbers.estimate(
                lambda ours, dense, other, others: abs(ours - dense) - abs(other - others),
                *((point, one) for one in ("unqover", name) for point in both),
            )
            if difference is not None:
                label = f"{point_label(numbers, both[0])}: change of UnQover vs {LABELS[name]}"
                found.append(Comparison(label, difference))
    return found


def gain_more(
    numbers: Numbers, name: str, first: tuple[Point, Point], second: tuple[Point, Point]
) -> Estimate | None:
    """Return how much more the first pair of models gains than the second."""
    return numbers.estimate(
        lambda a, b, c, d: gained(name, a, b) - gained(name, c, d),
        *((point, name) for point in (*first, *second)),
    )


def uncertain_gain_more(numbers: Numbers) -> list[Comparison]:
    """Compare the UnQover gains of the models whose dense versions are most and least certain."""
    known: list[tuple[float, str]] = []
    for model in numbers.models():
        entropy = numbers.value((model, "dense", "dense", "none"), "unqover:entropy_correct")
        pair = _pair(model, "1of4", "ss")
        if entropy is not None and better(numbers, *pair, "unqover") is not None:
            known.append((entropy, model))
    if len(known) < 2:
        if isinstance(numbers, RunNumbers):
            numbers.missing["a second model at 1:4"] = None
        return []
    (_, sure), (_, unsure) = min(known), max(known)
    pairs = (_pair(model, "1of4", "ss") for model in (unsure, sure))
    difference = gain_more(numbers, "unqover", *pairs)
    label = f"UnQover gain of {numbers.label(unsure)} vs {numbers.label(sure)}"
    return [Comparison(label, difference)] if difference is not None else []


def _pair(model: str, regime: str, calibration: str) -> tuple[Point, Point]:
    """Return a model pruned by Debias-SparseGPT and by SparseGPT."""
    return (model, OURS, regime, calibration), (model, BASE, regime, calibration)


def at_2of4(numbers: Numbers, calibration: str = "ss") -> list[tuple[Point, Point]]:
    """Return each model pruned to 2:4 by both methods, with the dense one."""
    return [
        ((model, method, "2of4", calibration), (model, "dense", "dense", "none"))
        for model in numbers.models()
        for method in (BASE, OURS)
    ]


def near_chance(numbers: Numbers) -> list[Comparison]:
    """Compare UnQover at 2:4 with guessing: at most ``CHANCE_BAND`` away is as claimed."""
    chance = FACTS["unqover"].chance or 0.0
    found = []
    for point, _ in at_2of4(numbers):
        difference = numbers.estimate(lambda value: -abs(value - chance), (point, "unqover"))
        if difference is not None:
            label = f"{point_label(numbers, point)}: UnQover of {METHOD_LABELS[point[1]]}"
            found.append(Comparison(label, difference, margin=CHANCE_BAND))
    return found


def perplexity_doubles(numbers: Numbers) -> list[Comparison]:
    """Compare perplexity at 2:4 with one and a half times the dense model's."""
    found = []
    for point, dense in at_2of4(numbers):
        loss = better(numbers, dense, point, "perplexity")
        if loss is not None:
            label = f"{point_label(numbers, point)}: PPL of {METHOD_LABELS[point[1]]} vs dense"
            found.append(Comparison(label, loss, "relative", -math.log(1.5)))
    return found


def gains_more(numbers: Numbers) -> list[Comparison]:
    """Compare the two methods' gains from 256 added texts at 2:4."""
    found = []
    for model in numbers.models():
        for name in ("mmlu", "unqover"):
            pairs = (_pair(model, "2of4", calibration) for calibration in ("ss-uc256", "ss"))
            difference = gain_more(numbers, name, *pairs)
            if difference is not None:
                label = f"{numbers.label(model)}, 2:4: {LABELS[name]} gain vs SparseGPT's"
                found.append(Comparison(label, difference))
    return found


def faster_than_dense(numbers: Numbers) -> list[Comparison]:
    """Compare decoding throughput of 2:4 models with the dense one's."""
    return [
        comparison
        for ours, dense in at_2of4(numbers, "ss-uc256")
        for comparison in compare(
            numbers, ours, dense, "serving:decode_tok_per_s",
            f"of {METHOD_LABELS[ours[1]]} vs dense",
        )
    ]  # fmt: skip


def as_fast(numbers: Numbers) -> list[Comparison]:
    """Compare the throughputs of both methods: within the relative margin is as claimed."""
    name, found = "serving:decode_tok_per_s", []
    for model in numbers.models():
        ours, base = (model, OURS, "2of4", "ss-uc256"), (model, BASE, "2of4", "ss-uc256")
        gap = better(numbers, ours, base, name)
        if gap is not None:
            label = f"{point_label(numbers, ours)}: throughput distance to SparseGPT's"
            distance = replace(gap, value=-abs(gap.value))
            found.append(Comparison(label, distance, "relative", RELATIVE_MARGIN))
    return found


def outputs_change_most(numbers: Numbers) -> list[Comparison]:
    """Compare the share of o_proj among the 20 most different matrices with that among all."""
    found = []
    for model in numbers.models():
        point = (model, OURS, "2of4", "ss-uc256")
        seen = numbers.concentration(point)
        if seen is not None:
            label = f"{point_label(numbers, point)}: {seen.found} of {seen.top} are "
            label += f"{mask_diffs.OUTPUT}, of all {seen.kind} of {seen.total}"
            found.append(Comparison(label, Estimate(seen.excess), exact_p=seen.p_value))
    return found
