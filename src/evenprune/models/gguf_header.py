"""The header of a GGUF file, once it is known to be whole, and whether transformers keeps it.

transformers drops every key that it does not know, in silence. A key that says how the model
computes is compared here with the configuration that was made of the file; one that says nothing of
that is in ``HARMLESS``; any other is refused by its name.
"""

import contextlib
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..io.errors import UserError, shown
from ..io.reading import reading
from .gguf_tokenizer import BYTES, FOLDER, GGML

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

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
    tensors: "dict[str, ReaderTensor]"
    reader: "GGUFReader"


def _reader(path: Path) -> "GGUFReader":
    """Return gguf's reader on a plain array: it takes a slice a word, of a memory map slowly."""
    import gguf
    import numpy as np

    class Plain(gguf.GGUFReader):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value.view(np.ndarray) if name == "data" else value)

    return Plain(path)


@contextlib.contextmanager
def read_once(header: Header) -> Iterator[None]:
    """Let transformers take what was read, which it would read again for each of three parts."""
    import gguf

    before = gguf.GGUFReader
    gguf.GGUFReader = lambda *_args, **_kwargs: header.reader  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        gguf.GGUFReader = before  # type: ignore[misc]


def read_header(path: Path) -> Header:
    """Return the header of a GGUF file; UserError for anything else."""
    from transformers.integrations.gguf.reader import read_gguf_metadata

    damaged = (ValueError, TypeError, LookupError, ArithmeticError, MemoryError, struct.error)
    with reading(path, "a GGUF file"), open(path, "rb"):
        try:
            # The other library would run on past the end, for as long as a wrong count says.
            keys, _ = read_gguf_metadata(str(path))
            reader = _reader(path)
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
    return Header(keys, {one.name: one for one in reader.tensors}, reader)


def _first(*names: str, default: Any = MISSING) -> Callable[[Any], Any]:
    """Return what takes the first of some attributes that a configuration has."""

    def take(config: Any) -> Any:
        found = (getattr(config, name) for name in names if getattr(config, name, None) is not None)
        return next(found, default)

    return take


def _rope(config: Any, kind: str = "full_attention") -> Mapping[str, Any]:
    given = getattr(config, "rope_parameters", None) or {}
    return given.get(kind, given)


def _head(config: Any) -> Any:
    width, heads = getattr(config, "hidden_size", 0), getattr(config, "num_attention_heads", 1)
    return getattr(config, "head_dim", None) or width // max(heads, 1)


def _rotary(config: Any) -> Any:
    part = _rope(config).get("partial_rotary_factor")
    part = part or getattr(config, "partial_rotary_factor", None) or 1
    return int(getattr(config, "global_head_dim", _head(config)) * part)


def _layers(config: Any) -> Any:
    kinds = getattr(config, "layer_types", None)
    return [kind == "sliding_attention" for kind in kinds] if kinds else MISSING


# End of a key -> what the model made of the file has there.
USED: Mapping[str, Callable[[Any], Any]] = {
    "attention.head_count": _first("num_attention_heads", "n_head"),
    "attention.head_count_kv": _first("num_key_value_heads", "num_attention_heads", "n_head"),
    "attention.layer_norm_rms_epsilon": _first(*EPSILONS),
    "attention.layer_norm_epsilon": _first(*EPSILONS),
    "attention.key_length": lambda config: getattr(config, "global_head_dim", _head(config)),
    "attention.value_length": lambda config: getattr(config, "global_head_dim", _head(config)),
    "attention.key_length_swa": _head,
    "attention.value_length_swa": _head,
    "attention.sliding_window": _first("sliding_window", default=math.inf),
    "attention.sliding_window_pattern": _layers,
    "attention.shared_kv_layers": _first("num_kv_shared_layers", default=0),
    "attention.causal": lambda config: True,
    "attention.clamp_kqv": lambda config: 0,
    "attention.scale": lambda config: getattr(config, "query_pre_attn_scalar", _head(config)),
    "attn_logit_softcapping": _first("attn_logit_softcapping", default=0),
    "final_logit_softcapping": _first("final_logit_softcapping", default=0),
    "logit_scale": _first("logit_scale", default=1),
    "embedding_scale": _first("embedding_multiplier", default=1),
    "residual_scale": _first("residual_multiplier", default=1),
    "use_parallel_residual": _first("use_parallel_residual", "parallel_attn", default=False),
    "expert_count": _first("num_experts", "num_local_experts", default=0),
    "expert_used_count": _first("num_experts_per_tok", default=0),
    "expert_weights_norm": _first("norm_topk_prob", default=False),
    "rope.freq_base": lambda config: _rope(config).get("rope_theta", MISSING),
    "rope.freq_base_swa": lambda config: _rope(config, "sliding_attention").get("rope_theta"),
    "rope.dimension_count": _rotary,
    "rope.dimension_count_swa": _head,
    "rope.scaling.type": lambda config: _rope(config).get("rope_type", "default"),
    "rope.scaling.factor": lambda config: _rope(config).get("factor", 1),
    "rope.scaling.attn_factor": lambda config: _rope(config).get("attention_factor") or 1,
    "rope.scale_linear": lambda config: _rope(config).get("factor", 1),
}


def check_keys(path: Path, header: Header, config: Any) -> None:
    """Raise UserError for an unknown key, and one that the model of ``config`` does not follow."""
    text, keys = config.get_text_config(), header.keys
    architecture = re.escape(keys["general.architecture"])
    harmless = re.compile("|".join(HARMLESS).replace("ARCH", architecture))
    own = re.compile(rf"{architecture}\.(.*)")
    for key, value in keys.items():
        if harmless.fullmatch(key):
            continue
        found = own.fullmatch(key)
        end = found[1] if found else ""
        if end == "rope.scaling.original_context_length":
            # The context itself says nothing new; another length is of a scaled rope.
            known = _rope(text).get("original_max_position_embeddings")
            used = known or keys.get(f"{keys['general.architecture']}.context_length")
        elif end in USED:
            used = USED[end](text)
        elif key == f"{GGML}remove_extra_whitespaces":
            used = False
        else:
            raise UserError(
                f"{path} has the key {shown(key)}, which is not known here, so that the model "
                f"would perhaps be another one; {FOLDER}"
            )
        if not _same(end, value, used, keys):
            has = "nothing" if used is MISSING else "all" if used == math.inf else shown(used)
            raise UserError(
                f"{path} has {shown(value)} for {key}, but the model that transformers makes of "
                f"it has {has}; {FOLDER}"
            )


def _same(end: str, value: Any, used: Any, keys: Mapping[str, Any]) -> bool:
    """Return whether a value of the file is the one that is used."""
    if end == "rope.scaling.type":
        return {"none": "default"}.get(value, value) == used
    if end == "attention.sliding_window":  # none where it is as long as the context
        context = keys.get(f"{keys['general.architecture']}.context_length", 0)
        return value in (0, used) or (used == math.inf and value >= context)
    if end == "attention.sliding_window_pattern" and isinstance(value, int) and value > 1:
        layers = used if isinstance(used, list) else []
        return layers == [(k + 1) % value > 0 for k in range(len(layers))]
    if end == "attention.scale" and isinstance(used, int | float):
        used = used**-0.5
    if isinstance(value, list):  # LFM2's blocks without attention have 0
        return value == used or max(value) == used
    if isinstance(value, bool | int | float) and isinstance(used, bool | int | float):
        return math.isclose(value, used, rel_tol=RELATIVE)
    return value == used or (value == 0 and used is MISSING)


def check_tokens(path: Path, header: Header) -> None:
    """Raise UserError for lists of tokens that do not belong together, and for unknown splits."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    keys, count = header.keys, header.keys[f"{GGML}tokens"]
    for name in ("scores", "token_type"):
        given = keys.get(f"{GGML}{name}")
        if given is not None and len(given) != count:
            raise UserError(f"{path} has {len(given)} {GGML}{name} for {count} tokens; {FOLDER}")
    table = header.tensors.get("token_embd.weight")
    if table and count > table.shape[-1]:
        raise UserError(
            f"{path} has {count} tokens, but only {table.shape[-1]} embeddings; {FOLDER}"
        )
    split = keys.get(f"{GGML}pre", "default")
    if keys.get(f"{GGML}model") == BYTES and split not in {*GGUF_PRE_TOKENIZER_SPLITS, *LIKE_GPT2}:
        raise UserError(
            f"{path} splits its words as {shown(split)} ({GGML}pre), which is not known here; "
            f"{FOLDER}"
        )
