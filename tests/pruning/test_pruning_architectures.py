"""Every architecture: what is found, how it is packed, and that the result is a good checkpoint."""

import json

import pytest
import reference
import torch
from pruning_models import ARCHITECTURES, random_pairs, save_model, write_rows
from registry_sweep import load_exact
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from evenprune.cli import main
from evenprune.data.calibration import tokenize_pairs
from evenprune.pruning.base_model import BaseModel
from evenprune.pruning.check import check_model
from evenprune.pruning.forward import collect, input_groups, record_inputs
from evenprune.pruning.hessian import Gram
from evenprune.pruning.masks import REGIMES
from evenprune.pruning.packing import pack_pairs
from evenprune.pruning.probe import probe_blocks
from evenprune.pruning.shared_prefix import tree_objection


@pytest.fixture(scope="module", params=ARCHITECTURES)
def built(request, tmp_path_factory):
    folder = save_model(tmp_path_factory.mktemp(request.param), request.param, seed=1)
    return folder, ARCHITECTURES[request.param]


def packed_hessians(base, pairs, bias, shared):
    """Return the Hessian of each linear of the first block, as the engine takes it."""
    base.load_outside(torch.tensor([k for pair in pairs for k in pair.ids0 + pair.ids1]))
    base.load_block(0)
    form = probe_blocks(base.model, base.blocks, torch.tensor(pairs[0].ids0), "cpu").form
    batches = pack_pairs(pairs, bias, shared, 64)
    calibration = record_inputs(base.model, base.blocks, batches, "cpu", form)
    groups = input_groups(base.blocks[0], calibration.streams()[0], 0)
    sums = {}

    def add(leader, inputs, plan, _streams):
        sums.setdefault(leader, Gram(inputs.shape[1], "cpu")).add(inputs, plan)

    collect(base.blocks[0], 0, calibration, [group[0] for group in groups], add)
    results = {group[0]: sums[group[0]].result() for group in groups}
    return {name: results[group[0]] for group in groups for name in group}, groups


def test_packed_statistics_equal_sentence_by_sentence(built):
    folder, architecture = built
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pairs = tokenize_pairs(random_pairs(12, seed=2, equal=False), tokenizer, "suffix").pairs
    bias = [float(k) for k in range(12)]
    base = BaseModel(folder, REGIMES["2of4"], "cpu")
    longest = max(len(pair.ids0) + len(pair.ids1) for pair in pairs)
    assert (tree_objection(base.model, longest) is None) == architecture.tree

    model = load_exact(folder)
    block = model.get_submodule(base.blocks_name)[0]
    sentences = [ids for pair in pairs for ids in (pair.ids0, pair.ids1)]
    inputs = reference.linear_inputs(block, model, sentences)
    matches = [pair.matches for pair in pairs]
    for shared in {False, architecture.tree}:
        hessians, groups = packed_hessians(base, pairs, bias, shared)
        assert (len(hessians), len(groups)) == (architecture.linears, architecture.groups)
        for name, x in inputs.items():
            both = list(zip(x[::2], x[1::2], strict=True))
            expected = torch.from_numpy(reference.hessian(both, [], matches, bias))
            distance = (hessians[name].double() - expected).norm() / expected.norm()
            assert distance < 1e-5, (name, shared)


def test_command_makes_a_good_checkpoint(built, tmp_path):
    folder, architecture = built
    pairs = write_rows(tmp_path / "pairs.jsonl", random_pairs(20))
    out = tmp_path / "pruned" / "model"
    assert main([
        "prune", "--model", str(folder), "--pairs", str(pairs), "--method", "debias-sparsegpt",
        "--regime", "2of4", "--out", str(out), "--device", "cpu",
    ]) == 0  # fmt: skip
    report = check_model(out, folder)
    assert report["matrices"] == 2 * architecture.linears
    assert report["sparsity"] == 0.5
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["options"]["packing"] == ("shared-prefix" if architecture.tree else "sentences")
    assert sorted(path.name for path in out.parent.iterdir()) == ["model"]

    dense, pruned = (AutoModelForCausalLM.from_pretrained(path) for path in (folder, out))
    assert pruned.state_dict().keys() == dense.state_dict().keys()
    changed = {
        name
        for name, value in pruned.state_dict().items()
        if not torch.equal(value, dense.state_dict()[name])
    }
    assert len(changed) == 2 * architecture.linears
    tied = dense.get_output_embeddings().weight is dense.get_input_embeddings().weight
    assert tied == (pruned.get_output_embeddings().weight is pruned.get_input_embeddings().weight)
    assert (out / "config.json").read_bytes() == (folder / "config.json").read_bytes()
    assert "sparsity" not in (out / "config.json").read_text()
    assert torch.isfinite(pruned(torch.arange(10).unsqueeze(0)).logits).all()
    before = load_file(folder / "model.safetensors")
    names = {name for path in out.glob("*.safetensors") for name in load_file(path)}
    assert names == set(before)


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
    assert main([
        "prune", "--model", str(folder), "--pairs", str(pairs), "--method", "sparsegpt",
        "--regime", "1of4", "--out", str(out), "--device", "cpu",
    ]) == 0  # fmt: skip
    assert check_model(out, folder)["sparsity"] == 0.25
    weight = AutoModelForCausalLM.from_pretrained(out).transformer.h[1].mlp.c_proj.weight
    assert (weight == 0).float().mean() == 0.25
    assert (weight.T.reshape(-1, 4) == 0).sum(dim=1).eq(1).all()
