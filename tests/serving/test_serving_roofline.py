"""The bounds: counted weights, measured device, and their combination."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config

from evenprune.serving import roofline
from evenprune.serving.shapes import QWEN25_7B, Weights


def test_weights_of_a_step_are_counted(tmp_path):
    sizes = dict(vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=3,
                 num_attention_heads=2, num_key_value_heads=1)  # fmt: skip
    linear = 3 * (2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 24)
    norms = (2 * 3 + 1) * 16
    for tied in (True, False):
        folder = tmp_path / str(tied)
        LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=tied)).save_pretrained(folder)
        # the head is read once a step whether or not it shares the embedding table
        assert roofline.count_weights(folder) == Weights(linear, norms + 50 * 16)


def test_weights_of_conv1d_are_counted(tmp_path):
    GPT2LMHeadModel(
        GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=8)
    ).save_pretrained(tmp_path)
    weights = roofline.count_weights(tmp_path)
    assert weights.linear == 2 * 12 * 16 * 16
    biases_and_norms = 2 * (3 * 16 + 16 + 4 * 16 + 16 + 4 * 16) + 2 * 16
    assert weights.other == biases_and_norms + 50 * 16  # neither table of positions nor of words


def test_qwen_of_the_paper_by_shape(tmp_path):
    size = QWEN25_7B
    Qwen2Config(
        hidden_size=size.hidden, intermediate_size=size.intermediate, vocab_size=size.vocabulary,
        num_hidden_layers=size.layers, num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads, tie_word_embeddings=False,
        architectures=["Qwen2ForCausalLM"],
    ).save_pretrained(tmp_path)  # fmt: skip
    assert roofline.count_weights(tmp_path) == size.weights
    assert size.weights.bytes(16) == pytest.approx(14.14e9, rel=1e-3)
    # all block linears at 9/16, the head as it is: below the 16/9 of the linears alone
    gain = size.weights.bytes(16) / size.weights.bytes(16, sparse=True)
    assert gain == pytest.approx(1.677, abs=1e-3)


def test_bounds_change_from_bandwidth_to_compute_with_the_batch():
    measured = {
        "linear_weights": 8_000, "other_weights": 0, "dense_bytes": 16_000,
        "sparse24_bytes": 9_000, "copy_bytes_per_s": 1.6e6, "gemm_flop_per_s": 1.6e7,
    }  # fmt: skip
    one, many = roofline.bounds(measured, 1), roofline.bounds(measured, 1000)
    assert one["dense_bound"] == pytest.approx(100)
    assert one["2of4_bound"] / one["dense_bound"] == pytest.approx(16 / 9)
    assert many["dense_bound"] == pytest.approx(1000)
    assert many["2of4_bound"] / many["dense_bound"] == pytest.approx(2)


def test_device_is_measured():
    copy = roofline.copy_bandwidth("cpu", 1 << 20, 0.02)
    assert 1e7 < copy < 1e13
    rate = roofline.gemm_rate("cpu", torch.float32, 0.02)
    assert 1e8 < rate < 1e15
