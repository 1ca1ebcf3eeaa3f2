"""How the world's model starts: random, but with heads that can be taught to look up."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .training_options import TrainingOptions

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


THETA = 10000.0  # base of the rotary phases


def new_model(options: TrainingOptions, tokenizer: "PreTrainedTokenizerFast") -> "LlamaForCausalLM":
    """Return the untrained model, started so that looking up is soon learned.

    See ``look_back`` and ``start_matching``.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(options.seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=options.hidden_size,
        intermediate_size=options.intermediate_size,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.heads,
        max_position_embeddings=options.max_length,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=True,
        attn_implementation="sdpa",  # type: ignore[call-arg]  # of the base class
        dtype="float32",
    )
    model = LlamaForCausalLM(config)
    look_back(model, (1, 2, 3))
    start_matching(model)
    return model


def look_back(model: "LlamaForCausalLM", distances: Iterable[int]) -> None:
    """Start heads of the first layer as ones that attend ``distances`` tokens back.

    Copying needs such heads before anything else can be learned; given them, it is
    learned in a few hundred steps. All embeddings share one direction; the head maps it
    to a query and a key whose rotary phases agree at that distance.
    """
    import torch

    hidden = model.config.hidden_size
    size = hidden // model.config.num_attention_heads
    theta: float = THETA
    spread, shared, strength, waves = 0.04, 0.63, 1.2, 3
    attention = model.model.layers[0].self_attn
    with torch.no_grad():
        model.model.embed_tokens.weight.normal_(0, spread).add_(shared * spread)
        direction = torch.ones(hidden) / math.sqrt(hidden)
        for head, distance in enumerate(distances):
            query, key = torch.zeros(size), torch.zeros(size)
            for wave in range(waves):
                phase = theta ** (-2 * wave / size) * distance
                query[wave], query[wave + size // 2] = math.cos(phase), -math.sin(phase)
                key[wave] = 1.0
            rows = slice(head * size, (head + 1) * size)
            attention.q_proj.weight[rows] = strength * torch.outer(query, direction)
            attention.k_proj.weight[rows] = strength * torch.outer(key, direction)


def start_matching(model: "LlamaForCausalLM") -> None:
    """Start all later heads as ones that attend to tokens like their own and copy them.

    Queries and keys start equal, and what a head writes is what it reads (the idea of
    Trockman & Kolter 2023, "Mimetic initialization of self-attention layers").
    """
    import torch

    with torch.no_grad():
        for layer in list(model.model.layers)[1:]:
            attention = layer.self_attn
            attention.q_proj.weight.mul_(4.0)
            attention.k_proj.weight.copy_(attention.q_proj.weight)
            attention.o_proj.weight.copy_(attention.v_proj.weight.T)
