"""Types of transformers' causal-LM registry are pruned right or refused in one sentence."""

import os
from pathlib import Path

import pytest
import registry_models
from registry_sweep import documented, sweep_type

from evenprune.blocks.packing import Text
from evenprune.methods.options import Options
from evenprune.pruning.engine import prune_model

PAGE = Path(__file__).parents[2] / "docs" / "architectures.md"
AGREEMENT = 0.999


# Most types are pruned: of these every third one, or all where it is asked for.
OUTCOMES = documented(PAGE)
STEP = 1 if "EVENPRUNE_TYPES" in os.environ else 3
SWEPT = [
    kind
    for number, kind in enumerate(registry_models.TYPES)
    if number % STEP == 0 or OUTCOMES[kind] != "pruned"
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", SWEPT)
def test_every_type_is_pruned_right_or_refused(kind, tmp_path):
    row = sweep_type(kind, tmp_path)
    assert row.agreement >= AGREEMENT
    assert row.outcome == OUTCOMES[kind]


def test_page_lists_every_type():
    assert sorted(OUTCOMES) == registry_models.TYPES


def test_every_kind_of_block_is_tried_with_a_shared_prefix(tmp_path, capsys):
    """Of minimax the first block attends, the second carries a state from token to token."""
    row = sweep_type("minimax", tmp_path, 2)
    assert row.outcome == "pruned"
    assert row.agreement >= AGREEMENT
    assert "no shared-prefix packing: decoder block 1 of MiniMax" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "layers", "words"),
    [
        ("rwkv", 8, "changes the hidden states in front of decoder block 6"),
        ("mamba", 4, "mixer.dt_proj of decoder block 0 are not called"),
        ("zamba2", 4, "expected exactly one nn.ModuleList"),
    ],
)
def test_a_refusal_names_type_reason_and_what_to_do(kind, layers, words, tmp_path):
    row = sweep_type(kind, tmp_path, layers)
    assert row.outcome == "refused"
    assert row.reason.startswith(f"a model of type {kind!r} cannot be pruned: ")
    assert words in row.reason
    assert row.reason.endswith("choose a model of a type that docs/architectures.md says is pruned")
    # The advice is true: what refuses the text does not refuse magnitude.
    assert ("take --method magnitude" in row.reason) == (kind != "zamba2")
    if kind == "mamba":
        manifest = prune_model(
            tmp_path / "dense", Options("magnitude", "u50"), Text(), tmp_path / "other"
        )
        assert any(facts.get("pruned") for facts in manifest["tensors"].values())
