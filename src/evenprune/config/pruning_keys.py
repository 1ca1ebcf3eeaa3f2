"""The section ``pruning``: the options of all methods, their bounds, the flags of ``prune``."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from .facts import BIAS_SCALINGS, METHODS, SOLVERS, regime_facts
from .pair_sources import ALIGNMENTS
from .section import Section

# Far above what float32 (24 bits) tells apart beside the plain term, far below its overflow: the
# Hessian is summed in float32.
MOST = 1e12


class Pruning(Section):
    """Options of the pruning engine, the paper's values by default."""

    block_size: int = Field(128, ge=1)
    """columns per block of the column loop, a multiple of 4 for `1of4` and `2of4`"""
    damping: float = Field(0.01, gt=0)
    """share of the mean diagonal of H that is added to its diagonal"""
    alignment: Literal[ALIGNMENTS] = ALIGNMENTS[0]  # type: ignore[valid-type]
    """pairs of unequal length: drop, `pad`, or match also what follows the difference (`suffix`)"""
    compute_dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """of forward passes; `auto`: the checkpoint's, or float32 where the processor is slow in it"""
    bias_weight: float = Field(1.0, ge=0, le=MOST)
    """weight b of the bias term; 0 gives sparsegpt"""
    bias_scaling: Literal[BIAS_SCALINGS] = BIAS_SCALINGS[0]  # type: ignore[valid-type]
    """`equation` (the paper's text), or the authors' code: `released-2025` (the k-th pair weighs k
    times as much), `released-2026` (all weigh half; needs `alignment: pad`)"""
    refit_steps: int = Field(0, ge=0, le=1000)
    """steps of conjugate gradients on the kept weights, any method; 10 to 20 do"""
    solver: Literal[SOLVERS] = SOLVERS[0]  # type: ignore[valid-type]
    """`debias-lora`: how to prune, before the adapters"""
    lora_loss: Literal["association", "language", "none"] = "association"
    """`debias-lora`: what is trained; controls: `language` (likelihood), `none` (mending alone)"""
    lora_budget: float = Field(0.04, gt=0, le=10)
    """`debias-lora`: how much further from the base model than pruning at most, on held-out
    texts, KL divergence in nats a token"""
    lora_keep: float = Field(0.1, ge=0, le=MOST)
    """`debias-lora`: weight of keeping meaningful words above the unrelated one; 0: without"""
    lora_blocks: float = Field(0.6, gt=0, le=1)
    """`debias-lora`: share of the blocks to change, the last ones"""
    lora_steps: int = Field(30, ge=1)
    """`debias-lora`: training steps of 8 contexts"""
    lora_rate: float = Field(5e-3, gt=0, le=1)
    """`debias-lora`: learning rate of AdamW at its highest"""
    lora_scale: float = Field(1.0, ge=-10, le=10)
    """`debias-lora`: factor of the trained change; negative raises bias (a control)"""


def pruning_faults(
    method: str, regime: str, options: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield (key, what is wrong) of a method's options, for configuration and command alike.

    A block must not cut a regime's groups; the code of 2026 pads, and the adapters cannot.
    """
    facts, size, alignment = regime_facts(regime), options["block_size"], options["alignment"]
    if facts.structured and size % facts.of:
        yield "block_size", f"got {size}, expected a multiple of {facts.of} for {regime}"
    if method == "debias-lora" and alignment == "pad":
        choice = "choose 'suffix', which keeps every pair, or 'equal-length'"
        yield "alignment", f"got 'pad', but debias-lora compares whole sentences; {choice}"
    theirs = "bias_scaling" in METHODS[method].options
    if theirs and options["bias_scaling"] == "released-2026" and alignment != "pad":
        yield "alignment", f"got {alignment!r}, expected 'pad' with bias_scaling 'released-2026'"
