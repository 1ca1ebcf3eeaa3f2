"""A small random model of every causal language model type that transformers knows.

No type has code of its own here: the config class's defaults are shrunk by the names of their
attributes. A type that cannot be made small that way is reported with the reason.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from pruning_models import make_large
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

TYPES = sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
VOCABULARY = 96

# Attribute of a config: its small value. Widths are multiples of eight heads of four.
WIDTHS = dict.fromkeys(
    ["hidden_size", "d_model", "n_embd", "emb_dim", "word_embed_proj_dim", "embed_dim",
     "embedding_size", "cross_attention_hidden_size"], 32,
) | dict.fromkeys(
    ["intermediate_size", "ffn_dim", "n_inner", "dim_ff", "encoder_ffn_dim", "decoder_ffn_dim",
     "d_inner", "dff", "ffn_hidden_size", "feed_forward_size", "shared_expert_intermediate_size",
     "moe_intermediate_size", "intermediate_size_mlp", "expert_ffn_hidden_size",
     "shared_intermediate_size", "moe_shared_expert_intermediate_size", "dense_intermediate_size",
     "attention_hidden_size", "lru_width"], 64,
)  # fmt: skip
COUNTS = dict.fromkeys(
    ["num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
     "decoder_attention_heads", "num_encoder_attention_heads", "num_decoder_attention_heads"], 4,
) | dict.fromkeys(
    ["num_key_value_heads", "num_kv_heads", "mamba_n_heads", "swa_num_key_value_heads"], 2,
) | dict.fromkeys(
    ["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"], 4,
) | dict.fromkeys(
    ["num_experts_per_tok", "moe_top_k", "moe_k", "num_experts_per_token", "topk_group",
     "top_k_experts", "moe_topk"], 2,
) | {"n_group": 2}  # fmt: skip
SIZES = {
    "head_dim": 8, "d_head": 8, "dim_head": 8, "attention_head_dim": 8, "v_head_dim": 8,
    "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "qk_head_dim": 16, "q_lora_rank": 16,
    "kv_lora_rank": 16, "o_lora_rank": 16, "linear_key_head_dim": 4, "linear_value_head_dim": 4,
    "linear_num_value_heads": 16, "linear_num_key_heads": 8, "linear_conv_kernel_dim": 2,
    "conv_kernel": 2, "mamba_d_conv": 2, "swa_head_dim": 8, "index_head_dim": 8,
    "index_n_heads": 4, "index_topk": 64, "kv_channels": 8, "rotary_dim": 8, "mamba_d_head": 32,
    "mamba_headdim": 16, "mamba_head_dim": 16, "mamba_num_heads": 4, "n_mamba_heads": 4,
    "state_size": 4, "ssm_state_size": 4, "mamba_d_state": 4, "chunk_size": 8,
    "mamba_chunk_size": 8, "time_step_rank": 16, "mamba_dt_rank": 16, "n_groups": 1,
    "mamba_n_groups": 1, "mamba_ngroups": 1, "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": VOCABULARY, "max_position_embeddings": 64, "n_positions": 64,
    "n_ctx": 64, "max_seq_len": 64, "max_source_positions": 64, "max_target_positions": 64,
    "context_length": 64, "image_size": 32, "patch_size": 16, "num_mel_bins": 8,
    "attention_window_size": 64, "sliding_window": 64, "laurel_rank": 8,
    "decoder_vocab_size": VOCABULARY, "vocab_size": VOCABULARY, "pad_token_id": 2,
    "bos_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "num_codebooks": 2,
    "router_hidden_size": 16, "pronunciation_vocab_size": 16, "shape_vocab_size": 16,
    "block_size": 8,
}  # fmt: skip
DEPTHS = (
    "num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers",
    "num_encoder_layers", "num_decoder_layers", "num_blocks", "depth",
)  # fmt: skip
PER_LAYER = ("layer_types", "mlp_layer_types", "layers_block_type", "no_rope_layers")
# What no rule gives: sizes that the config class checks against each other.
ARGUMENTS: dict[str, Callable[[int], dict]] = {
    "gpt_neo": lambda layers: {"attention_types": [[["global", "local"], layers // 2]]},
    "mamba2": lambda layers: {"num_heads": 4, "head_dim": 16},
    "reformer": lambda layers: {
        "is_decoder": True,
        "axial_pos_embds": False,
        "attn_layers": ["local", "lsh"] * (layers // 2),
    },
    "zaya": lambda layers: {"num_experts_per_tok": 1},
    "falcon_h1": lambda layers: {"mamba_d_ssm": 64},
    "dots1": lambda layers: {"n_shared_experts": 1},
    "kimi_linear": lambda layers: {"linear_head_dim": 4, "linear_num_heads": 8},
    "lfm2_moe": lambda layers: {"layer_types": ["conv", "full_attention"] * (layers // 2)},
    "bamba": lambda layers: {"attn_layer_indices": [1]},
    "zamba2": lambda layers: {"layers_block_type": ["mamba", "hybrid"] * (layers // 2)},
}


class NotSmall(Exception):
    """A type that the shrinking by attribute names does not make small."""


def shrink(config: PreTrainedConfig, layers: int) -> dict:
    """Return the small values of a config's attributes, those of its sub-configs within."""
    small: dict = {}
    values = {**WIDTHS, **COUNTS, **SIZES, **dict.fromkeys(DEPTHS, layers)}
    for alias, name in config.attribute_map.items():
        values.setdefault(name, values.get(alias))
    for name, value in list(config.__dict__.items()):
        if isinstance(getattr(type(config), name, None), property):
            continue
        if values.get(name) is not None and isinstance(value, int | None):
            small[name] = values[name]
        elif name in PER_LAYER and isinstance(value, list):
            small[name] = [*value[: layers - 1], value[-1]]
    heads = ("num_attention_heads", "num_key_value_heads")
    if len({config.__dict__.get(name) for name in heads}) == 1 and heads[1] in small:
        small[heads[1]] = small[heads[0]]  # some need as many of both
    for name in config.sub_configs:
        part = getattr(config, name, None)
        if isinstance(part, PreTrainedConfig):
            depth = layers if "text" in name or "decoder" in name else layers - 1
            small[name] = type(part)(**shrink(part, depth))
    return small


def small_config(kind: str, layers: int) -> PreTrainedConfig:
    """Return a small config of a model type; NotSmall where its own checks do not allow it."""
    default = CONFIG_MAPPING[kind]()
    return type(default)(**shrink(default, layers) | ARGUMENTS.get(kind, lambda _: {})(layers))


def save_random(folder: Path, kind: str, layers: int, dtype=torch.float32) -> Path:
    """Write a random model of a type, with weights so large that every part matters."""
    torch.manual_seed(0)
    try:
        config = small_config(kind, layers)
        with torch.device("meta"):
            count = AutoModelForCausalLM.from_config(config).num_parameters()
        # With more parameters the shrinking has missed something.
        model = AutoModelForCausalLM.from_config(config) if count <= 5_000_000 else None
    except Exception as error:
        raise NotSmall(f"{type(error).__name__}: {str(error).strip()[:140]}") from error
    if model is None:
        raise NotSmall(f"{count} parameters")
    make_large(model)
    with torch.no_grad():
        stored = model.state_dict().keys()
        for name, buffer in model.named_buffers():
            if name in stored and buffer.is_floating_point():
                buffer.mul_(1 + 0.3 * torch.rand_like(buffer))
    model.to(dtype).save_pretrained(folder)
    return folder
