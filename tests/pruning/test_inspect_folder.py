"""`evenprune check` of folders that others made: equal to a naive count of every tensor."""

import json

import pytest
import torch
from evaluation_fixtures import save_model
from safetensors.torch import load_file, save_file

from evenprune.cli import main

DOWN, UP = "model.layers.0.mlp.down_proj.weight", "model.layers.1.mlp.up_proj.weight"
GATE = "model.layers.0.mlp.gate_proj.weight"


@pytest.fixture
def base(tmp_path):
    return save_model(tmp_path / "base")


def rewritten(base, out, change, shards=1):
    """Copy a model with its tensors changed, in one file or several."""
    out.mkdir()
    for file in base.iterdir():
        if not file.name.startswith("model"):
            (out / file.name).write_bytes(file.read_bytes())
    tensors = change(load_file(base / "model.safetensors"))
    if shards == 1:
        save_file(tensors, out / "model.safetensors", {"format": "pt"})
        return out
    places = {}
    for number in range(shards):
        part = {name: tensors[name] for name in sorted(tensors)[number::shards]}
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        save_file(part, out / file, {"format": "pt"})
        places |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (out / "model.safetensors.index.json").write_text(json.dumps(index))
    return out


def naive_patterns(rows):
    held = {}
    for of in (2, 4, 8, 16):
        if rows.shape[1] % of == 0:
            groups = [group for row in rows for group in row.reshape(-1, of)]
            held[of] = min(int((group == 0).sum()) for group in groups)
    return tuple(f"{n}:{of}" for of, n in held.items() if n > 2 * held.get(of // 2, 0))


@pytest.mark.parametrize("shards", [1, 3])
def test_counts_equal_naive_ones(base, tmp_path, capsys, shards):
    def pruned(tensors):
        weight = tensors[DOWN]
        groups = weight.view(len(weight), -1, 4)
        smallest = groups.abs().argsort(-1)[..., :2]
        groups.scatter_(-1, smallest, 0.0)
        third = tensors[UP].flatten()
        third[torch.randperm(len(third))[: len(third) // 3]] = 0.0
        tensors[UP] = third.view(tensors[UP].shape)
        tensors[UP][0, 0] = 7.0
        tensors[GATE] = tensors["model.layers.1.mlp.gate_proj.weight"].clone()
        return tensors

    model = rewritten(base, tmp_path / "theirs", pruned, shards)
    out = tmp_path / "check.json"
    words = ["check", "--model", str(model), "--base", str(base), "--out", str(out)]
    assert main(words) == 0
    report = json.loads(out.read_text())
    dense, found = load_file(base / "model.safetensors"), {}
    for file in model.glob("*.safetensors"):
        found |= load_file(file)
    assert set(report["tensors"]) == set(found)
    for name, tensor in found.items():
        held, rows = report["tensors"][name], tensor.numpy()
        assert held["zeros"] == sum(value == 0 for value in rows.flatten().tolist())
        differs = (rows != dense[name].numpy()) & (rows != 0)
        assert held["moved"] == int(differs.sum())
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
        return tensors

    model = rewritten(base, tmp_path / "theirs", broken)
    assert main(["check", "--model", str(model), "--base", str(base)]) == 2
    said = capsys.readouterr()
    assert "1 changed" in said.out
    assert f"NaN or infinity in {UP}" in said.err


def test_another_dtype_and_other_names(base, tmp_path, capsys):
    def halves(tensors):
        found = {name.removeprefix("model."): one.bfloat16() for name, one in tensors.items()}
        return found | {"extra": torch.ones(3)}

    model = rewritten(base, tmp_path / "theirs", halves)
    assert main(["check", "--model", str(model), "--base", str(base)]) == 0
    said = capsys.readouterr().out
    assert f"{len(load_file(base / 'model.safetensors'))} rounded, 1 added" in said
    assert "only in the base" not in said


def test_the_wrong_manifest_is_named(base, tmp_path, capsys):
    (base / "manifest.json").write_text("{}")
    assert main(["check", "--model", str(base), "--base", str(base)]) == 2
    assert "remove it from a folder of others" in capsys.readouterr().err
