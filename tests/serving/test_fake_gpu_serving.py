"""2:4 layers on a GPU that is not there: launches and waits of a decode step."""

import fake_triton
import pytest
import torch
from fake_gpu import DEVICE, fake_gpu
from test_serving_sparse24 import random_2of4


def layer(weight, bias, many):
    from evenprune.serving.kernel24 import DecodeLinear

    dense = torch.nn.Linear(*weight.T.shape, bias=bias).requires_grad_(False).to(DEVICE)
    dense.weight = torch.nn.Parameter(weight.to(DEVICE), requires_grad=False)
    return DecodeLinear(dense.weight.detach(), many or dense)


@pytest.mark.parametrize("bias", [False, True])
def test_a_decode_step_is_one_launch_a_layer(bias, monkeypatch):
    weight = random_2of4(24, 32, torch.float32, 0)
    with fake_gpu() as record:
        fake_triton.install(monkeypatch, record)
        product = layer(weight, bias, None)
        x = torch.ones(2, 3, 32).to(DEVICE)
        record.clear()
        y = product(x)
        assert y.shape == (2, 3, 24)
        # The bias is a second one; nothing is copied, made contiguous or looked at.
        expected = {"_product": 1} | ({"add": 1} if bias else {})
        assert dict(record.operators()) == expected
        assert record.waits == []
        # More tokens go to the other form, here the dense product.
        record.clear()
        product(torch.ones(1, 17, 32, device=DEVICE))
        assert "_product" not in record.operators()
        assert record.waits == []
        plain = torch.nn.functional.linear(x, product.many.weight, product.many.bias)
        assert torch.allclose(y, plain, atol=1e-5)


def test_weights_on_the_cpu_are_refused(monkeypatch):
    weight = random_2of4(24, 32, torch.float32, 0)
    with fake_gpu() as record:
        fake_triton.install(monkeypatch, record)
        product = layer(weight, False, None)
        product.values = product.values.cpu()
        with pytest.raises(ValueError, match="pointer to the CPU"):
            product(torch.ones(1, 1, 32, device=DEVICE))


def test_a_decode_step_of_a_model_waits_for_nothing(monkeypatch):
    """All block linears of a model in the form for few tokens: one launch each."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    from evenprune.models.architecture import find_blocks, find_linears
    from evenprune.pruning.masks import REGIMES
    from evenprune.pruning.methods.magnitude import magnitude_mask

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)
    linears = [
        (block.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2], linear)
        for block in find_blocks(model)[1]
        for name, linear in find_linears(block).items()
    ]
    for _, _, linear in linears:
        mask = magnitude_mask(linear.weight, REGIMES["2of4"])
        linear.weight.copy_(linear.weight.masked_fill(mask, 0.0))
    tokens = torch.tensor([[5, 6, 7]])
    expected = model(tokens, use_cache=False).logits
    with fake_gpu() as record, torch.inference_mode():
        fake_triton.install(monkeypatch, record)
        from evenprune.serving.kernel24 import DecodeLinear

        model.to(DEVICE)
        for parent, leaf, linear in linears:
            setattr(parent, leaf, DecodeLinear(linear.weight.detach(), linear))
        ids = tokens.to(DEVICE)
        # Without a cache the library looks whether the positions are those of several texts.
        past = model(ids[:, :2], use_cache=True).past_key_values
        record.clear()
        logits = model(ids[:, 2:], past_key_values=past, use_cache=True).logits
        assert record.operators()["_product"] == len(linears) == 14
        assert record.operators()["mm"] + record.operators()["addmm"] == 1  # the output head
        assert record.reads() == {}
        assert torch.allclose(logits.cpu(), expected[:, 2:], atol=1e-5)
