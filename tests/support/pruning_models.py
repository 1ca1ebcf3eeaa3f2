"""Small random models of each architecture, with the quirks of the real ones, and random text."""

import itertools
import json
import random
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

WORDS = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ01234")
SPECIAL = ["<s>", "</s>", "<pad>", "<unk>", "Ġ", "▁"]
VOCABULARY = 64
COMMON = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
SMALL = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64, **COMMON,
}  # fmt: skip
ROPE3 = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
}  # fmt: skip


GROUPED = SMALL | {"num_key_value_heads": 2}
PARTIAL = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}


@dataclass(frozen=True)
class Architecture:
    """A config class and its arguments; ``linears`` of one block; ``groups`` that share input."""

    config: str
    arguments: dict = field(default_factory=dict)
    linears: int = 7
    groups: int = 4
    tree: bool = True


GEMMA = GROUPED | {"head_dim": 16, "sliding_window": 4096}
CAPS = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 5.0, "query_pre_attn_scalar": 16}
GPT2 = {"n_embd": 32, "n_inner": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}
ARCHITECTURES = {
    # LLaMA-3.1: grouped-query attention, scaled rotary embedding
    "llama": Architecture("LlamaConfig", GROUPED | {"rope_parameters": ROPE3}),
    # Vicuna (Llama-2) and DeepSeek-LLM: no grouped queries, untied head
    "llama2": Architecture("LlamaConfig", SMALL | {"tie_word_embeddings": False}),
    # Qwen2.5: biases in q, k and v, tied head
    "qwen2": Architecture("Qwen2Config", GROUPED | {"tie_word_embeddings": True}),
    # Qwen3: norms of q and k, a head dimension of its own
    "qwen3": Architecture("Qwen3Config", GROUPED | {"head_dim": 16}),
    "mistral": Architecture("MistralConfig", GROUPED | {"sliding_window": None}),
    # Mistral with a window shorter than the sentences: no shared-prefix packing
    "mistral-window": Architecture("MistralConfig", GROUPED | {"sliding_window": 4}, tree=False),
    # Phi-4-mini: fused q/k/v and gate/up, partial rotary embedding, tied head
    "phi3": Architecture(
        "Phi3Config", GROUPED | {"tie_word_embeddings": True, "rope_parameters": PARTIAL}, linears=4
    ),
    # Gemma-2: soft caps, windows in every other block, four norms, scaled embeddings, tied head
    "gemma2": Architecture("Gemma2Config", GEMMA | CAPS),
    "gemma2-window": Architecture("Gemma2Config", GEMMA | {"sliding_window": 4}, tree=False),
    # Aya: attention and MLP in parallel behind one norm, norms of q and k, tied head
    "cohere": Architecture("CohereConfig", GROUPED | {"use_qk_norm": True}, groups=3),
    "gpt2": Architecture("GPT2Config", COMMON | GPT2, linears=4),
    "gpt_neox": Architecture("GPTNeoXConfig", SMALL | {"use_parallel_residual": True}, linears=4),
    "opt": Architecture("OPTConfig", SMALL | {"ffn_dim": 64, "word_embed_proj_dim": 16}, linears=6),
}

# Experts in 3-D parameters: on disk one by one, with gate and up apart (mixtral, qwen2_moe), or
# all in one tensor, transposed (gpt_oss).
FOUR = GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2}
EIGHT = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
EXPERTS = {
    "mixtral": Architecture("MixtralConfig", FOUR),
    "qwen2_moe": Architecture(
        "Qwen2MoeConfig", GROUPED | EIGHT | {"shared_expert_intermediate_size": 64}
    ),
    "gpt_oss": Architecture(
        "GptOssConfig",
        FOUR | {"head_dim": 8, "layer_types": ["full_attention"] * 2, "rope_parameters": PLAIN},
    ),
}


def save_tokenizer(folder: Path) -> None:
    """Write a tokenizer with a token for each letter and each space between words.

    A byte-level BPE without merges, since some model types put their own class in its place.
    """
    vocabulary = {word: k for k, word in enumerate(SPECIAL + WORDS)}
    assert len(vocabulary) <= VOCABULARY
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)


@torch.no_grad()
def make_large(model) -> None:
    """Draw weights that are larger than a fresh model's, so that every part matters."""
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.normal_(std=0.2)
        else:
            parameter.add_(0.1 * torch.randn_like(parameter))


def save_model(
    folder: Path, name="llama", seed=0, dtype=torch.float32, max_shard_size="1GB", **arguments
) -> Path:
    """Write a random model of an architecture and its tokenizer; return the folder."""
    architecture = (ARCHITECTURES | EXPERTS)[name]
    config = getattr(transformers, architecture.config)(**architecture.arguments | arguments)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    make_large(model)
    model.to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)
    save_tokenizer(folder)
    return folder


def random_pairs(count: int, seed: int = 0, low: int = 3, high: int = 8, equal: bool = True):
    """Return rows of random sentences that share a prefix and often a suffix.

    Their counterfactuals begin with another word.
    """
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        words = rng.choices(WORDS, k=rng.randint(low, high))
        start = rng.randint(0, len(words) - 1)
        span = rng.randint(1, min(2, len(words) - start))
        other = rng.choices(WORDS, k=span if equal else rng.randint(1, 3))
        sides = [" ".join(words), " ".join(words[:start] + other + words[start + span :])]
        rows.append(
            {
                "id": f"pair-{number}",
                "category": "even" if number % 2 == 0 else "odd",
                "stereotype": sides[0],
                "anti_stereotype": sides[1],
                "target": WORDS[number % 6],
                "counterfactuals": [[f"{word} {side}" for side in sides] for word in "xy"],
                "unrelated": " ".join([*words[:start], WORDS[number % 6], *words[start + span :]]),
            }
        )
    return rows


def write_rows(path: Path, rows) -> Path:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def prune_command(base, out, pairs=None, **options) -> list[str]:
    """Return the words of ``prune``, by default of debias-sparsegpt, 2of4, on the CPU."""
    options = {"method": "debias-sparsegpt", "regime": "2of4", "device": "cpu"} | options
    options |= {} if pairs is None else {"pairs": pairs}
    flags = ((f"--{key.replace('_', '-')}", str(value)) for key, value in options.items())
    return ["prune", "--model", str(base), "--out", str(out), *itertools.chain(*flags)]
