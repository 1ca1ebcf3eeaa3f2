"""Sentence pairs and texts for calibration: tokenising, aligning.

The bias term of the paper's Hessian is ``ΔX = X0 - X1``: activations of the two sentences of
a pair, subtracted position by position. Which positions are subtracted when the sentences
have different token counts is the *alignment*:

``equal-length``
    the paper's text: pairs of unequal token counts are dropped and counted; all positions of
    the others are matched.
``pad``
    after the authors' code, which fills every sentence up to a fixed number of tokens: here the
    shorter sentence is filled up to the longer at the right with the padding token
    (end-of-sequence where there is none), and all positions are matched. Padding takes part in
    every sum, and tokens behind the first difference can be matched to other words.
``suffix``
    ours: positions of the common prefix and of the common suffix are matched, the latter
    counted from the right; the differing span between them is matched to nothing. Every pair
    is kept.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from ..io.errors import UserError, few
from ..models.bos import check_bos, tokens_of, with_bos
from ..models.token_trees import common_prefix

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Pair = Mapping[str, Any]  # a row as ``read_pairs`` returns it


@dataclass(frozen=True)
class TokenPair:
    """One pair as token ids, special tokens included.

    ``matches`` holds the pairs of positions (into ``ids0``, into ``ids1``) whose activations
    are subtracted, strictly increasing in both. ``counterfactuals`` are both sentences about other
    groups, ``target`` is the group of the pair itself, ``unrelated`` is a third sentence whose word
    makes no sense; only ``debias-lora`` uses them.
    """

    id: str
    category: str
    ids0: tuple[int, ...]
    ids1: tuple[int, ...]
    matches: tuple[tuple[int, int], ...]
    target: str = ""
    counterfactuals: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    unrelated: tuple[int, ...] = ()

    def sentences(self, all_of_them: bool) -> list[tuple[int, ...]]:
        """Return the two sentences of the pair, or all that there are."""
        others = [self.unrelated, *chain(*self.counterfactuals)] if all_of_them else []
        return [self.ids0, self.ids1, *others]


@dataclass(frozen=True)
class TokenizedPairs:
    """The pairs an alignment keeps, how many it drops, and both per category.

    ``counts`` maps each category, in sorted order, to ``{"total", "kept", "dropped"}``.
    """

    pairs: list[TokenPair]
    dropped: int
    counts: dict[str, dict[str, int]]


def align(
    ids0: Sequence[int], ids1: Sequence[int], alignment: str, pad_id: int | None = None
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]] | None:
    """Return both token sequences and their matched positions, or None for a dropped pair.

    Only ``pad`` changes the sequences and needs ``pad_id``. See the module's text for what each
    alignment matches.
    """
    first, second = tuple(ids0), tuple(ids1)
    if alignment == "equal-length" and len(first) != len(second):
        return None
    if alignment == "pad":
        filled: Any = zip_longest(first, second, fillvalue=pad_id)
        first, second = zip(*filled)
    if alignment == "suffix":
        prefix = common_prefix(first, second)
        suffix = common_prefix(first[prefix:][::-1], second[prefix:][::-1])
        matches = [(k, k) for k in range(prefix)]
        matches += [(len(first) - k, len(second) - k) for k in range(suffix, 0, -1)]
        return first, second, tuple(matches)
    return first, second, tuple((k, k) for k in range(len(first)))


def pair_notes(pairs: Sequence[Pair], tokenized: "TokenizedPairs", how: str) -> list[str]:
    """Return what a user should know of pairs: the dropped ones, those without a difference.

    ``how`` is how the alignment is named where it can be changed, such as ``--alignment``.
    """
    notes = []
    kept = {pair.id for pair in tokenized.pairs}
    if dropped := [pair["id"] for pair in pairs if pair["id"] not in kept]:
        notes.append(
            f"{len(dropped)} of {len(pairs)} pairs are dropped, their sentences have unequal "
            f"numbers of tokens: {few(dropped)}; `{how} suffix` keeps them (or `{how} pad`, as the "
            "authors' code), or reword them to equal length"
        )
    if same := [p["id"] for p in pairs if p["stereotype"] == p["anti_stereotype"]]:
        notes.append(
            f"{len(same)} of {len(pairs)} pairs are two identical sentences and say nothing of "
            f"bias: {few(same)}; correct or remove them"
        )
    texts = {(p["stereotype"], p["anti_stereotype"]): p["id"] for p in reversed(pairs)}
    first = set(texts.values())
    if again := [pair["id"] for pair in pairs if pair["id"] not in first]:
        notes.append(
            f"{len(again)} of {len(pairs)} pairs repeat another one and count again: {few(again)}"
        )
    return [f"note: {note}" for note in notes]


def tokenize_texts(
    texts: Sequence[str],
    tokenizer: "PreTrainedTokenizerBase",
    max_tokens: int | None = None,
    bos: str = "auto",
) -> list[tuple[int, ...]]:
    """Return the token ids of each text with the tokenizer's default special tokens.

    ``bos`` then decides about BOS, as in evaluation. Longer texts are cut to their first
    ``max_tokens`` tokens (special tokens count). Raises UserError as ``bos.tokens_of``.
    """
    if not texts:
        return []
    check_bos(tokenizer, bos)
    return [tuple(ids[:max_tokens]) for ids in tokens_of(tokenizer, texts, bos)]


def truncate_text(text: str, tokenizer: Any, max_tokens: int, bos: str = "auto") -> str:
    """Return the longest beginning of a text, at a token's end, of at most ``max_tokens`` tokens.

    Special tokens count, with ``bos`` as in ``tokenize_texts``. The result is tokenised again,
    since a cut text need not split into the tokens it was cut from. Raises UserError when nothing
    is left.
    """
    encoded = tokenizer(text, return_offsets_mapping=tokenizer.is_fast, verbose=False)
    ids = encoded["input_ids"]
    room = max_tokens + len(ids) - len(with_bos([ids], tokenizer, bos)[0])
    if len(ids) <= room:
        return text
    for kept in range(room, 0, -1):
        if tokenizer.is_fast:
            cut = text[: max(end for _, end in encoded["offset_mapping"][:kept])]
        else:
            cut = str(tokenizer.decode(ids[:kept], skip_special_tokens=True))
        if cut.strip() and len(tokenizer(cut, verbose=False)["input_ids"]) <= room:
            return cut
    raise UserError(f"{max_tokens} tokens hold nothing of the text {text[:40]!r}; allow more")


def counted(pairs: Sequence[Pair], kept: Sequence[TokenPair]) -> dict[str, dict[str, int]]:
    """Return ``{"total", "kept", "dropped"}`` of each category, in sorted order."""
    total, left = Counter(pair["category"] for pair in pairs), Counter(p.category for p in kept)
    return {
        name: {"total": count, "kept": left[name], "dropped": count - left[name]}
        for name, count in sorted(total.items())
    }


class Chosen(NamedTuple):
    """What alignment and control leave of one or more data sets.

    ``pairs`` are those of the wanted categories, of which ``aligned`` fit the alignment, and
    ``used`` those of them (pairs.jsonl) that the control leaves; ``kept`` are these as tokens.
    """

    pairs: list[dict[str, str]]
    aligned: int
    used: list[dict[str, str]]
    kept: list[TokenPair]

    def numbers(self) -> dict[str, Any]:
        """Return the counts as the manifest has them."""
        return {
            "total": len(self.pairs),
            "kept": len(self.used),
            "dropped": len(self.pairs) - len(self.kept),
            "without_partner": self.aligned - len(self.used),
            "categories": counted(self.pairs, self.kept),
        }


def tokenize_pairs(
    pairs: Sequence[Pair],
    tokenizer: "PreTrainedTokenizerBase",
    alignment: str,
    max_tokens: int | None = None,
    bos: str = "auto",
) -> TokenizedPairs:
    """Tokenise and align sentence pairs, in the order given.

    ``pairs`` are rows as ``read_pairs`` returns them; index 0 is the stereotype, 1 the
    anti-stereotype. Each sentence is cut to its first ``max_tokens`` tokens before it is aligned.
    Raises UserError when the alignment drops all of them, and for ``pad`` with a tokenizer that has
    neither a padding nor an end token.
    """
    ids = (tokenizer.pad_token_id, tokenizer.eos_token_id)
    pad_id = next((one for one in ids if one is not None), None)
    if alignment == "pad" and pad_id is None:
        raise UserError(
            "alignment 'pad' needs a padding or end token, this tokenizer has none; choose another"
        )
    encode = partial(tokenize_texts, tokenizer=tokenizer, max_tokens=max_tokens, bos=bos)
    sides = [encode([pair[side] for pair in pairs]) for side in ("stereotype", "anti_stereotype")]
    kept = []
    for pair, ids0, ids1 in zip(pairs, *sides, strict=True):
        if aligned := align(ids0, ids1, alignment, pad_id):
            others = tuple((one, two) for one, two in map(encode, pair.get("counterfactuals", ())))
            unrelated = encode([pair["unrelated"]])[0] if pair.get("unrelated") else ()
            more = pair.get("target", ""), others, unrelated
            kept.append(TokenPair(pair["id"], pair["category"], *aligned, *more))
    if not kept:
        raise UserError(
            f"the sentences of all {len(pairs)} pairs ({few(pair['id'] for pair in pairs)}) have "
            "unequal numbers of tokens; choose alignment 'suffix' (or 'pad'), or reword them"
        )
    return TokenizedPairs(kept, len(pairs) - len(kept), counted(pairs, kept))
