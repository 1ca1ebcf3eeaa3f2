"""The Triton product against the dense one: in Triton's interpreter, or on a GPU."""

import importlib.util
import os

import pytest
import torch
from test_serving_sparse24 import DTYPES, random_2of4

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None
    or (DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1"),
    # The variable counts only if it is set before Triton is imported for the first time.
    reason="needs Triton and a GPU, or TRITON_INTERPRET=1 (the CPU environment has no Triton)",
)
# Half a unit in the last place of the result; the interpreter rounds bfloat16 towards zero.
TOLERANCE = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}


def inputs(tokens, rows, width, dtype):
    generator = torch.Generator().manual_seed(tokens + rows + width)
    weight = random_2of4(rows, width, torch.float32, rows).clamp(-3, 3).to(DTYPES[dtype])
    x = torch.randn(tokens, width, generator=generator).to(DTYPES[dtype])
    return x.to(DEVICE), weight.to(DEVICE)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("tokens", "rows", "width"),
    [(1, 33, 72), (3, 64, 256), (16, 40, 172), (7, 5, 4), (1, 1, 4), (15, 31, 132), (2, 65, 260)],
)
def test_product_is_the_dense_product(tokens, rows, width, dtype):
    from evenprune.serving.kernel24 import product
    from evenprune.serving.sparse24 import compress

    x, weight = inputs(tokens, rows, width, dtype)
    y = product(x, *compress(weight))
    expected = x.double() @ weight.double().T
    assert y.dtype == x.dtype
    assert (y.double() - expected).abs().max() <= TOLERANCE[dtype] * expected.abs().max()


def test_layer_takes_either_form_by_the_number_of_tokens():
    from evenprune.serving.kernel24 import MAX_TOKENS, DecodeLinear

    _, weight = inputs(1, 24, 32, "float32")
    many = torch.nn.Linear(32, 24, device=DEVICE).requires_grad_(False)
    bias = many.bias
    many.weight.zero_()  # so that its result shows which form was taken
    layer = DecodeLinear(weight, many)
    x = torch.randn(2, MAX_TOKENS // 2, 32, device=DEVICE)
    expected = torch.nn.functional.linear(x, weight, bias)
    assert torch.allclose(layer(x), expected, atol=1e-5)
    longer = torch.randn(1, MAX_TOKENS + 1, 32, device=DEVICE)
    assert layer(longer).equal(bias.expand(1, MAX_TOKENS + 1, 24))
    assert layer(x.double()[:0].float()).shape == (0, MAX_TOKENS // 2, 24)


def test_inputs_that_do_not_belong_together():
    from evenprune.serving.kernel24 import MAX_TOKENS, product
    from evenprune.serving.sparse24 import compress

    x, weight = inputs(2, 8, 16, "float32")
    for wrong in (x[:, :8], x.half(), x.repeat(MAX_TOKENS, 1), x[:0]):
        with pytest.raises(ValueError, match="expected 1 to 16 tokens"):
            product(wrong, *compress(weight))
