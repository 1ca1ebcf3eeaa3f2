"""The section ``calibrations``; flags of ``build-calibration`` too."""

from typing import Literal

from pydantic import Field

from .pair_sources import ALIGNMENTS
from .section import Bos, Named, OneOrMore, Section


class Tokens(Section):
    """How calibration text becomes tokens; a configuration says it of the model."""

    bos: Bos = "auto"
    """BOS before a text: `auto` (the tokenizer's), `always` or `never`, as in evaluation"""


class Calibration(Section):
    """Sentence pairs and texts whose activations make the Hessian."""

    pairs: OneOrMore[Named]
    """data set of the pairs, a file of your own, or a list, as in `[stereoset, my/pairs.csv]`"""
    categories: list[str] = Field([])
    """bias types to keep, of each data set; `[]`: all"""
    texts: Named | None = None
    """data set of texts (`ultrachat`, `ultrachat_gen`) or a file of your own; null: none"""
    n_texts: int = Field(0, ge=0)
    """number of texts, a prefix of one seeded shuffle; 0: of your own file all"""
    max_tokens: int = Field(100, ge=1)
    """longest text in tokens (the authors' script: 100)"""
    pair_tokens: int | None = Field(None, ge=1)
    """longest sentence of a pair in tokens (the authors' of 2026: 100, 64 with texts); null: any"""
    alignment: Literal[ALIGNMENTS] | None = None  # type: ignore[valid-type]
    """in place of `pruning.alignment` for this calibration"""
    control: Literal["none", "shuffled-pairs", "random-delta"] = "none"
    """negative control, partners of equal token count: another pair's anti-stereotype
    (`shuffled-pairs`) or stereotype (`random-delta`)"""
    counterfactuals: int = Field(0, ge=0, le=100)
    """`debias-lora`: other groups that each StereoSet pair is written about too"""
