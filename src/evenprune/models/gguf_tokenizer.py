"""The tokenizer of a GGUF file as its metadata asks for it, where transformers drops a part.

transformers reads the words and merges, and leaves out which tokens come before and after a text,
whether a blank does, and what the file does not say: there llama.cpp's rules count.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from tokenizers import Tokenizer, decoders, normalizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ..io.errors import UserError, shown
from .loading import load_tokenizer

GGML = "tokenizer.ggml."
FOLDER = "take the Hugging Face folder of this model"
# Of `tokenizer.ggml.model`: BOS before a text, and a blank, where the file does not say.
SENTENCEPIECE, BYTES = "llama", "gpt2"
BOS = {SENTENCEPIECE: True, "gemma4": True}
# `tokenizer.ggml.pre` whose words are looked up whole before they are merged, and that put BOS.
LLAMA3 = {
    *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
    *("jina-v5-nano", "tekken"),
}
# A special token, its key, and its number in SentencePiece files that do not name it.
SPECIAL = (
    ("bos_token", "bos_token_id", 1),
    ("eos_token", "eos_token_id", 2),
    ("unk_token", "unknown_token_id", 0),
    ("pad_token", "padding_token_id", None),
)
# Tokens that end an answer beside EOS.
ENDS = ("eot_token_id", "eom_token_id")
TEXTS = ("The quick brown fox.", "in 2024, too\n")


def refuse(faults: Iterable[str]) -> None:
    """Raise UserError for the first of these faults of a GGUF file."""
    for fault in faults:
        raise UserError(f"{fault}; {FOLDER}")


class Asked(NamedTuple):
    """What the metadata of a file asks for; ``special`` are the numbers of tokens by name."""

    bos: bool
    eos: bool
    blank: bool
    special: dict[str, int]


def asked_of(keys: Mapping[str, Any]) -> Asked:
    """Return what a file's metadata asks of its tokenizer."""
    kind, count = str(keys.get(f"{GGML}model")), keys[f"{GGML}tokens"]
    usual = {key: number if kind == SENTENCEPIECE else None for _, key, number in SPECIAL}
    special = {name: keys.get(f"{GGML}{key}", usual[key]) for name, key, _ in SPECIAL}
    first = keys.get(f"{GGML}pre") in {*LLAMA3, "chameleon"} if kind == BYTES else BOS.get(kind)
    return Asked(
        bool(keys.get(f"{GGML}add_bos_token", first)),
        bool(keys.get(f"{GGML}add_eos_token", kind == "t5")),
        bool(keys.get(f"{GGML}add_space_prefix", kind == SENTENCEPIECE)),
        {name: number for name, number in special.items() if _is_token(number, count)},
    )


def asked_faults(path: Path, keys: Mapping[str, Any], asked: Asked) -> Iterator[str]:
    """Yield what makes no sense of what a file's metadata asks of its tokenizer."""
    for name, key, _ in SPECIAL:
        if name not in asked.special and f"{GGML}{key}" in keys:
            number, count = shown(keys[f"{GGML}{key}"]), keys[f"{GGML}tokens"]
            yield f"{path} has {number} for {GGML}{key}, but {count} tokens"
    for wanted, name in ((asked.bos, "bos"), (asked.eos, "eos")):
        if wanted and f"{name}_token" not in asked.special:
            yield f"{path} asks for {name.upper()}, but has no {GGML}{name}_token_id"
    if keys.get(f"{GGML}add_sep_token"):
        yield f"{path} asks for separators ({GGML}add_sep_token), which no causal model has"


def _is_token(number: Any, count: int) -> TypeGuard[int]:
    return isinstance(number, int) and 0 <= number < count


def carried(
    tokenizer: PreTrainedTokenizerBase, path: Path, keys: Mapping[str, Any], asked: Asked
) -> PreTrainedTokenizerBase:
    """Return transformers' ``tokenizer`` of a file with what it leaves out."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    # Tokens of a class of transformers' own that the file has not lie behind the embeddings.
    count = keys[f"{GGML}tokens"]
    state["added_tokens"] = [one for one in state["added_tokens"] if one["id"] < count]
    state["post_processor"] = None
    kind, pre = keys.get(f"{GGML}model"), keys.get(f"{GGML}pre")
    if asked.blank and kind != SENTENCEPIECE:
        if (state["pre_tokenizer"] or {}).get("type") != "ByteLevel":
            raise UserError(
                f"{path} asks for a blank before every text ({GGML}add_space_prefix), which is not "
                f"done with its pre-tokenizer {shown(pre)}; {FOLDER}"
            )
        state["pre_tokenizer"]["add_prefix_space"] = True
    if kind == BYTES and pre in LLAMA3:
        state["model"]["ignore_merges"] = True
    backend = Tokenizer.from_str(json.dumps(state))
    if kind == SENTENCEPIECE:
        _treat_blanks(backend, asked.blank)
    given: dict[str, Any] = {
        **{name: backend.id_to_token(number) for name, number in asked.special.items()},
        "add_bos_token": asked.bos or None,
        "add_eos_token": asked.eos or None,
        "chat_template": tokenizer.chat_template,
    }
    given = {name: value for name, value in given.items() if value is not None}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **given)


def _treat_blanks(backend: Any, first: bool) -> None:
    """Give a tokenizer SentencePiece's treatment of blanks; ``first``: one before every text."""
    prepend = [normalizers.Prepend("▁")] if first else []
    backend.normalizer = normalizers.Sequence([*prepend, normalizers.Replace(" ", "▁")])
    backend.pre_tokenizer = None
    strip = [decoders.Strip(" ", 1, 0)] if first else []
    words = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*words, *strip])


def carried_faults(
    tokenizer: PreTrainedTokenizerBase, folder: Path, path: Path, asked: Asked
) -> Iterator[str]:
    """Yield where the tokenizer of ``folder`` does not give what the file's metadata asks for.

    transformers makes some of them again from the words alone when it loads them.
    """
    found = load_tokenizer(folder)
    first = [asked.special["bos_token"]] if asked.bos else []
    last = [asked.special["eos_token"]] if asked.eos else []
    for text in TEXTS:
        inner = tokenizer(text, add_special_tokens=False)["input_ids"]
        if found(text)["input_ids"] != [*first, *inner, *last]:
            yield (
                f"the tokenizer made of {path} does not give the tokens that the file asks for "
                f"({'a' if asked.bos else 'no'} BOS, {'an' if asked.eos else 'no'} EOS, "
                f"{'a' if asked.blank else 'no'} blank before a text)"
            )
    for name, number in asked.special.items():
        if getattr(found, f"{name}_id") != number:
            yield f"the tokenizer made of {path} has another {name} than {number}"
    if found.chat_template != tokenizer.chat_template:
        yield f"the chat template of {path} does not come back as it is"


def ends(keys: Mapping[str, Any]) -> list[int]:
    """Return the tokens beside EOS that end an answer."""
    count = keys[f"{GGML}tokens"]
    return [n for name in ENDS if _is_token(n := keys.get(f"{GGML}{name}"), count)]
