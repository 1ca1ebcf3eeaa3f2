"""Tiny models for the safety tests: random ones, and bigram models that say what they are told."""

import itertools
import math

import torch
from evaluation_fixtures import char_tokenizer, tiny_llama, wrap
from tokenizers import decoders
from transformers import LlamaConfig, LlamaForCausalLM

WORDS = ("unsafe", "safe", "<e>")
TURNS = "{% for m in messages %}{{ '[' ~ m.role ~ ']' }}{{ m.content }}{% endfor %}"
# As Llama-Guard-3-1B: contents are lists of parts, a plain text would be dropped.
PARTS = (
    "{% for m in messages %}{{ '[' ~ m.role ~ ']' }}{% for part in m.content %}"
    "{% if part.type is defined %}{{ part.text }}{% endif %}{% endfor %}{% endfor %}"
)
LOGIT = 9.0


def tokenizer_with_end(bos=True, template=None, words=WORDS):
    """A token a character, and one each for safe, unsafe and the end of an answer."""
    tokenizer = char_tokenizer(bos, words)
    tokenizer.backend_tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens({"eos_token": "<e>"})
    tokenizer.chat_template = template
    return tokenizer


def random_model(tokenizer, positions=512):
    """A tiny random Llama that ends its answers with the tokenizer's end token only."""
    model = tiny_llama(len(tokenizer), positions)
    model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model


def random_lm(positions=512):
    tokenizer = tokenizer_with_end()
    return wrap(random_model(tokenizer, positions), tokenizer)


def bigram_model(tokenizer, table, positions=256):
    """A Llama whose next-token logits are ``table[last token][next]``, all others 0.

    Embeddings are unit vectors and attention and MLP add nothing; the norm scales by the root
    of the width, which the output embedding divides out again.
    """
    width = 4 * math.ceil(len(tokenizer) / 4)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=1, num_key_value_heads=1, max_position_embeddings=positions,
        rms_norm_eps=1e-12, eos_token_id=tokenizer.eos_token_id, tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        layer = model.model.layers[0]
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(len(tokenizer), width))
        model.lm_head.weight.zero_()
        for last, following in table.items():
            for token, logit in following.items():
                row, column = (tokenizer.convert_tokens_to_ids(t) for t in (token, last))
                model.lm_head.weight[row, column] = logit / math.sqrt(width)
    return model.eval()


def chain(text, end=True):
    """Bigrams that spell ``text`` (no character twice) and then end."""
    table = {a: {b: LOGIT} for a, b in itertools.pairwise(text)}
    return {**table, text[-1]: {"<e>": LOGIT}} if end else table


# The guard answers by the last character of what it reads: "-" unsafe, "." safe, "?" neither.
VERDICTS = {
    ".": {"safe": 5.0, "unsafe": 3.0}, "-": {"\n": 5.0}, "\n": {"unsafe": 4.0, "safe": 1.0},
    "safe": {"<e>": LOGIT}, "unsafe": {"<e>": LOGIT}, "?": {"z": LOGIT}, "z": {"<e>": LOGIT},
    "]": {"<e>": LOGIT},
}  # fmt: skip


def save_guard(folder, template=TURNS, table=None, words=WORDS):
    tokenizer = tokenizer_with_end(template=template, words=words)
    bigram_model(tokenizer, table or VERDICTS).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
