"""Fixed prompts of one length for every model that shares a tokenizer."""

import functools
import random
from itertools import chain, cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

from ..data.readers.own import read_texts
from ..data.readers.rows import table_files
from ..data.readers.texts import read_ultrachat
from ..io.errors import UserError
from ..io.reading import iter_table
from ..models.bos import tokens_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def prompt_texts(place: Path) -> list[str]:
    """Return the texts of a file or folder: rows with ``text``, or UltraChat's dialogues."""
    _, first = next(iter_table(table_files(place)[0]), (0, {}))
    if "messages" in first:
        return [dialogue.text for dialogue in read_ultrachat(place)]
    return [row["text"] for row in read_texts(place)]


def prompt_length(context: int, wanted: int, new_tokens: int) -> int:
    """Return ``wanted`` prompt tokens, or as many as fit with ``new_tokens`` into ``context``.

    Raises UserError when not even one prompt token fits.
    """
    if context <= new_tokens:
        raise UserError(
            f"expected --new-tokens below the model's context of {context} tokens, "
            f"got {new_tokens}; ask for fewer new tokens"
        )
    return min(wanted, context - new_tokens)


def make_prompts(
    texts: list[str], tokenizer: "PreTrainedTokenizerBase", count: int, length: int, seed: int
) -> list[list[int]]:
    """Return ``count`` prompts of exactly ``length`` token ids.

    Prompt k starts with text k of a permutation drawn from ``seed`` and is filled up with
    the texts that follow it, so that short texts give full prompts too. Raises UserError
    when the texts give no tokens at all.
    """
    order = list(range(len(texts)))
    random.Random(seed).shuffle(order)

    @functools.cache
    def ids(index: int) -> list[int]:
        # Long dialogues are cut before they are tokenized: no token spans 64 characters here.
        return tokens_of(tokenizer, [texts[index][: 64 * length]], special=False)[0]

    start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    prompts = []
    for k in range(count):
        following = islice(cycle(order), k, k + max(length, len(order)))
        tokens = chain(start, chain.from_iterable(map(ids, following)))
        prompt = list(islice(tokens, length))
        if len(prompt) < length:
            raise UserError(
                f"expected texts that fill a prompt of {length} tokens, got {len(prompt)} tokens "
                f"from {len(texts)} texts; give more text or a smaller --prompt-tokens"
            )
        prompts.append(prompt)
    return prompts
