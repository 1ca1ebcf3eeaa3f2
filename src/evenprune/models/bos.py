"""BOS before a text: as the tokenizer does (``auto``), ``always`` exactly one, or ``never`` one."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..io.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

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
    ids = tokenizer(TEXT, add_special_tokens=False, verbose=False)["input_ids"][: longest - 1]
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
