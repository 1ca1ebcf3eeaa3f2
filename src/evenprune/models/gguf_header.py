"""The header of a GGUF file, once it is known to be whole, and whether transformers keeps it.

transformers drops every key that it does not know, in silence. A key that says how the model
computes is compared here with the configuration that was made of the file; one that says nothing of
that is in ``HARMLESS``; any other is refused by its name.
"""

import contextlib
import math
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS
from transformers.integrations.gguf.reader import read_gguf_metadata

from ..io.errors import UserError, shown
from ..io.reading import reading
from .gguf_tokenizer import BYTES, FOLDER, GGML

# Of the file, the text, and what the shapes of its tensors say again.
HARMLESS = (
    r"(general|split|quantize|mradermacher)\..*|tokenizer\.(chat_template.*|huggingface\.json)",
    r"tokenizer\.ggml\.(model|pre|tokens|scores|token_type|merges|add_\w+|\w+_token_ids?)",
    r"ARCH\.(context_length|vocab_size|embedding_length|block_count|feed_forward_length)",
    r"ARCH\.(expert_feed_forward_length|expert_shared_feed_forward_length|tensor_data_layout)",
    r"ARCH\.(rope\.scaling\.finetuned|ssm\.\w+|shortconv\.l_cache|full_attention_interval)",
    r"ARCH\.(rope\.dimension_sections|nextn_predict_layers|embedding_length_per_layer_input)",
)
# Byte-level words that are split as GPT-2's; those of the second line digit by digit, which comes
# to the same, since no merge of theirs has a digit. transformers knows others by name. "default" is
# that of files from before there were names.
LIKE_GPT2 = {
    *("default", "gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "mellum", "granite-docling"),
    *("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"),
}
EPSILONS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon")
RELATIVE = 1e-5  # numbers are stored in float32
MISSING = object()


class Header(NamedTuple):
    """``keys`` have the length of a list of texts in its place."""

    keys: dict[str, Any]
    tensors: dict[str, gguf.ReaderTensor]
    reader: gguf.GGUFReader


class PlainReader(gguf.GGUFReader):
    """gguf's reader on a plain array: it takes a slice a word, of a memory map slowly."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.view(np.ndarray) if name == "data" else value)


@contextlib.contextmanager
def read_once(header: Header) -> Iterator[None]:
    """Let transformers take what was read, which it would read again for each of three parts."""
    before = gguf.GGUFReader
    gguf.GGUFReader = lambda *_args, **_kwargs: header.reader  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        gguf.GGUFReader = before  # type: ignore[misc]


def read_header(path: Path) -> Header:
    """Return the header of a GGUF file; UserError for anything else, and for a part of a model."""
    damaged = (ValueError, TypeError, LookupError, ArithmeticError, MemoryError, struct.error)
    with reading(path, "a GGUF file"), open(path, "rb"):
        try:
            # The other library would run on past the end, for as long as a wrong count says.
            keys, _ = read_gguf_metadata(str(path))
            if not isinstance(keys["general.architecture"], str):
                raise TypeError("its general.architecture is no text")
            reader = PlainReader(path)
            end = 0
            for one in sorted(reader.tensors, key=lambda one: one.data_offset):
                if one.data_offset < end:  # a small file could ask for any amount of memory
                    raise ValueError(f"its tensor {one.name} lies on the bytes of another one")
                end = one.data_offset + one.n_bytes
        except damaged as error:
            said = " ".join(str(error).split())
            raise UserError(
                f"expected a whole GGUF file at {path}, but {said}; fetch it again, or {FOLDER}"
            ) from None
    if (parts := keys.get("split.count", 1)) != 1:
        raise UserError(
            f"{path} is one of {parts} parts of a model, expected a whole one; join them with "
            "llama.cpp (llama-gguf-split --merge) and give the file that it makes"
        )
    return Header(keys, {one.name: one for one in reader.tensors}, reader)


def _used(config: Any, context: Any) -> dict[str, Any]:
    """Return what the model made of the file has, by the ends of the keys that ask for it.

    context: the file's number of positions.
    """

    def first(*names: str, default: Any = MISSING) -> Any:
        found = (getattr(config, name, None) for name in names)
        return next((one for one in found if one is not None), default)

    ropes = first("rope_parameters", default={})
    rope, of_windows = (ropes.get(kind, ropes) for kind in ("full_attention", "sliding_attention"))
    width, heads = first("hidden_size", default=0), first("num_attention_heads", default=1)
    head = first("head_dim", default=0) or width // max(heads, 1)
    full_head = first("global_head_dim", default=head)
    epsilon = first(*EPSILONS)
    factor = rope.get("factor", 1)
    turned = rope.get("partial_rotary_factor") or first("partial_rotary_factor", default=1) or 1
    scaling = rope.get("rope_type", "default")
    return {
        "attention.head_count": first("num_attention_heads", "n_head"),
        "attention.head_count_kv": first("num_key_value_heads", "num_attention_heads", "n_head"),
        "attention.layer_norm_rms_epsilon": epsilon,
        "attention.layer_norm_epsilon": epsilon,
        "attention.key_length": full_head,
        "attention.value_length": full_head,
        "attention.key_length_swa": head,
        "attention.value_length_swa": head,
        "attention.sliding_window": first("sliding_window", default=math.inf),
        "attention.sliding_window_pattern": [
            kind == "sliding_attention" for kind in first("layer_types", default=())
        ],
        "attention.shared_kv_layers": first("num_kv_shared_layers", default=0),
        "attention.causal": True,
        "attention.clamp_kqv": 0,
        "attention.scale": (first("query_pre_attn_scalar", default=head) or 1) ** -0.5,
        "attn_logit_softcapping": first("attn_logit_softcapping", default=0),
        "final_logit_softcapping": first("final_logit_softcapping", default=0),
        "logit_scale": first("logit_scale", default=1),
        "embedding_scale": first("embedding_multiplier", default=1),
        "residual_scale": first("residual_multiplier", default=1),
        "use_parallel_residual": first("use_parallel_residual", "parallel_attn", default=False),
        "expert_count": first("num_experts", "num_local_experts", default=0),
        "expert_used_count": first("num_experts_per_tok", default=0),
        "expert_weights_norm": first("norm_topk_prob", default=False),
        "rope.freq_base": rope.get("rope_theta", MISSING),
        "rope.freq_base_swa": of_windows.get("rope_theta"),
        "rope.dimension_count": int(full_head * turned),
        "rope.dimension_count_swa": head,
        "rope.scaling.type": {"default": "none"}.get(scaling, scaling),
        "rope.scaling.factor": factor,
        "rope.scaling.attn_factor": rope.get("attention_factor") or 1,
        "rope.scale_linear": factor,
        # The context itself says nothing new; another length is of a scaled rope.
        "rope.scaling.original_context_length": rope.get("original_max_position_embeddings")
        or context,
    }


def key_faults(path: Path, header: Header, config: Any) -> Iterator[str]:
    """Yield each key that is unknown, or that the model of ``config`` does not follow."""
    keys, name = header.keys, header.keys["general.architecture"]
    context = keys.get(f"{name}.context_length", 0)
    used = {f"{name}.{end}": has for end, has in _used(config.get_text_config(), context).items()}
    used[f"{GGML}remove_extra_whitespaces"] = False
    harmless = re.compile("|".join(HARMLESS).replace("ARCH", re.escape(name)))
    for key, value in keys.items():
        if harmless.fullmatch(key):
            continue
        if key not in used:
            yield (
                f"{path} has the key {shown(key)}, which is not known here, so that the model "
                "would perhaps be another one"
            )
        elif not _same(key, value, used[key], context):
            has = "nothing" if used[key] is MISSING else shown(used[key])
            yield (
                f"{path} has {shown(value)} for {key}, but the model that transformers makes of "
                f"it has {has}"
            )


def _same(key: str, value: Any, used: Any, context: Any) -> bool:
    """Return whether a value of the file is the one that is used."""
    if key.endswith(".sliding_window"):  # none where it is as long as the context
        return value in (0, used) or (used == math.inf and value >= context)
    if isinstance(used, list) and isinstance(value, int) and value > 1:
        return used == [(k + 1) % value > 0 for k in range(len(used))]
    if isinstance(value, list):  # LFM2's blocks without attention have 0
        return value == used or max(value, default=0) == used
    if isinstance(value, bool | int | float) and isinstance(used, bool | int | float):
        return math.isclose(value, used, rel_tol=RELATIVE)
    return value == used or (value == 0 and used is MISSING)


def token_faults(path: Path, header: Header) -> Iterator[str]:
    """Yield what is wrong with the tokens: none, or not known as such."""
    keys, count = header.keys, header.keys.get(f"{GGML}tokens")
    if not count:
        yield f"expected a tokenizer in {path}, found no tokens"
    for name in ("scores", "token_type"):
        given = keys.get(f"{GGML}{name}")
        if given is not None and len(given) != count:
            yield f"{path} has {len(given)} {GGML}{name} for {count} tokens"
    table = header.tensors.get("token_embd.weight")
    if table and count > table.shape[-1]:
        yield f"{path} has {count} tokens, but only {table.shape[-1]} embeddings"
    split = keys.get(f"{GGML}pre", "default")
    if keys.get(f"{GGML}model") == BYTES and split not in {*GGUF_PRE_TOKENIZER_SPLITS, *LIKE_GPT2}:
        yield f"{path} splits its words as {shown(split)} ({GGML}pre), not known here"
