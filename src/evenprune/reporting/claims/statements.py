"""The paper's claims: its words, their place, what is tested for them, and how."""

from collections.abc import Callable
from dataclasses import dataclass

from ...plan.config import METHODS
from ..labels import CATEGORY_LABELS
from .builders import (
    REGIMES,
    as_fast,
    dense_shift,
    faster_than_dense,
    gains_more,
    hit_hardest,
    near_chance,
    outputs_change_most,
    perplexity_doubles,
    uncertain_gain_more,
    versus_calibration,
    versus_calibrations,
    versus_sparsegpt,
)
from .comparison import UNSAFE, Comparison
from .numbers import BASE, OURS, Numbers


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, and how it is compared.

    ``wording`` are the paper's words at ``place``, ``text`` what is tested for them. ``most``: not
    about all.
    """

    slug: str
    wording: str
    text: str
    place: str
    build: Callable[[Numbers], list[Comparison]]
    most: bool = False


FAIRNESS = ("unqover", "bbq", "crows_pairs")
BY_CATEGORY = tuple(f"unqover/{name}" for name in CATEGORY_LABELS)
SOURCE_NAMES = ("perplexity", "mmlu", *BY_CATEGORY, "unqover", "dto")
CLAIMS = (
    Claim(
        "unqover",
        "Debias-SparseGPT outperforms SparseGPT on the generative bias benchmarks UnQover and "
        "BBQ across all models",
        "Debias-SparseGPT outperforms SparseGPT on UnQover for all models (1:4).",
        "Main Results",
        versus_sparsegpt(("unqover",), ("1of4",)),
    ),
    Claim(
        "bbq",
        "Debias-SparseGPT outperforms SparseGPT on the generative bias benchmarks UnQover and "
        "BBQ across all models",
        "Debias-SparseGPT outperforms SparseGPT on BBQ for all models (1:4).",
        "Main Results",
        versus_sparsegpt(("bbq",), ("1of4",)),
    ),
    Claim(
        "crows_pairs",
        "achieves scores closer to the ideal value of 50% for six models",
        "For most models it brings CrowS-Pairs closer to 50 than SparseGPT (1:4).",
        "Main Results",
        versus_sparsegpt(("crows_pairs",), ("1of4",)),
        most=True,
    ),
    Claim(
        "categories",
        "results in higher UnQover accuracy than SparseGPT across all four evaluated categories",
        "It has the higher UnQover accuracy in each of the four categories (1:4).",
        "Category-Level UnQover Evaluation",
        versus_sparsegpt(BY_CATEGORY, ("1of4",)),
    ),
    Claim(
        "dto_best",
        "achieves the lowest DTO across all model families, outperforming both dense and pruned"
        " baselines",
        "It has the lowest DTO for all models, below the dense one and all baselines (1:4).",
        "Main Results",
        versus_sparsegpt(("dto",), ("1of4",), baselines=METHODS[:4]),
    ),
    Claim(
        "dto_regimes",
        "resulting in lower DTO across all sparsity patterns",
        "It has a lower DTO than SparseGPT at all sparsity patterns.",
        "Across Sparsity Regimes",
        versus_sparsegpt(("dto",), REGIMES),
    ),
    Claim(
        "bias_regimes",
        "Debias-SparseGPT consistently reduces pruning-induced bias compared to SparseGPT",
        "Across models and sparsity regimes it consistently reduces bias compared to SparseGPT "
        "(UnQover and BBQ).",
        "Abstract",
        versus_sparsegpt(("unqover", "bbq"), REGIMES),
    ),
    Claim(
        "dense_shift",
        "aims to preserve abstention performance under compression by minimizing the "
        "sparsification-induced shift",
        "It preserves abstention: UnQover stays closer to the dense model's than with SparseGPT.",
        "Measuring Biases",
        dense_shift,
    ),
    Claim(
        "preserves",
        "while preserving model perplexity and zero-shot accuracy",
        "It keeps SparseGPT's perplexity (worse by less than 5 %) and accuracy on HellaSwag and "
        "MMLU (lower by less than 1 point).",
        "Abstract",
        versus_sparsegpt(("perplexity", "hellaswag", "mmlu"), REGIMES, margins=True),
    ),
    Claim(
        "hit_hardest",
        "pruning most strongly affects performance on UnQover across all models",
        "Pruning changes UnQover more than the other accuracies (SparseGPT, 1:4).",
        "Main Results",
        hit_hardest,
    ),
    Claim(
        "uncertainty",
        "LLaMA's larger improvement after compression is attributable to greater predictive "
        "uncertainty in the dense baseline",
        "The model that is less certain on UnQover before pruning gains more.",
        "Predictive Uncertainty",
        uncertain_gain_more,
    ),
    Claim(
        "near_chance",
        "the UnQover score approaches the random baseline of 33%",
        "At 2:4 with StereoSet alone UnQover comes near guessing (33.3, by less than 5 points).",
        "Calibration data impact",
        near_chance,
    ),
    Claim(
        "perplexity_doubles",
        "perplexity nearly doubles",
        "At 2:4 with StereoSet alone perplexity nearly doubles (at least 1.5 times dense).",
        "Calibration data impact",
        perplexity_doubles,
    ),
    Claim(
        "texts_help",
        "augmenting the calibration data with 256 UltraChat examples improves the performance "
        "of models compressed with both methods",
        "At 2:4, adding 256 UltraChat texts improves MMLU, UnQover and DTO for both methods.",
        "Calibration data impact",
        versus_calibration(("mmlu", "unqover", "dto"), "ss-uc256", "ss", (BASE, OURS)),
    ),
    Claim(
        "texts_help_more",
        "the score improvement is larger for the model compressed with Debias-SparseGPT than "
        "for the model compressed with SparseGPT",
        "Debias-SparseGPT gains more from those texts than SparseGPT (MMLU, UnQover).",
        "Calibration Under 2:4 Sparsity",
        gains_more,
    ),
    Claim(
        "texts_fairness",
        "Debias-SparseGPT outperforms SparseGPT on all three fairness benchmarks",
        "With those texts at 2:4 it outperforms SparseGPT on all three bias benchmarks.",
        "Calibration data impact",
        versus_sparsegpt(FAIRNESS, ("2of4",), "ss-uc256"),
    ),
    Claim(
        "four_texts",
        "With four additional UltraChat examples, the model compressed with Debias-SparseGPT "
        "achieves better general and fairness performance",
        "Four texts already improve MMLU and UnQover at 2:4.",
        "UltraChat Ablation",
        versus_calibration(("mmlu", "unqover"), "ss-uc4", "ss", (OURS,)),
    ),
    Claim(
        "enough_texts",
        "Adding more UltraChat examples does not further improve the trade-off",
        "1,024 texts are no better than 256 (MMLU by 1 point, perplexity by 5 %, DTO by 0.01).",
        "UltraChat Ablation",
        versus_calibration(("mmlu", "perplexity", "dto"), "ss-uc256", "ss-uc1024", (OURS,), True),
    ),
    Claim(
        "calib_source",
        "full StereoSet calibration outperforms CrowS-Pairs across all reported metrics",
        "At 2:4, calibration with all of StereoSet is better than with CrowS-Pairs: perplexity, "
        "MMLU, UnQover (whole and by category) and DTO.",
        "StereoSet and CrowS-Pairs Calibration Ablation",
        versus_calibrations(SOURCE_NAMES, (("ss-uc256", "cp-uc256"), ("ss", "cp"))),
    ),
    Claim(
        "calib_religion",
        "religion-specific calibration yields the highest average UnQover accuracy and the "
        "lowest DTO",
        "Of StereoSet's bias types, religion as calibration has the highest UnQover and the lowest "
        "DTO at 2:4.",
        "StereoSet and CrowS-Pairs Calibration Ablation",
        versus_calibrations(
            ("unqover", "dto"),
            [("ss.religion-uc256", f"ss.{name}-uc256") for name in ("gender", "race")],
        ),
    ),
    Claim(
        "faster",
        "increasing throughput from 27.54 to 73.05 tokens/s",
        "2:4 models decode faster than the dense model.",
        "Efficiency Evaluation",
        faster_than_dense,
    ),
    Claim(
        "as_fast",
        "Debias-SparseGPT preserves SparseGPT efficiency",
        "Debias-SparseGPT keeps SparseGPT's throughput (within 5 %).",
        "Efficiency Evaluation",
        as_fast,
    ),
    Claim(
        "output_masks",
        "is concentrated primarily in self_attn.o_proj",
        "The largest changes of the 2:4 pattern are concentrated in self_attn.o_proj: more of the "
        "20 most different matrices than of all.",
        "Analysis of Learned Sparsity Patterns",
        outputs_change_most,
    ),
    Claim(
        "safety",
        "consistently yields lower unsafe-response rates across all evaluated model families "
        "and benchmarks",
        "It has a lower rate of unsafe responses than SparseGPT for all models "
        "(RealToxicityPrompts, HarmBench; 1:4).",
        "Safety Evaluation",
        versus_sparsegpt(UNSAFE, ("1of4",)),
    ),
)
