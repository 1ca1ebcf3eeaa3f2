"""The compressed 2:4 form: exact round trip, size, refusals, and the loader."""

import json
import re

import pytest
import torch
from both import refused
from folders import change_json, change_tensors
from hypothesis import given, settings
from hypothesis import strategies as st
from pruning_models import prune_command, save_model

from evenprune.cli import main
from evenprune.io.errors import UserError
from evenprune.models.cards import split_card
from evenprune.models.identity import identify
from evenprune.models.loading import load_model
from evenprune.models.tensors import read_folder, read_tensor
from evenprune.serving.export_sparse24 import block_linears, export_sparse24
from evenprune.serving.sparse24 import BITS, compress, decompress
from evenprune.serving.sparse24_model import load_sparse24

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
ARCHITECTURES = ["llama2", "qwen2", "gpt_neox", "gpt2"]  # a tied head; transposed weights


def random_2of4(rows, width, dtype, seed=0):
    """Values of all magnitudes, two places a group at random, some groups with fewer."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(rows, width, generator=generator) * torch.exp(
        4 * torch.randn(rows, width, generator=generator)
    )
    order = torch.rand(rows, width // 4, 4, generator=generator).argsort(-1)
    keep = (order < 2).view(rows, width)
    keep &= torch.rand(rows, width, generator=generator) > 0.1
    return torch.where(keep, weight, 0.0).to(dtype)


def same_bits(one, two):
    return one.dtype == two.dtype and one.view(BITS[one.dtype]).equal(two.view(BITS[two.dtype]))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 9),
    groups=st.integers(1, 13),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 2**31),
)
def test_round_trip_is_exact(rows, groups, dtype, seed):
    weight = random_2of4(rows, 4 * groups, dtype, seed)
    values, metadata = compress(weight)
    assert values.dtype == dtype
    assert values.shape == (rows, 2 * groups)
    assert metadata.shape == (rows, (groups + 1) // 2)
    assert same_bits(decompress(values, metadata), weight)


def test_round_trip_keeps_special_values():
    weight = torch.tensor([[float("nan"), 0, float("-inf"), 0, 0, -0.0, 1e-45, 0]])
    assert same_bits(decompress(*compress(weight)), weight)


def test_layout_is_as_documented():
    weight = torch.tensor([[0.0, 5.0, 0.0, 7.0, 2.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 9.0]])
    values, metadata = compress(weight)
    # places (1, 3), (0, 2), and (0, 3): the kept value first, then the earliest zero
    assert values.tolist() == [[5.0, 7.0, 2.0, 3.0, 0.0, 9.0]]
    assert metadata.tolist() == [[(1 + 4 * 3) | (0 + 4 * 2) << 4, 0 + 4 * 3]]


# checkpoints


def pruned_2of4(folder, base):
    assert main(prune_command(base, folder, method="magnitude")) == 0
    return folder


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """Make a pruned random model of an architecture and dtype once."""
    made = {}

    def make(name="llama2", dtype=torch.bfloat16):
        if (name, dtype) not in made:
            root = tmp_path_factory.mktemp(name)
            base = save_model(root / "base", name, dtype=dtype)
            made[name, dtype] = pruned_2of4(root / "pruned", base)
        return made[name, dtype]

    return make


@pytest.mark.parametrize(
    ("name", "dtype"), zip(ARCHITECTURES, [*DTYPES, torch.bfloat16], strict=True)
)
def test_export_restores_every_tensor(checkpoint, tmp_path, caplog, name, dtype):
    source = checkpoint(name, dtype)
    index = export_sparse24(source, tmp_path / "out")
    stored = read_folder(source)
    model = load_sparse24(tmp_path / "out", "cpu")
    assert model.sparse24_kernel == "dense kernel"
    assert "run on dense kernels" in caplog.text
    restored = model.state_dict()
    expected = load_model(source, "cpu").state_dict()
    assert set(restored) == set(expected)
    for key, tensor in expected.items():
        assert same_bits(restored[key], tensor), key
    assert len(index["layers"]) == len(block_linears(source, stored)) > 0
    size = index["linear_bytes"]
    assert size["dense"] == sum(stored[key].size for key in index["layers"])
    assert size["sparse24"] <= 0.57 * size["dense"]
    first, second = identify(source), identify(tmp_path / "out")
    assert index["model_sha256"] == first.model_sha256 == second.model_sha256
    (tmp_path / "out/config.json").write_text("{}")
    with pytest.raises(UserError, match="export the checkpoint again"):
        identify(tmp_path / "out")


def test_sharded_checkpoints_are_exported_file_by_file(checkpoint, tmp_path):
    source = tmp_path / "sharded"
    load_model(checkpoint(), "cpu").save_pretrained(source, max_shard_size="20KB")
    assert (source / "model.safetensors.index.json").is_file()
    assert len(export_sparse24(source, tmp_path / "out")["files"]) > 1
    state = load_sparse24(tmp_path / "out", "cpu").state_dict()
    assert all(same_bits(state[name], read_tensor(e)) for name, e in read_folder(source).items())


def test_a_dense_checkpoint_is_refused_with_layer_and_group(tmp_path, capsys):
    save_model(tmp_path / "dense", "llama2")
    out = tmp_path / "out"
    argv = ["export-sparse24", "--model", tmp_path / "dense", "--out", out]
    refused(capsys, argv, "model.layers.0.", "group 0 of row 0 holds 4 non-zero values")
    assert not out.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["dense"]


def other_format(folder):
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    change_json(folder / "config.json", quantization_config=config | {"format": 99})


def changed(change):
    return lambda folder: [change_tensors(file, change) for file in folder.glob("*.safetensors")]


def without(name):
    return changed(lambda state: state.pop(name, None))


DAMAGES = {
    "expected a 2:4 export of format 2": other_format,
    "a place twice": changed(lambda state: [v.zero_() for k, v in state.items() if "_meta" in k]),
    "lack model.norm.weight": without("model.norm.weight"),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_damaged_exports_are_refused(checkpoint, tmp_path, message):
    export_sparse24(checkpoint(), tmp_path / "out")
    DAMAGES[message](tmp_path / "out")
    with pytest.raises(UserError, match=re.escape(message)):
        load_sparse24(tmp_path / "out", "cpu")


def test_missing_weights_are_not_drawn_at_random(tmp_path):
    source = save_model(tmp_path / "incomplete", "llama2")
    without("model.norm.weight")(source)
    with pytest.raises(UserError, match=r"lack model\.norm\.weight"):
        export_sparse24(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.gpu
def test_sparse_kernels_compute_the_dense_product(tmp_path):
    sizes = {"hidden_size": 256, "intermediate_size": 512}
    base = save_model(tmp_path / "model", "llama2", dtype=torch.bfloat16, **sizes)
    source = pruned_2of4(tmp_path / "pruned", base)
    export_sparse24(source, tmp_path / "out")
    model = load_sparse24(tmp_path / "out", "cuda")
    assert model.sparse24_kernel.startswith("2:4 kernel")
    ids = torch.arange(32, device="cuda").view(2, 16)
    with torch.inference_mode():
        expected = load_model(source, "cuda")(ids).logits.float()
        assert (model(ids).logits.float() - expected).abs().max() < 0.05 * expected.abs().max()


# Cards, and folders that transformers and lm-eval load


def test_the_card_has_metadata(checkpoint):
    data, body = split_card((checkpoint() / "README.md").read_text())
    assert (data.library_name, data.pipeline_tag) == ("transformers", "text-generation")
    assert {"evenprune", "2of4", "magnitude"} <= set(data.tags)
    assert data.base_model is None
    assert "base_model_relation" not in data
    assert "evenprune prune --model BASE" in body
    assert "--seed 0" in body


def test_others_load_folder_and_export_alike(checkpoint, tmp_path, monkeypatch):
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoModelForCausalLM
    from transformers.quantizers import auto

    import evenprune.serving.sparse24_quantizer  # noqa: F401

    pruned = checkpoint()
    export_sparse24(pruned, tmp_path / "out")
    form = json.loads((tmp_path / "out/config.json").read_text())["quantization_config"]
    assert form["quant_method"] == "sparse24"
    assert form["layers"]
    data, body = split_card((tmp_path / "out/README.md").read_text())
    assert {"sparse24", "magnitude"} <= set(data.tags)
    assert body.count("## Use\n") == 1
    assert "sparse24_quantizer" in body
    ids = torch.arange(2, 26).view(2, 12)
    with torch.inference_mode():
        one = AutoModelForCausalLM.from_pretrained(pruned)(ids).logits
        assert AutoModelForCausalLM.from_pretrained(tmp_path / "out")(ids).logits.equal(one)
    asked = [Instance("loglikelihood", {}, ("a b", " c"), 0)]
    found = [
        HFLM(pretrained=str(folder), device="cpu").loglikelihood(asked, disable_tqdm=True)
        for folder in (pruned, tmp_path / "out")
    ]
    assert found[0] == found[1]
    # Without the package no weights are drawn at random.
    monkeypatch.delitem(auto.AUTO_QUANTIZATION_CONFIG_MAPPING, "sparse24")
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        AutoModelForCausalLM.from_pretrained(tmp_path / "out")
