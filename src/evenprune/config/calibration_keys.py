"""The section ``calibrations``; flags of ``build-calibration`` too."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from .section import Bos, Named, Section, each_once, listed


class Tokens(Section):
    """How calibration text becomes tokens; a configuration says it of the model."""

    bos: Bos = "auto"
    """BOS token before a text: `auto` (as the tokenizer does), `always` (exactly one) or `never`,
    as in evaluation"""


class Calibration(Section):
    """Sentence pairs and texts whose activations make the Hessian."""

    pairs: Annotated[
        list[Named],
        BeforeValidator(listed, json_schema_input_type=str | list[str]),
        AfterValidator(each_once),
    ] = Field(min_length=1)
    """data set of the pairs (`stereoset`, `crows_pairs`, `question_pairs`), a file of your own
    (`docs/your-own.md`), or a list of several, as in `[stereoset, my/pairs.csv]`"""
    categories: list[str] = Field([])
    """bias types to keep, of each data set; `[]`: all"""
    texts: Named | None = None
    """data set of unpaired texts: `ultrachat`, `ultrachat_gen` (the part that the authors' release
    takes) or a file of your own; null: none"""
    n_texts: int = Field(0, ge=0)
    """number of texts, given exactly where `texts` is (of your own file 0: all); a prefix of one
    seeded shuffle, so that 4 ⊂ 16 ⊂ 64 …"""
    max_tokens: int = Field(100, ge=1)
    """longest text in tokens (the authors' script: 100)"""
    pair_tokens: int | None = Field(None, ge=1)
    """longest sentence of a pair in tokens, cut before the pair is aligned (the authors' release of
    2026: 100, or 64 with texts); null: as long as it is"""
    alignment: Literal["equal-length", "pad", "suffix"] | None = None
    """in place of `pruning.alignment` for this calibration"""
    control: Literal["none", "shuffled-pairs", "random-delta"] = "none"
    """negative control, partners of equal token count and of the same data set: `shuffled-pairs`
    (the anti-stereotype of another pair), `random-delta` (another stereotype)"""
    counterfactuals: int = Field(0, ge=0, le=100)
    """`debias-lora`: how many other groups of its bias type each StereoSet pair is written about
    too, the word for the group replaced; no other method reads them"""
