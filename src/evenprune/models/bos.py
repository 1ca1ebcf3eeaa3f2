"""Tokens of texts, and BOS before them: the tokenizer's own (``auto``), ``always`` or ``never``."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..io.errors import UserError, shown

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

EMBEDDINGS = "embeddings"  # an attribute of a tokenizer: how many tokens its model knows
REMEDY = "use the tokenizer that belongs to the model"
WORSE = 1.1  # of two losses; the way that is asked for may be as much above the other
TEXT = (
    "The river rises in a small valley above the town and turns south after a few miles. In spring "
    "the water is high, and the fields on both sides are wet until May. People have lived here for "
    "a long time: the oldest houses stand near the bridge, where a market was held every Saturday. "
    "Today most of them work in the city, which is an hour away by train, but many come back in "
    "the evening to walk along the bank."
)


def puts_bos(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Return whether the tokenizer begins a text with BOS."""
    start = tokenizer.bos_token_id
    return start is not None and tokenizer("", verbose=False)["input_ids"][:1] == [start]


class Losses(NamedTuple):
    """Mean -ln p of the tokens of a fixed text but the first, in nats, with and without BOS."""

    with_bos: float
    without: float

    def objection(self, begins: bool) -> str | None:
        """Return in a sentence what is wrong with BOS or its absence, None for nothing.

        ``begins``: whether texts begin with BOS where ``bos`` is ``auto``.
        """
        own, other = self if begins else self[::-1]
        if not own > WORSE * other:  # nor for what is not a number
            return None
        here, there = ("with", "without") if begins else ("without", "with")
        better, same = ("never", "always") if begins else ("always", "never")
        return (
            f"note: this model's loss of a fixed text is {own:.2f} per token {here} BOS, as its "
            f"tokenizer does, and {other:.2f} {there} it; set bos: {better} (--bos {better}), or "
            f"bos: {same} to keep what it does without this note"
        )

    def record(self) -> dict[str, float]:
        """Return both figures as results hold them."""
        return {"with": round(self.with_bos, 4), "without": round(self.without, 4)}


def fixed_rows(tokenizer: "PreTrainedTokenizerBase", longest: int) -> list[list[int]]:
    """Return the tokens of the fixed text with and without BOS, at most ``longest`` each.

    Empty for a tokenizer without BOS, which has nothing to compare.
    """
    ids = tokens_of(tokenizer, [TEXT], special=False)[0][: longest - 1]
    start = tokenizer.bos_token_id
    return [] if start is None or len(ids) < 2 else [[start, *ids], ids]


def losses_of(with_bos: Sequence[float], without: Sequence[float]) -> Losses:
    """Return both means from -ln p of every token but the first of ``fixed_rows``."""
    return Losses(sum(with_bos[1:]) / len(with_bos[1:]), sum(without) / len(without))


def check_bos(tokenizer: "PreTrainedTokenizerBase", bos: str) -> None:
    """Raise UserError for ``always`` with a tokenizer that has no BOS token."""
    if bos == "always" and tokenizer.bos_token_id is None:
        raise UserError(
            "bos: always was asked for, but this tokenizer has no BOS token; use auto or never"
        )


def with_bos(
    rows: Iterable[list[int]], tokenizer: "PreTrainedTokenizerBase", bos: str
) -> list[list[int]]:
    """Return the tokens of texts, as the tokenizer gives them, with the BOS that is asked for."""
    start = tokenizer.bos_token_id
    if bos == "auto" or start is None:
        return list(rows)
    bare = [ids[1:] if ids[:1] == [start] else list(ids) for ids in rows]
    return [[start, *ids] for ids in bare] if bos == "always" else bare


def tokens_of(
    tokenizer: "PreTrainedTokenizerBase",
    texts: Sequence[str],
    bos: str = "auto",
    special: bool = True,
) -> list[list[int]]:
    """Return the tokens of texts, with the tokenizer's special tokens unless ``special`` is False.

    Raises UserError for a text that the tokenizer does not take or leaves nothing of, for a token
    without an embedding (``loading.load_tokenizer`` says how many there are), and for a text that
    would begin with two BOS, one of its own and one from the tokenizer.
    """
    whose = f"the tokenizer in {tokenizer.name_or_path}"
    try:
        rows = tokenizer(list(texts), add_special_tokens=special, verbose=False)["input_ids"]
    except Exception as error:  # tokenizers' own: an unknown word, and no token for such
        raise UserError(f"{whose} does not take a text ({error}); {REMEDY}") from error
    most, start = getattr(tokenizer, EMBEDDINGS, math.inf), tokenizer.bos_token_id
    least = tokenizer.num_special_tokens_to_add() if special else 0
    for text, ids in zip(texts, rows):
        if text.strip() and len(ids) <= least:
            raise UserError(f"{whose} leaves no token of the text {shown(text)}; {REMEDY}")
        largest = max([*ids, start or 0])
        if largest >= most:
            raise UserError(
                f"{whose} gives token {largest} for BOS or {shown(text)}, but the model has only "
                f"{most}; {REMEDY}"
            )
        if start is not None and ids[:2] == [start] * 2:
            raise UserError(
                f"{whose} begins {shown(text)} with two {tokenizer.bos_token!r} tokens, expected "
                "at most one; remove the written one from the text, or the second one from the "
                "tokenizer's post-processor"
            )
    return with_bos(rows, tokenizer, bos)
