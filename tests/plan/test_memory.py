"""The arithmetic of memory, against sizes that are known from elsewhere and against a run."""

import pytest

from evenprune.base.errors import UserError
from evenprune.plan.memory import BATCH, evaluation_gpus, pruning_memory, shapes

GB = 10**9
# As the models' own config.json files have them.
LLAMA_70B = {
    "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}  # fmt: skip
LLAMA_405B = {
    **LLAMA_70B, "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126,
    "num_attention_heads": 128,
}  # fmt: skip


@pytest.mark.parametrize(("config", "billions"), [(LLAMA_70B, 70.6), (LLAMA_405B, 405.9)])
def test_the_number_of_weights_is_the_published_one(config, billions):
    assert shapes(config).weights / 1e9 == pytest.approx(billions, abs=0.1)


def test_one_gpu_of_80_gb_prunes_both():
    small, large = (pruning_memory(shapes(one), 80_000) for one in (LLAMA_70B, LLAMA_405B))
    # The down projection's Hessian is the largest: 28,672² and 53,248² numbers of 4 bytes.
    assert small.factor == 2 * 4 * 28672**2
    assert large.factor == 2 * 4 * 53248**2
    assert 14 * GB < small.peak < 17 * GB
    assert 50 * GB < large.peak < 60 * GB
    # Of 126 blocks one is there at a time: the peak is no question of depth.
    deeper = pruning_memory(shapes({**LLAMA_405B, "num_hidden_layers": 500}), 80_000)
    assert deeper == large


def test_evaluation_needs_the_whole_model():
    assert evaluation_gpus(shapes(LLAMA_70B), 80 * GB) == 3
    assert evaluation_gpus(shapes(LLAMA_70B), 80 * GB, room=0.95) == 2
    assert evaluation_gpus(shapes(LLAMA_405B), 80 * GB) == 13
    assert evaluation_gpus(shapes({**LLAMA_70B, "num_hidden_layers": 2}), 80 * GB) == 1


def test_what_is_left_out_has_the_libraries_defaults():
    config = {**LLAMA_70B, "num_key_value_heads": None, "torch_dtype": None, "dtype": "float32"}
    found = shapes(config)
    assert (found.kv_heads, found.head_dim, found.bytes) == (64, 128, 4)
    inner = shapes({"text_config": LLAMA_70B, "tie_word_embeddings": True})
    assert inner.weights == shapes(LLAMA_70B).weights - 128256 * 8192


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_local_experts": 8}, "mixture of experts"),
        ({"intermediate_size": None}, "intermediate_size"),
        ({"hidden_size": "8192"}, "hidden_size"),
    ],
)
def test_other_shapes_are_refused_in_a_sentence(change, said):
    with pytest.raises(UserError, match=said):
        shapes({**LLAMA_70B, **change})


def test_a_batch_is_as_large_as_packing_makes_it():
    from evenprune.pruning.packing import TOKENS

    assert BATCH == TOKENS
