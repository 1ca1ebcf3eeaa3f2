"""The paper's claims, each tested on the numbers of a run.

A claim is a set of comparisons. Each has a *difference* that is positive where the claim
holds, a standard error, and a two-sided p-value against no difference (against the margin
where the claim says "about the same"), by the normal distribution. Differences to SparseGPT
on the same items are paired and take the clustered bootstrap interval of significance.csv
where items are clustered. All others take the standard errors over items of results.csv as
independent: conservative for two models on the same items, blind to clusters. All distinct
comparisons of the table are one family for Holm's correction. Where a claim is about which
matrices differ most there is no error over items: p is that of Fisher's exact test. ``RULE``
says how the verdict follows. Only results.csv, significance.csv and printed.csv are read.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from scipy import stats as scipy_stats

from ..config import JUDGED, METHODS
from ..serving.shapes import QWEN25_7B
from . import patterns, stats
from .printed import printed_values
from .results import Quantity, Results, Significance, groups
from .spec import METHOD_LABELS, REGIME_LABELS, TASK_LABELS, Spec, has_paper_form

ALPHA = 0.05
OURS, BASE = "debias-sparsegpt", "sparsegpt"
REGIMES = ("u25", "u50", "1of4", "2of4")
ACCURACY_MARGIN, RELATIVE_MARGIN, DTO_MARGIN = 0.01, 0.05, 0.01
CHANCE_BAND = 0.05
SUPPORTED, NOT_SUPPORTED = "supported", "not supported"
CONTRADICTED, NOT_TESTED = "contradicted", "not tested here"
RULE = (
    "Verdict: a comparison counts for or against a claim if its difference has p < 0.05 after "
    "Holm's correction over all comparisons of this table. A claim about all cases is "
    "supported if every comparison counts for it and contradicted if one counts against it; a "
    "claim about most cases needs more than half. Anything else is not supported. A verdict "
    "holds for the checkpoints of this run only."
)

Point = tuple[str, str, str, str]  # model, method, regime, calibration
Key = tuple[str, float, float]  # of a comparison: label, margin, difference


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error and number of items, None where unknown."""

    value: float
    stderr: float | None = None
    n: int | None = None


class Numbers(Protocol):
    """Where values come from. Names are those of printed.csv: task, task/category, task:metric."""

    def models(self) -> list[str]:
        """Return the models, in table order."""

    def value(self, point: Point, name: str) -> Estimate | None:
        """Return one number, None where there is none."""

    def paired(self, ours: Point, base: Point, name: str) -> Estimate | None:
        """Return a difference on the same items, None where it was not tested."""

    def concentration(self, point: Point) -> patterns.Concentration | None:
        """Return the kind of the matrices whose patterns differ most, None where unknown."""

    def label(self, model: str) -> str:
        """Return a model's name."""


class PrintedNumbers:
    """The paper's numbers: without standard errors and pairs."""

    def __init__(self) -> None:
        self._values = printed_values()

    def models(self) -> list[str]:
        """Return the models that the paper prints numbers of."""
        return list(dict.fromkeys(key[0] for key in self._values))

    def value(self, point: Point, name: str) -> Estimate | None:
        """Return a printed number on the scale of results.csv."""
        found = self._values.get((*point, name))
        return Estimate(found[0]) if found else None

    def paired(self, ours: Point, base: Point, name: str) -> Estimate | None:
        """Return None: the paper prints no differences with their spread."""
        return None

    def concentration(self, point: Point) -> patterns.Concentration | None:
        """Return that of the printed list; each block has seven matrices, one of the kind."""
        head = f"{patterns.SLUG}:{patterns.PATTERN}/"
        listed = [key[-1] for key in self._values if key[:4] == point and key[-1].startswith(head)]
        if not listed:
            return None
        found = sum(name.rpartition(".")[2] == patterns.OUTPUT for name in listed)
        layers = QWEN25_7B.layers
        return patterns.Concentration(found, len(listed), layers, layers * len(QWEN25_7B.linears()))

    def label(self, model: str) -> str:
        """Return the model's slug."""
        return model


class RunNumbers:
    """The numbers of a run; notes in ``missing`` what was asked for and is not there."""

    def __init__(self, spec: Spec, results: Results, significance: Significance) -> None:
        self._spec, self._results, self._significance = spec, results, significance
        self._groups = {
            (group.model, group.method, group.regime, group.calibration): group
            for group in groups(sorted(spec.files))
        }
        self.missing: dict[str, None] = {}

    def models(self) -> list[str]:
        """Return the models of this run in the order of its experiments."""
        points = [point for grid in self._spec.experiments.values() for point in grid]
        return list(dict.fromkeys(point.model for point in points))

    def label(self, model: str) -> str:
        """Return the model's name in tables."""
        return self._spec.model_label(model)

    def _quantity(self, name: str) -> Quantity | None:
        task, _, metric = name.partition(":")
        task, _, category = task.partition("/")
        if task == "dto":
            return Quantity("dto", "dto")
        if task == "serving":
            return Quantity("serving", metric)
        slug = self._spec.primary(task)
        if slug is None:
            self.missing[f"a benchmark with task {task}"] = None
            return None
        if task in JUDGED:
            entry = self._spec.config.benchmarks[slug]
            if entry.judge is None:
                label = TASK_LABELS[task]
                self.missing[f"a guard model for {label} (a word list does not test it)"] = None
                return None
            if not has_paper_form(entry):
                metric = "unsafe_rate"
        return Quantity(slug, metric or self._spec.headline(slug), category)

    def value(self, point: Point, name: str) -> Estimate | None:
        """Return the mean over seeds; its error holds that over items and that over seeds."""
        quantity, group = self._quantity(name), self._groups.get(point)
        if group is None:
            self.missing["the checkpoint " + "/".join(point)] = None
        if quantity is None or group is None:
            return None
        measured = self._results.of(group, quantity)
        if measured is None:
            self.missing[f"{quantity.benchmark} {quantity.metric} of " + "/".join(point)] = None
            return None
        if measured.in_calibration:
            label = f"{TASK_LABELS[name.partition('/')[0].partition(':')[0]]} of " + "/".join(point)
            self.missing[f"a clean test: its calibration has the data of {label}"] = None
            return None
        seeds = [self._results.one(one, quantity) for one in group.checkpoints()]
        errors = [one.stderr for one in seeds if one is not None]
        stderr = None
        if None not in errors:
            over_seeds = (measured.sd or 0.0) / math.sqrt(len(seeds))
            stderr = math.hypot(sum(errors) / len(errors), over_seeds)
        return Estimate(measured.value, stderr, seeds[0].n if seeds[0] else None)

    def paired(self, ours: Point, base: Point, name: str) -> Estimate | None:
        """Return the tested difference of Debias-SparseGPT to SparseGPT, else None."""
        quantity, group = self._quantity(name), self._groups.get(ours)
        same = (*ours[:1], BASE, *ours[2:]) == base
        if quantity is None or group is None or not same or quantity.category:
            return None
        found = self._significance.difference(group, quantity.benchmark, quantity.metric)
        return Estimate(*found) if found else None

    def concentration(self, point: Point) -> patterns.Concentration | None:
        """Return that of a grid point's masks, compared with SparseGPT's."""
        group, place = self._groups.get(point), "/".join(point)
        values = patterns.by_matrix(self._results, group) if group is not None else {}
        if not values:
            self.missing[f"the compared masks of {place}"] = None
            return None
        found = patterns.concentration(values)
        if found is None:
            what = f"more than {patterns.TOP} matrices, some of them {patterns.OUTPUT},"
            self.missing[f"{what} in {place}"] = None
        return found


# Comparisons


@dataclass(frozen=True)
class Comparison:
    """One test of a claim. ``difference`` + ``margin`` above 0 is as claimed.

    ``unit``: ``points`` (a fraction, shown times 100), ``dto`` (as it is) or ``relative`` (the
    natural logarithm of a ratio, shown as a change in percent). ``exact_p`` is the p-value of a
    test that has no standard error.
    """

    label: str
    difference: Estimate
    unit: str = "points"
    margin: float = 0.0
    exact_p: float | None = None

    @property
    def key(self) -> Key:
        """What makes two comparisons the same test."""
        return self.label, self.margin, self.difference.value

    @property
    def lead(self) -> float:
        """By how much the claim is met; noise of binary fractions is rounded away."""
        return round(self.difference.value + self.margin, 9)

    @property
    def p_value(self) -> float | None:
        """Two-sided p against ``lead`` = 0, None without a standard error or an exact test."""
        if self.exact_p is not None:
            return self.exact_p
        stderr = self.difference.stderr
        if stderr is None:
            return None
        if stderr == 0:
            return 1.0 if self.lead == 0 else 0.0
        return float(2 * scipy_stats.norm.sf(abs(self.lead) / stderr))

    def show(self, value: float) -> str:
        """Return a number of this comparison in its unit, with its sign."""
        if self.unit == "relative":
            value = 100 * math.expm1(value)
        digits = {"points": 2, "dto": 3, "relative": 1}[self.unit]
        # Adding 0 makes a positive zero of a negative one.
        rounded = round(value * (100 if self.unit == "points" else 1), digits) + 0.0
        text = f"{rounded:+.{digits}f}".replace("-", "−")
        return text + (" %" if self.unit == "relative" else "")


# What a guard model says of the response alone, as the paper prints it. A run whose guard does
# not judge in that form has its own headline in place of it.
UNSAFE = tuple(f"{task}:says_unsafe_paper" for task in JUDGED)
LABELS = TASK_LABELS | {"dto": "DTO", "serving:decode_tok_per_s": "throughput"}
LABELS |= {name: f"{TASK_LABELS[task]} unsafe" for task, name in zip(JUDGED, UNSAFE, strict=True)}
RELATIVE = ("perplexity", "serving:decode_tok_per_s")
SMALLER = ("perplexity", "dto", *UNSAFE)  # where a smaller value is the better one


def unit_of(name: str) -> str:
    """Return the unit in which two values of a name are compared."""
    return "relative" if name in RELATIVE else "dto" if name == "dto" else "points"


def minus(first: Estimate, second: Estimate) -> Estimate:
    """Return first - second of two independent estimates."""
    known = first.stderr is not None and second.stderr is not None
    stderr = math.hypot(first.stderr, second.stderr) if known else None
    return Estimate(first.value - second.value, stderr, first.n)


def scaled(estimate: Estimate, name: str) -> Estimate:
    """Return an estimate on the scale on which it is compared: ln for ratios."""
    if name not in RELATIVE:
        return estimate
    stderr = None if estimate.stderr is None else estimate.stderr / estimate.value
    return Estimate(math.log(estimate.value), stderr, estimate.n)


def closer(ours: Estimate, base: Estimate, target: Estimate, paired: Estimate | None) -> Estimate:
    """Return by how much ours is closer to a target than the baseline.

    On one side of the target that is the difference of the two, whose paired error is taken.
    On different sides the errors are added: the bound for fully dependent estimates.
    """
    left, right = ours.value - target.value, base.value - target.value
    value = abs(right) - abs(left)
    if left * right >= 0 and paired is not None:
        return Estimate(value, paired.stderr, paired.n)
    errors = (ours.stderr, base.stderr, target.stderr)
    if None in errors:
        return Estimate(value, None, ours.n)
    # Between the two, the target counts twice; on one side of both it cancels.
    return Estimate(value, ours.stderr + base.stderr + 2 * target.stderr, ours.n)


def better(numbers: Numbers, ours: Point, base: Point, name: str) -> Estimate | None:
    """Return how much better ``ours`` is than ``base``, None where a value is missing."""
    a, b = numbers.value(ours, name), numbers.value(base, name)
    if a is None or b is None:
        return None
    paired = numbers.paired(ours, base, name)
    if name == "crows_pairs":
        return closer(a, b, Estimate(0.5, 0.0), paired)
    found = paired or minus(scaled(a, name), scaled(b, name))
    return Estimate(-found.value, found.stderr, found.n) if name in SMALLER else found


def name_label(name: str) -> str:
    """Return the words for a name of printed.csv."""
    task, _, category = name.partition("/")
    return f"{LABELS.get(task, task)} {category}".strip()


def point_label(numbers: Numbers, point: Point) -> str:
    """Return model and regime, with the calibration where it is not StereoSet alone."""
    model, _, regime, calibration = point
    words = [numbers.label(model), REGIME_LABELS[regime]]
    return ", ".join([*words, *([calibration] if calibration not in ("ss", "none") else [])])


def compare(
    numbers: Numbers, ours: Point, base: Point, name: str, against: str, margin: float = 0.0
) -> list[Comparison]:
    """Return the one comparison "ours is better than base", none where a value is missing."""
    found = better(numbers, ours, base, name)
    label = f"{point_label(numbers, ours)}: {name_label(name)} {against}"
    return [] if found is None else [Comparison(label, found, unit_of(name), margin)]


MARGINS = {"relative": RELATIVE_MARGIN, "dto": DTO_MARGIN, "points": ACCURACY_MARGIN}


def versus_sparsegpt(
    names: Sequence[str],
    regimes: Sequence[str],
    calibration: str = "ss",
    baselines: Sequence[str] = (BASE,),
    margins: bool = False,
) -> Callable[[Numbers], list[Comparison]]:
    """Return a builder of "Debias-SparseGPT is better (or not worse) than the baselines"."""

    def build(numbers: Numbers) -> list[Comparison]:
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

    return build


def versus_calibration(
    names: Sequence[str], ours: str, base: str, methods: Sequence[str], margins: bool = False
) -> Callable[[Numbers], list[Comparison]]:
    """Return a builder of "at 2:4 one calibration is better (or not worse) than another"."""

    def build(numbers: Numbers) -> list[Comparison]:
        return [
            comparison
            for model in numbers.models()
            for method in methods
            for name in names
            for comparison in compare(
                numbers, (model, method, "2of4", ours), (model, method, "2of4", base), name,
                f"vs {base} ({METHOD_LABELS[method]})", MARGINS[unit_of(name)] if margins else 0.0,
            )
        ]  # fmt: skip

    return build


def dense_shift(numbers: Numbers) -> list[Comparison]:
    """Compare the distances of both methods' UnQover accuracy to the dense model's."""
    found = []
    for model in numbers.models():
        dense = numbers.value((model, "dense", "dense", "none"), "unqover")
        for regime in REGIMES:
            ours, base = (model, OURS, regime, "ss"), (model, BASE, regime, "ss")
            a, b = numbers.value(ours, "unqover"), numbers.value(base, "unqover")
            if dense is None or a is None or b is None:
                continue
            difference = closer(a, b, dense, numbers.paired(ours, base, "unqover"))
            label = f"{point_label(numbers, ours)}: UnQover shift vs {METHOD_LABELS[BASE]}"
            found.append(Comparison(label, difference))
    return found


def hit_hardest(numbers: Numbers) -> list[Comparison]:
    """Compare SparseGPT's change of UnQover from dense with that of every other accuracy."""
    found = []
    for model in numbers.models():
        changes: dict[str, Estimate] = {}
        point = (model, BASE, "1of4", "ss")
        for name in ("unqover", "hellaswag", "mmlu", "bbq"):
            dense = numbers.value((model, "dense", "dense", "none"), name)
            pruned = numbers.value(point, name)
            if dense is not None and pruned is not None:
                change = minus(pruned, dense)
                changes[name] = Estimate(abs(change.value), change.stderr, change.n)
        if "unqover" in changes:
            unqover = changes.pop("unqover")
            found += [
                Comparison(
                    f"{point_label(numbers, point)}: change of UnQover vs {LABELS[name]}",
                    minus(unqover, change),
                )
                for name, change in changes.items()
            ]
    return found


CATEGORIES = ("religion", "country", "ethnicity", "mixedgender")


def uncertain_gain_more(numbers: Numbers) -> list[Comparison]:
    """Compare the UnQover gains of the models whose dense versions are most and least certain."""
    gains: list[tuple[float, str, Estimate]] = []
    for model in numbers.models():
        entropy = numbers.value((model, "dense", "dense", "none"), "unqover:entropy_correct")
        ours, base = (model, OURS, "1of4", "ss"), (model, BASE, "1of4", "ss")
        gain = better(numbers, ours, base, "unqover")
        if entropy is not None and gain is not None:
            gains.append((entropy.value, model, gain))
    if len(gains) < 2:
        if isinstance(numbers, RunNumbers):
            numbers.missing["a second model at 1:4"] = None
        return []
    (_, sure, low), (_, unsure, high) = min(gains), max(gains)
    label = f"UnQover gain of {numbers.label(unsure)} vs {numbers.label(sure)}"
    return [Comparison(label, minus(high, low))]


def near_chance(numbers: Numbers) -> list[Comparison]:
    """Compare UnQover at 2:4 with guessing: at most ``CHANCE_BAND`` away is as claimed."""
    found = []
    for model in numbers.models():
        for method in (BASE, OURS):
            point = (model, method, "2of4", "ss")
            value = numbers.value(point, "unqover")
            if value is not None:
                distance = abs(value.value - stats.CHANCE_UNQOVER)
                label = f"{point_label(numbers, point)}: UnQover of {METHOD_LABELS[method]}"
                difference = Estimate(-distance, value.stderr, value.n)
                found.append(Comparison(label, difference, margin=CHANCE_BAND))
    return found


def perplexity_doubles(numbers: Numbers) -> list[Comparison]:
    """Compare perplexity at 2:4 with one and a half times the dense model's."""
    found = []
    for model in numbers.models():
        dense = (model, "dense", "dense", "none")
        for method in (BASE, OURS):
            point = (model, method, "2of4", "ss")
            loss = better(numbers, dense, point, "perplexity")
            if loss is not None:
                label = f"{point_label(numbers, point)}: PPL of {METHOD_LABELS[method]} vs dense"
                found.append(Comparison(label, loss, "relative", -math.log(1.5)))
    return found


def gains_more(numbers: Numbers) -> list[Comparison]:
    """Compare the two methods' gains from 256 added texts at 2:4."""
    found = []
    for model in numbers.models():
        for name in ("mmlu", "unqover"):
            with_texts, without = (
                better(
                    numbers, (model, OURS, "2of4", calibration), (model, BASE, "2of4", calibration),
                    name,
                )
                for calibration in ("ss-uc256", "ss")
            )  # fmt: skip
            if with_texts is not None and without is not None:
                label = f"{numbers.label(model)}, 2:4: {LABELS[name]} gain vs SparseGPT's"
                found.append(Comparison(label, minus(with_texts, without)))
    return found


def faster_than_dense(numbers: Numbers) -> list[Comparison]:
    """Compare decoding throughput of 2:4 models with the dense one's."""
    found = []
    for model in numbers.models():
        for method in (BASE, OURS):
            found += compare(
                numbers, (model, method, "2of4", "ss-uc256"), (model, "dense", "dense", "none"),
                "serving:decode_tok_per_s", f"of {METHOD_LABELS[method]} vs dense",
            )  # fmt: skip
    return found


def as_fast(numbers: Numbers) -> list[Comparison]:
    """Compare the throughputs of both methods: within the relative margin is as claimed."""
    name, found = "serving:decode_tok_per_s", []
    for model in numbers.models():
        ours, base = (model, OURS, "2of4", "ss-uc256"), (model, BASE, "2of4", "ss-uc256")
        gap = better(numbers, ours, base, name)
        if gap is not None:
            label = f"{point_label(numbers, ours)}: throughput distance to SparseGPT's"
            distance = Estimate(-abs(gap.value), gap.stderr, gap.n)
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
            label += f"{patterns.OUTPUT}, of all {seen.kind} of {seen.total}"
            found.append(Comparison(label, Estimate(seen.excess), exact_p=seen.p_value))
    return found


# The claims


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, its place there, and how to compare. ``most``: not about all."""

    slug: str
    text: str
    place: str
    build: Callable[[Numbers], list[Comparison]]
    most: bool = False


FAIRNESS = ("unqover", "bbq", "crows_pairs")
CLAIMS = (
    Claim(
        "unqover",
        "Debias-SparseGPT outperforms SparseGPT on UnQover for all models (1:4).",
        "Main Results",
        versus_sparsegpt(("unqover",), ("1of4",)),
    ),
    Claim(
        "bbq",
        "Debias-SparseGPT outperforms SparseGPT on BBQ for all models (1:4).",
        "Main Results",
        versus_sparsegpt(("bbq",), ("1of4",)),
    ),
    Claim(
        "crows_pairs",
        "For most models it brings CrowS-Pairs closer to 50 than SparseGPT (1:4).",
        "Main Results",
        versus_sparsegpt(("crows_pairs",), ("1of4",)),
        most=True,
    ),
    Claim(
        "categories",
        "It has the higher UnQover accuracy in each of the four categories (1:4).",
        "Category-Level UnQover Evaluation",
        versus_sparsegpt([f"unqover/{name}" for name in CATEGORIES], ("1of4",)),
    ),
    Claim(
        "dto_best",
        "It has the lowest DTO for all models, below the dense one and all baselines (1:4).",
        "Main Results",
        versus_sparsegpt(("dto",), ("1of4",), baselines=METHODS[:4]),
    ),
    Claim(
        "dto_regimes",
        "It has a lower DTO than SparseGPT at all sparsity patterns.",
        "Across Sparsity Regimes",
        versus_sparsegpt(("dto",), REGIMES),
    ),
    Claim(
        "bias_regimes",
        "Across models and sparsity regimes it consistently reduces bias compared to SparseGPT "
        "(UnQover and BBQ).",
        "Abstract",
        versus_sparsegpt(("unqover", "bbq"), REGIMES),
    ),
    Claim(
        "dense_shift",
        "It preserves abstention: UnQover stays closer to the dense model's than with SparseGPT.",
        "Measuring Biases",
        dense_shift,
    ),
    Claim(
        "preserves",
        "It keeps SparseGPT's perplexity (worse by less than 5 %) and accuracy on HellaSwag and "
        "MMLU (lower by less than 1 point).",
        "Abstract",
        versus_sparsegpt(("perplexity", "hellaswag", "mmlu"), REGIMES, margins=True),
    ),
    Claim(
        "hit_hardest",
        "Pruning changes UnQover more than the other accuracies (SparseGPT, 1:4).",
        "Main Results",
        hit_hardest,
    ),
    Claim(
        "uncertainty",
        "The model that is less certain on UnQover before pruning gains more.",
        "Predictive Uncertainty",
        uncertain_gain_more,
    ),
    Claim(
        "near_chance",
        "At 2:4 with StereoSet alone UnQover comes near guessing (33.3, by less than 5 points).",
        "Calibration data impact",
        near_chance,
    ),
    Claim(
        "perplexity_doubles",
        "At 2:4 with StereoSet alone perplexity nearly doubles (at least 1.5 times dense).",
        "Calibration data impact",
        perplexity_doubles,
    ),
    Claim(
        "texts_help",
        "At 2:4, adding 256 UltraChat texts improves MMLU, UnQover and DTO for both methods.",
        "Calibration data impact",
        versus_calibration(("mmlu", "unqover", "dto"), "ss-uc256", "ss", (BASE, OURS)),
    ),
    Claim(
        "texts_help_more",
        "Debias-SparseGPT gains more from those texts than SparseGPT (MMLU, UnQover).",
        "Calibration Under 2:4 Sparsity",
        gains_more,
    ),
    Claim(
        "texts_fairness",
        "With those texts at 2:4 it outperforms SparseGPT on all three bias benchmarks.",
        "Calibration data impact",
        versus_sparsegpt(FAIRNESS, ("2of4",), "ss-uc256"),
    ),
    Claim(
        "four_texts",
        "Four texts already improve MMLU and UnQover at 2:4.",
        "UltraChat Ablation",
        versus_calibration(("mmlu", "unqover"), "ss-uc4", "ss", (OURS,)),
    ),
    Claim(
        "enough_texts",
        "1,024 texts are no better than 256 (MMLU by 1 point, perplexity by 5 %, DTO by 0.01).",
        "UltraChat Ablation",
        versus_calibration(("mmlu", "perplexity", "dto"), "ss-uc256", "ss-uc1024", (OURS,), True),
    ),
    Claim(
        "faster",
        "2:4 models decode faster than the dense model.",
        "Efficiency Evaluation",
        faster_than_dense,
    ),
    Claim(
        "as_fast",
        "Debias-SparseGPT keeps SparseGPT's throughput (within 5 %).",
        "Efficiency Evaluation",
        as_fast,
    ),
    Claim(
        "output_patterns",
        "The largest changes of the 2:4 pattern are concentrated in self_attn.o_proj: more of the "
        "20 most different matrices than of all.",
        "Analysis of Learned Sparsity Patterns",
        outputs_change_most,
    ),
    Claim(
        "safety",
        "It has a lower rate of unsafe responses than SparseGPT for all models "
        "(RealToxicityPrompts, HarmBench; 1:4).",
        "Safety Evaluation",
        versus_sparsegpt(UNSAFE, ("1of4",)),
    ),
)


# Evidence and verdict


@dataclass(frozen=True)
class Finding:
    """A claim with its printed and measured comparisons and the verdict."""

    claim: Claim
    printed: tuple[Comparison, ...]
    ours: tuple[Comparison, ...]
    adjusted: Mapping[Key, float]
    verdict: str
    reason: str

    def counts(self) -> tuple[int, int]:
        """Return how many of our comparisons count for and against the claim."""
        return _counts(self.ours, self.adjusted)


def _counts(comparisons: Iterable[Comparison], adjusted: Mapping[Key, float]) -> tuple[int, int]:
    clear = [c for c in comparisons if adjusted.get(c.key, 1.0) < ALPHA]
    return sum(c.lead > 0 for c in clear), sum(c.lead < 0 for c in clear)


def adjust(comparisons: Iterable[Comparison]) -> dict[Key, float]:
    """Return Holm's adjusted p of every distinct comparison that has a p-value."""
    raw = {c.key: p for c in comparisons if (p := c.p_value) is not None}
    return dict(zip(raw, stats.holm(list(raw.values())), strict=True))


def verdict(
    comparisons: Sequence[Comparison],
    adjusted: Mapping[Key, float],
    most: bool = False,
) -> str:
    """Return the verdict on a claim by the rule in ``RULE``."""
    tested = [c for c in comparisons if c.key in adjusted]
    if not tested:
        return NOT_TESTED
    supporting, opposing = _counts(tested, adjusted)
    if most:
        half = len(tested) / 2
        if supporting > half:
            return SUPPORTED
        return CONTRADICTED if opposing > half else NOT_SUPPORTED
    if opposing:
        return CONTRADICTED
    return SUPPORTED if supporting == len(tested) else NOT_SUPPORTED


def findings(spec: Spec, results: Results, significance: Significance) -> list[Finding]:
    """Return all claims with evidence and verdict, in the order of ``CLAIMS``."""
    numbers, printed = RunNumbers(spec, results, significance), PrintedNumbers()
    built: list[tuple[Claim, list[Comparison], list[str]]] = []
    for claim in CLAIMS:
        numbers.missing = {}
        built.append((claim, claim.build(numbers), list(numbers.missing)))
    adjusted = adjust(c for _, comparisons, _ in built for c in comparisons)
    found = []
    for claim, ours, missing in built:
        reason = ""
        if not ours:
            reason = f"this run lacks {' and '.join(missing[:2])}"
            reason += f" and {len(missing) - 2} more" if len(missing) > 2 else ""
        elif not any(c.key in adjusted for c in ours):
            reason = "measured without a standard error"
        found.append(
            Finding(
                claim,
                tuple(claim.build(printed)),
                tuple(ours),
                adjusted,
                verdict(ours, adjusted, claim.most),
                reason,
            )
        )
    return found


def printed_evidence(finding: Finding) -> str:
    """Return in how many printed comparisons a claim holds, and their range by unit."""
    comparisons = finding.printed
    if not comparisons:
        return "–"
    wins, ties, losses, p = stats.sign_test([c.lead for c in comparisons])
    text = f"{wins} of {len(comparisons)} as claimed"
    text += f", {ties} at the limit" if ties else ""
    text += f", {losses} against" if losses else ""
    parts = []
    for unit in dict.fromkeys(c.unit for c in comparisons):
        same = sorted((c for c in comparisons if c.unit == unit), key=lambda c: c.difference.value)
        low, high = (c.show(c.difference.value) for c in (same[0], same[-1]))
        what = {"points": " points", "dto": " DTO", "relative": ""}[unit]
        parts.append(f"{low}{what}" if low == high else f"{low} to {high}{what}")
    text += f" ({'; '.join(parts)})"
    return text + (f"; sign test {p_text(p)}" if len(comparisons) >= 6 else "")


def p_text(p: float) -> str:
    """Return a p-value as text; the tail of the normal distribution has its limits."""
    return f"p = {p:.2g}" if p >= 1e-16 else "p < 1e-16"


def describe(comparison: Comparison, adjusted: Mapping[Key, float]) -> str:
    """Return one comparison as text: difference, 95 % interval, adjusted p, n."""
    difference = comparison.difference
    text = f"{comparison.label} {comparison.show(difference.value)}"
    if difference.stderr is not None:
        half = float(scipy_stats.norm.ppf(0.975)) * difference.stderr
        ends = [comparison.show(difference.value + sign * half) for sign in (-1, 1)]
        text += f" [{ends[0]}, {ends[1]}], {p_text(adjusted[comparison.key])}"
    elif comparison.exact_p is not None:
        text += f", {p_text(adjusted[comparison.key])}"
    return text + (f", n = {difference.n:,}" if difference.n else "")


SHOWN = 3  # comparisons spelled out; of more, the weakest and the strongest


def our_evidence(finding: Finding) -> str:
    """Return our comparisons as text: counts, then all of them or the two extremes."""
    ours, adjusted = finding.ours, finding.adjusted
    if not ours:
        return "–"
    if len(ours) <= SHOWN:
        return "; ".join(describe(c, adjusted) for c in ours)
    supporting, opposing = finding.counts()
    text = f"{sum(c.lead > 0 for c in ours)} of {len(ours)} as claimed, {supporting} clearly; "
    text += f"{opposing} clearly against"

    def strength(comparison: Comparison) -> float:
        stderr = comparison.difference.stderr
        return comparison.lead / stderr if stderr else comparison.lead

    ordered = sorted(ours, key=strength)
    weakest, strongest = describe(ordered[0], adjusted), describe(ordered[-1], adjusted)
    return f"{text}. Weakest: {weakest}. Strongest: {strongest}"
