"""Keys of a GGUF file that change what a model computes: followed, or refused by their names."""

import json

import pytest
import torch
from gguf import MODEL_ARCH, get_tensor_name_map
from gguf import GGMLQuantizationType as Kind
from test_gguf import HEADS, LAYERS, MLP, WIDTH, convert, one_sentence, write_gguf
from test_gguf_tokenizer import PIECES, spm_file
from transformers import AutoModelForCausalLM, Gemma3TextConfig

from evenprune.io.errors import UserError
from evenprune.models.loading import load_model


def with_key(path, key, value):
    def add(writer):
        kind = {bool: "bool", str: "string", float: "float32", int: "uint32", list: "array"}
        getattr(writer, f"add_{kind[type(value)]}")(key, value)

    return write_gguf(path, change=add)


REFUSED = [
    ("llama.logit_scale", 0.5),
    ("llama.attention.sliding_window", 16),
    ("llama.rope.scaling.factor", 4.0),
    ("llama.attention.key_length", 32),
    ("new.thing", "x"),
    ("tokenizer.ggml.remove_extra_whitespaces", True),
]


@pytest.mark.parametrize(("key", "value"), REFUSED, ids=[key for key, _ in REFUSED])
def test_a_key_that_is_not_followed_is_refused_by_name(tmp_path, key, value):
    path = with_key(tmp_path / "a.gguf", key, value)
    with pytest.raises(UserError, match=key) as caught:
        convert(path, tmp_path / "out")
    assert str(path) in one_sentence(str(caught.value))
    assert not (tmp_path / "out").exists()


def test_keys_that_say_what_the_model_does_anyway_are_accepted(tmp_path):
    head = WIDTH // HEADS
    keys = {
        "llama.logit_scale": 1.0, "llama.attention.scale": head**-0.5,
        "llama.attention.sliding_window": 128, "llama.attention.causal": True,
        "llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 1.0,
        "llama.rope.scaling.original_context_length": 128, "llama.attention.key_length": head,
        "llama.attention.value_length": head, "llama.expert_count": 0,
        "llama.rope.scaling.finetuned": False, "tokenizer.ggml.remove_extra_whitespaces": False,
        "quantize.imatrix.file": "words.dat", "general.basename": "tiny", "split.count": 1,
        "tokenizer.ggml.fim_pre_token_id": 3,
    }  # fmt: skip

    def add(writer):
        for key, value in keys.items():
            kind = {bool: "bool", str: "string", float: "float32", int: "uint32"}[type(value)]
            getattr(writer, f"add_{kind}")(key, value)

    convert(write_gguf(tmp_path / "a.gguf", change=add), tmp_path / "out")


def test_a_gemma_file_is_read_with_its_keys(tmp_path):
    """Windows, head size and the scale of embeddings; logits are those of the model it is of."""
    torch.manual_seed(0)
    config = Gemma3TextConfig(
        vocab_size=len(PIECES), hidden_size=WIDTH, intermediate_size=MLP, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=1, head_dim=32, sliding_window=16,
        rms_norm_eps=1e-5, query_pre_attn_scalar=256,
    )  # fmt: skip
    config.rope_parameters["full_attention"]["rope_theta"] = 10_000.0
    model = AutoModelForCausalLM.from_config(config).eval()
    names, weights = get_tensor_name_map(MODEL_ARCH.GEMMA3, LAYERS), {}
    for name, value in model.state_dict().items():
        if name != "lm_head.weight":
            stem, _, end = name.rpartition(".")
            offset = 1 if "norm" in name else 0
            weights[f"{names.get_name(stem)}.{end}"] = value.numpy() + offset

    def made(path, **changes):
        keys = {
            "attention.key_length": 32, "attention.value_length": 32, "attention.head_count_kv": 1,
            "attention.sliding_window": 16, "rope.dimension_count": None,
        } | changes  # fmt: skip
        return spm_file(
            path, {"add_space_prefix": False}, arch="gemma3", weights=weights, kind=Kind.F32,
            model=keys,
        )  # fmt: skip

    convert(made(tmp_path / "a.gguf"), tmp_path / "out", "float32")
    batch = torch.arange(4, 60)[None]
    with torch.no_grad():
        found = load_model(tmp_path / "out", dtype=torch.float32)(batch).logits
        assert torch.equal(found, model(batch).logits)
    settings = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (settings["sliding_window"], settings["head_dim"]) == (16, 32)
    with pytest.raises(UserError, match=r"has 64 for gemma3.attention.value_length.*has 32"):
        convert(made(tmp_path / "b.gguf", **{"attention.value_length": 64}), tmp_path / "no")
