import pytest
import torch
from torch import nn

from evenprune.io import onednn


@pytest.fixture(params=["0", "1"], autouse=True)
def products(request, monkeypatch):
    """All tests twice: with torch's own products, and with oneDNN's wherever the tests run."""
    monkeypatch.setenv(onednn.ONEDNN, request.param)
    monkeypatch.setattr(onednn, "FEWEST_PRODUCTS", 1)
    onednn.is_faster.cache_clear()
    yield
    monkeypatch.undo()
    onednn.is_faster.cache_clear()


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def close(found, expected, share=1e-6):
    scale = float(expected.abs().max())
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=share * scale)


@torch.no_grad()
@pytest.mark.parametrize("rows", [1, 16, 65, 1025])
def test_a_linear_layer_equals_float64(rows):
    x, weight, bias = random(rows, 24), random(40, 24), random(40)
    expected = x.double() @ weight.double().T
    close(onednn.linear(x, weight), expected)
    close(onednn.linear(x, weight, bias), expected + bias.double())


@torch.no_grad()
def test_any_shape_and_order_in_memory(monkeypatch):
    x, weight = random(5, 24, 30), random(24, 40)
    turned = x.transpose(1, 2)
    assert not turned.is_contiguous()
    # A weight that is not contiguous is none for oneDNN, which would take seconds.
    close(onednn.linear(turned, weight.T), turned.double() @ weight.double())
    close(onednn.linear(turned, weight.T.contiguous()), turned.double() @ weight.double())
    assert onednn.linear(x[:0], random(7, 30)).shape == (0, 24, 7)
    left, right = random(64, 100)[:, 20:70], random(90, 50).T
    close(onednn.product(left, right), left.double() @ right.double())
    monkeypatch.setattr(onednn, "COPIED", 20)
    close(onednn.product(left, right), left.double() @ right.double())


@torch.no_grad()
@pytest.mark.parametrize("size", [16, 100])
def test_products_in_place(size, monkeypatch):
    monkeypatch.setattr(onednn, "COPIED", 50)
    monkeypatch.setattr(onednn, "WIDEST", 20)
    rows = random(70, 48)
    total = torch.zeros(48, 48)
    for _ in range(2):
        onednn.add_gram(total, rows, size)
    close(total.triu(), 2 * (rows.double().T @ rows.double()).triu())
    whole, left, right = random(130, 60), random(40, 150).T[:130], random(40, 60)
    expected = whole.double() - left.double() @ right.double()
    part = torch.cat([whole, whole])[:130]
    onednn.subtract_product(part, left, right)
    close(part, expected)


@torch.no_grad()
@pytest.mark.parametrize("tokens", [512, 70])
def test_sums_are_rounded_only_where_asked_for_and_exact_for_numbers_of_bfloat16(tokens):
    rows, setting = random(tokens, 500), torch.backends.mkldnn.matmul
    before = setting.fp32_precision

    def gram(rows, rounded=False):
        total = torch.zeros(500, 500)
        for _ in range(2):
            onednn.add_gram(total, rows, 128, rounded)
        assert setting.fp32_precision == before
        return total.triu()

    expected = 2 * (rows.double().T @ rows.double()).triu()
    close(gram(rows), expected, 5e-6)  # some hundred numbers are added up in float32
    if tokens == 512:
        error = (gram(rows, onednn.rounds(rows.bfloat16())) - expected).norm() / expected.norm()
        # Of products of two numbers rounded by up to 2^-9, which average out.
        assert error < 2e-3
        assert (error > 1e-5) == onednn.has_tiles()
    rows = rows.bfloat16().float()
    close(gram(rows, onednn.has_tiles()), 2 * (rows.double().T @ rows.double()).triu(), 5e-6)


@torch.no_grad()
def test_other_dtypes_are_torch_s_own():
    x, weight = random(64, 24).bfloat16(), random(40, 24).bfloat16()
    assert torch.equal(onednn.linear(x, weight), nn.functional.linear(x, weight))
    x, weight = x.double(), weight.double()
    assert torch.equal(onednn.product(x, weight.T), x @ weight.T)


def test_gradients_are_torch_s_own():
    x, weight = random(64, 24).requires_grad_(), random(40, 24)
    onednn.linear(x, weight).square().sum().backward()
    expected = 2 * (x.detach().double() @ weight.double().T) @ weight.double()
    close(x.grad, expected)
    with torch.no_grad():
        close(onednn.linear(x, weight), x.double() @ weight.double().T)


def test_a_model_keeps_weights_hooks_and_results(monkeypatch):
    class Own(nn.Linear):
        pass

    model = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 8, bias=False), Own(8, 8))
    x, seen = random(20, 24), []
    model[0].register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    with torch.no_grad():
        before = model(x)
        names = list(model.state_dict())
        onednn.speed_up(model)
        torch.testing.assert_close(model(x), before)
    assert list(model.state_dict()) == names
    assert len(seen) == 2
    assert all(isinstance(model[k], nn.Linear) for k in (0, 2))
    assert type(model[3]) is Own
    taken = onednn.is_faster()
    assert [type(model[k]) is onednn.Linear for k in (0, 2)] == [taken, taken]
