"""`evenprune check` of folders that others made: equal to a naive count of every tensor."""

import json
import shutil

import folders
import pytest
import torch
from both import refused
from evaluation_fixtures import save_model
from folders import change_tensors

from evenprune.cli import main
from evenprune.models.loading import load_model

DOWN, UP = "model.layers.0.mlp.down_proj.weight", "model.layers.1.mlp.up_proj.weight"
GATE = "model.layers.0.mlp.gate_proj.weight"


@pytest.fixture
def base(tmp_path):
    return save_model(tmp_path / "base")


def rewritten(base, out, change):
    """Copy a model and change the dictionary of its tensors."""
    shutil.copytree(base, out)
    change_tensors(out / "model.safetensors", change)
    return out


def naive_patterns(rows):
    held = {}
    for of in (2, 4, 8, 16):
        if rows.shape[1] % of == 0:
            groups = [group for row in rows for group in row.reshape(-1, of)]
            held[of] = min(int((group == 0).sum()) for group in groups)
    return tuple(f"{n}:{of}" for of, n in held.items() if n > 2 * held.get(of // 2, 0))


@pytest.mark.parametrize("shards", [False, True])
def test_counts_equal_naive_ones(base, tmp_path, capsys, shards):
    def pruned(tensors):
        groups = tensors[DOWN].view(len(tensors[DOWN]), -1, 4)
        groups.scatter_(-1, groups.abs().argsort(-1)[..., :2], 0.0)
        tensors[UP].view(-1)[::3] = 0.0
        tensors[UP][0, 0] = 7.0
        tensors[GATE] = tensors["model.layers.1.mlp.gate_proj.weight"].clone()

    model = rewritten(base, tmp_path / "theirs", pruned)
    if shards:
        whole = load_model(model)
        (model / "model.safetensors").unlink()
        whole.save_pretrained(model, max_shard_size="20KB")
    out = tmp_path / "check.json"
    words = ["check", "--model", str(model), "--base", str(base), "--out", str(out)]
    assert main(words) == 0
    report = json.loads(out.read_text())
    dense, found = folders.tensors(base), folders.tensors(model)
    assert set(report["tensors"]) == set(found)
    for name, tensor in found.items():
        held, rows = report["tensors"][name], tensor.numpy()
        assert held["zeros"] == sum(value == 0 for value in rows.flatten().tolist())
        assert held["moved"] == ((rows != dense[name].numpy()) & (rows != 0)).sum()
        assert (held["state"] == "same") == torch.equal(tensor, dense[name])
        if rows.ndim == 2:
            assert tuple(held["patterns"]) == naive_patterns(rows)
    blocks = {k: v for k, v in found.items() if v.ndim > 1 and ".layers." in k}
    zeros, size = (sum(f(v) for v in blocks.values()) for f in (lambda v: int((v == 0).sum()),
                                                               torch.numel))  # fmt: skip
    assert (report["zeros"], report["weights"]) == (zeros, size)
    assert report["tensors"][DOWN]["patterns"] == ["2:4"]
    assert [GATE, "model.layers.1.mlp.gate_proj.weight"] in report["duplicates"]
    said = capsys.readouterr().out
    assert f"{zeros / size:.2%} of the weights of {len(blocks)} matrices" in said
    assert f"equal matrices: {GATE}" in said


def test_nan_ends_with_status_2_after_the_report(base, tmp_path, capsys):
    def broken(tensors):
        tensors[UP][1, 2] = float("nan")

    model = rewritten(base, tmp_path / "theirs", broken)
    assert main(["check", "--model", str(model), "--base", str(base)]) == 2
    said = capsys.readouterr()
    assert "1 changed" in said.out
    assert f"NaN or infinity in {UP}" in said.err


def test_another_dtype_and_other_names(base, tmp_path, capsys):
    def halves(tensors):
        for name in list(tensors):
            tensors[name.removeprefix("model.")] = tensors.pop(name).bfloat16()
        tensors["extra"] = torch.ones(3)

    model = rewritten(base, tmp_path / "theirs", halves)
    assert main(["check", "--model", str(model), "--base", str(base)]) == 0
    said = capsys.readouterr().out
    assert f"{len(folders.tensors(base))} rounded, 1 added" in said
    assert "only in the base" not in said


def test_the_wrong_manifest_is_named(base, tmp_path, capsys):
    (base / "manifest.json").write_text("{}")
    words = ["check", "--model", base, "--base", base]
    refused(capsys, words, "remove it from a folder of others")
