"""The formulas against the paper's printed numbers and against each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenprune.serving import formulas, shapes

positive = st.floats(1e-6, 1e9, allow_nan=False)


@pytest.mark.parametrize(
    ("kg", "tok_per_s", "joules", "watts"),
    [(0.0998, 27.54, 10.887, 299.8), (0.0376, 73.05, 4.102, 299.6)],
)
def test_printed_co2_is_a_constant_power(kg, tok_per_s, joules, watts):
    assert formulas.j_per_token_from_kg(kg) == pytest.approx(joules, abs=5e-4)
    assert formulas.implied_power(kg, tok_per_s) == pytest.approx(watts, abs=0.06)
    # and 300 W with the printed throughput gives the printed CO2 to its four digits
    assert formulas.kg_per_mtok(300 / tok_per_s) == pytest.approx(kg, abs=1e-4)


@given(energy=positive, tokens=st.integers(1, 10**9), intensity=st.floats(1e-3, 2))
def test_kg_per_mtok_is_energy_times_intensity(energy, tokens, intensity):
    joules = energy * formulas.JOULES_PER_KWH / tokens
    assert formulas.kg_per_mtok(joules, intensity) == pytest.approx(
        energy / tokens * 1e6 * intensity, rel=1e-12
    )
    assert formulas.j_per_token_from_kg(
        formulas.kg_per_mtok(joules, intensity), intensity
    ) == pytest.approx(joules, rel=1e-12)


def test_bounds_of_2of4():
    assert formulas.sparse24_bytes(16, 16) * 16 == 9 * 16 * 2
    assert formulas.sparse24_bytes(16, 32) * 32 == 17 * 16 * 4
    # the printed gain is more than the weights' bytes or the operations allow
    assert 73.05 / 27.54 > 2 > 16 / 9


def test_qwen_of_the_paper_by_shape(tmp_path):
    from transformers import Qwen2Config

    from evenprune.serving.roofline import count_weights

    size = shapes.QWEN25_7B
    Qwen2Config(
        hidden_size=size.hidden, intermediate_size=size.intermediate, vocab_size=size.vocabulary,
        num_hidden_layers=size.layers, num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads, tie_word_embeddings=False,
        architectures=["Qwen2ForCausalLM"],
    ).save_pretrained(tmp_path)  # fmt: skip
    counted = count_weights(tmp_path)
    assert (counted.linear, counted.other) == (size.linear_weights, size.other_weights)
    for bits in (16, 32):
        for sparse in (False, True):
            assert size.step_bytes(bits, sparse) == counted.bytes(bits, sparse)
    assert size.step_bytes(16) == pytest.approx(14.14e9, rel=1e-3)
    # all block linears at 9/16, the head as it is: below the 16/9 of the linears alone
    gain = size.step_bytes(16) / size.step_bytes(16, sparse=True)
    assert gain == pytest.approx(1.677, abs=1e-3)
    assert gain < 16 / 9
    assert formulas.bandwidth_share(size.step_bytes(16), 27.54, 2e12) == pytest.approx(
        0.195, abs=1e-3
    )


def test_decode_rate_follows_optimum_benchmark():
    assert formulas.decode_rate(8, 65, 2.5, 0.5) == pytest.approx(8 * 64 / 2.0)
    with pytest.raises(ValueError, match="decode time"):
        formulas.decode_rate(1, 64, 0.5, 0.5)
