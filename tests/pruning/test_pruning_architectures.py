"""Every architecture: what is found, how it is packed, and that the result is a good checkpoint."""

import json
import os
from pathlib import Path

import pytest
import registry_models
import torch
from pruning_models import ARCHITECTURES, SMALL, prune_command, random_pairs, save_model, write_rows
from registry_sweep import documented, mask_agreement, stored_tensors, sweep_type
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, Gemma3TextConfig

from evenprune.blocks.base_model import BaseModel
from evenprune.blocks.packing import Text
from evenprune.blocks.probe import bos_losses, probe_blocks
from evenprune.cli import main
from evenprune.config.facts import regime_facts
from evenprune.data.calibration import tokenize_pairs
from evenprune.language_models.language_model import load_language_model
from evenprune.methods.options import Options
from evenprune.models.bos import fixed_rows
from evenprune.models.loading import load_model
from evenprune.pruning.check import check_model
from evenprune.pruning.compare_masks import compare_models
from evenprune.pruning.engine import prune_model

# Tied heads, transposed weights, no tree, windows, soft caps; the registry's sweep has all types.
VARIED = ("llama2", "gpt2", "gpt_neox", "cohere", "gemma2-window")


@pytest.mark.parametrize("kind", VARIED)
def test_command_makes_a_good_checkpoint(kind, tmp_path):
    architecture = ARCHITECTURES[kind]
    folder = save_model(tmp_path / "base", kind, seed=1)
    pairs = write_rows(tmp_path / "pairs.jsonl", random_pairs(40))
    out = tmp_path / "pruned" / "model"
    assert main(prune_command(folder, out, pairs)) == 0
    tokens = tokenize_pairs(random_pairs(40), AutoTokenizer.from_pretrained(folder), "equal-length")
    found = mask_agreement(folder, out, Text(tokens), "debias-sparsegpt", "2of4", 1.0)
    assert min(share for share, *_ in found.values()) >= 0.999
    report = check_model(out, folder)
    assert (report["matrices"], report["sparsity"]) == (len(found), 0.5)
    assert len(found) == 2 * architecture.linears
    assert len(list(compare_models(out, out))) == len(found)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["options"]["packing"] == ("shared-prefix" if architecture.tree else "sentences")
    assert sorted(path.name for path in out.parent.iterdir()) == ["model"]
    before, after = stored_tensors(folder), stored_tensors(out)
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name for name, one in manifest["tensors"].items() if one.get("pruned")}

    dense, pruned = (AutoModelForCausalLM.from_pretrained(path) for path in (folder, out))
    assert pruned.state_dict().keys() == dense.state_dict().keys()
    tied = dense.get_output_embeddings().weight is dense.get_input_embeddings().weight
    assert tied == (pruned.get_output_embeddings().weight is pruned.get_input_embeddings().weight)
    assert (out / "config.json").read_bytes() == (folder / "config.json").read_bytes()
    assert "sparsity" not in (out / "config.json").read_text()
    assert torch.isfinite(pruned(torch.arange(10).unsqueeze(0)).logits).all()


@pytest.mark.parametrize("kind", ["llama2", "gpt_neox", "gemma2-window"])
def test_losses_with_and_without_bos_are_those_of_the_whole_model(kind, tmp_path):
    folder = save_model(tmp_path, kind, seed=1)
    base = BaseModel(folder, regime_facts("2of4"), "cpu")
    lm = load_language_model(folder, "cpu")
    rows = fixed_rows(lm.tokenizer, 64)
    base.load_outside(torch.arange(8))
    base.load_block(0)
    form = probe_blocks(base, torch.arange(8)).together.form
    base.unload_block(0)
    base.unload_outside()
    found = bos_losses(base, form, rows)
    if kind == "gpt_neox":
        assert found is None  # the library gives its output embeddings another name as it loads
    else:
        assert list(found) == pytest.approx(list(lm.bos_losses), rel=1e-4)
    assert all(parameter.is_meta for parameter in base.model.parameters())


def test_what_a_model_computes_of_its_config_is_in_the_dtype_of_the_passes(tmp_path):
    """Gemma's scale of embeddings, √40, is 6.3125 in bfloat16: as in the library's own model."""
    sizes = {"hidden_size": 40, "head_dim": 16, "sliding_window": 16, "num_key_value_heads": 1}
    config = Gemma3TextConfig(**SMALL | sizes, dtype="bfloat16")
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    ids = torch.arange(6)
    for dtype in (torch.float32, torch.bfloat16):
        theirs = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype)
        base = BaseModel(tmp_path, regime_facts("2of4"), "cpu", str(dtype)[6:])
        base.load_outside(ids)
        ours = base.model.get_input_embeddings()(ids)
        assert torch.equal(ours, theirs.get_input_embeddings()(ids))
        assert torch.equal(ours, load_model(tmp_path, dtype=dtype).get_input_embeddings()(ids))


def test_checkpoint_of_the_base_model_alone(tmp_path):
    """GPT-2's files on the hub lack the prefix and carry the causal mask as a tensor."""
    folder = save_model(tmp_path / "base", "gpt2")
    file = folder / "model.safetensors"
    stored = {name.removeprefix("transformer."): value for name, value in load_file(file).items()}
    for index in range(2):
        stored[f"h.{index}.attn.bias"] = torch.ones(1, 1, 8, 8, dtype=torch.bool).tril()
    save_file(stored, file, metadata={"format": "pt"})
    pairs = write_rows(tmp_path / "pairs.jsonl", random_pairs(20))
    out = tmp_path / "out"
    assert main(prune_command(folder, out, pairs, regime="1of4")) == 0
    assert check_model(out, folder)["sparsity"] == 0.25
    weight = AutoModelForCausalLM.from_pretrained(out).transformer.h[1].mlp.c_proj.weight
    assert (weight == 0).float().mean() == 0.25
    assert (weight.T.reshape(-1, 4) == 0).sum(dim=1).eq(1).all()


# Types of transformers' registry are pruned right or refused in one sentence


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
