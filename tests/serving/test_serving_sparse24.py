"""The compressed 2:4 form: exact round trip, size, refusals, and the loader."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pruning_models import save_model
from safetensors.torch import load_file, save_file

from evenprune.cli import main
from evenprune.io.errors import UserError
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


def prune_2of4(folder: Path) -> None:
    """Zero the two smallest of four along the inputs in every block linear of a saved model."""
    stored = read_folder(folder)
    linears = block_linears(folder, stored)
    state = {name: read_tensor(entry) for name, entry in stored.items()}
    for name, transposed in linears.items():
        matrix = (state[name].T if transposed else state[name]).contiguous()
        groups = matrix.view(matrix.shape[0], -1, 4)
        smallest = groups.abs().float().argsort(-1)[..., :2]
        groups.scatter_(-1, smallest, 0.0)
        state[name] = (matrix.T if transposed else matrix).contiguous()
    save_file(state, folder / "model.safetensors", {"format": "pt"})


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """Make a pruned random model of an architecture and dtype once."""
    made = {}

    def make(name="llama2", dtype=torch.bfloat16):
        if (name, dtype) not in made:
            folder = save_model(tmp_path_factory.mktemp(name), name, dtype=dtype)
            prune_2of4(folder)
            made[name, dtype] = folder
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
    index = export_sparse24(source, tmp_path / "out")
    assert len(index["files"]) > 1
    state = load_sparse24(tmp_path / "out", "cpu").state_dict()
    assert all(same_bits(state[name], read_tensor(e)) for name, e in read_folder(source).items())


def test_a_dense_checkpoint_is_refused_with_layer_and_group(tmp_path, capsys):
    save_model(tmp_path / "dense", "llama2")
    out = tmp_path / "out"
    assert main(["export-sparse24", "--model", str(tmp_path / "dense"), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert "model.layers.0." in error
    assert "group 0 of row 0 holds 4 non-zero values" in error
    assert not out.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["dense"]


def other_format(folder):
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"]["format"] = 99
    (folder / "config.json").write_text(json.dumps(config))


def changed(change):
    def damage(folder):
        state = load_file(folder / WEIGHTS)
        change(state)
        save_file(state, folder / WEIGHTS, {"format": "pt"})

    return damage


WEIGHTS = "sparse24.model.safetensors"
DAMAGES = {
    "expected a 2:4 export of format 2": other_format,
    "a place twice": changed(lambda s: s["model.layers.0.mlp.up_proj.weight_metadata"].zero_()),
    "lack model.norm.weight": changed(lambda state: state.pop("model.norm.weight")),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_damaged_exports_are_refused(checkpoint, tmp_path, message):
    export_sparse24(checkpoint(), tmp_path / "out")
    DAMAGES[message](tmp_path / "out")
    with pytest.raises(UserError, match=re.escape(message)):
        load_sparse24(tmp_path / "out", "cpu")


def test_missing_weights_are_not_drawn_at_random(checkpoint, tmp_path):
    source = tmp_path / "incomplete"
    shutil.copytree(checkpoint(), source)
    state = {name: read_tensor(entry) for name, entry in read_folder(source).items()}
    del state["model.norm.weight"]
    save_file(state, source / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=r"lack model\.norm\.weight"):
        export_sparse24(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.gpu
def test_sparse_kernels_compute_the_dense_product(tmp_path):
    sizes = {"hidden_size": 256, "intermediate_size": 512}
    source = save_model(tmp_path / "model", "llama2", dtype=torch.bfloat16, **sizes)
    prune_2of4(source)
    export_sparse24(source, tmp_path / "out")
    model = load_sparse24(tmp_path / "out", "cuda")
    assert model.sparse24_kernel.startswith("2:4 kernel")
    ids = torch.arange(32, device="cuda").view(2, 16)
    with torch.inference_mode():
        expected = load_model(source, "cuda")(ids).logits.float()
        assert (model(ids).logits.float() - expected).abs().max() < 0.05 * expected.abs().max()
