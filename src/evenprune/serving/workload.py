"""Fixed prompts of one length for every model that shares a tokenizer."""

import random
from pathlib import Path
from typing import TYPE_CHECKING

from ..io.checksums import source_folder
from ..io.errors import UserError
from ..io.files import read_jsonl
from ..io.reading import expected_form
from ..models.bos import tokens_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

REMEDY = "point --prompts at a texts.jsonl or at an UltraChat folder"


def prompt_files(path: Path | str) -> list[Path]:
    """Return the JSON-lines files behind ``--prompts``.

    That is a JSON-lines file, a folder of them, or the record of a resolved data set
    (``sources/data/<dataset>.json``, whose field ``folder`` names the folder).
    """
    path = source_folder(path)
    if not path.is_dir():
        return [path]
    files = sorted([*path.glob("*.jsonl"), *path.glob("*.jsonl.gz")])
    if not files:
        raise UserError(
            f"expected *.jsonl or *.jsonl.gz files with prompts in {path}, found none; {REMEDY}"
        )
    return files


def read_texts(files: list[Path]) -> list[str]:
    """Return the non-empty texts of rows with ``text`` or with UltraChat's ``messages``.

    Of a dialogue the turns are joined by line breaks. Raises UserError when a row has
    neither field or when no text is left.
    """
    texts = []
    for file in files:
        for number, row in enumerate(read_jsonl(file), 1):
            with expected_form("the field text or messages", f"row {number} of {file}", REMEDY):
                if "text" in row:
                    text = row["text"]
                else:
                    text = "\n".join(turn["content"] for turn in row["messages"])
                if text.strip():
                    texts.append(text)
    if not texts:
        raise UserError(
            f"expected prompt texts in {', '.join(map(str, files))}, found none; fetch them again"
        )
    return texts


def prompt_length(context: int | None, wanted: int, new_tokens: int) -> int:
    """Return ``wanted`` prompt tokens, or as many as fit with ``new_tokens`` into ``context``.

    Raises UserError when not even one prompt token fits.
    """
    if context is None:
        return wanted
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
    encoded: dict[int, list[int]] = {}

    def ids(position: int) -> list[int]:
        index = order[position % len(order)]
        if index not in encoded:
            # Long dialogues are cut before they are tokenized: no token spans 64 characters here.
            text = texts[index][: 64 * length]
            encoded[index] = tokens_of(tokenizer, [text], special=False)[0]
        return encoded[index]

    start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    prompts = []
    for k in range(count):
        prompt = list(start)
        for offset in range(max(length, len(order))):
            if len(prompt) >= length:
                break
            prompt.extend(ids(k + offset))
        if len(prompt) < length:
            raise UserError(
                f"expected texts that fill a prompt of {length} tokens, got {len(prompt)} tokens "
                f"from {len(texts)} texts; give more text or a smaller --prompt-tokens"
            )
        prompts.append(prompt[:length])
    return prompts
