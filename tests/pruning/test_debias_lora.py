"""A whole run of debias-lora: what is changed, what prunes it, what is recorded and refused."""

import json
import shutil

import pytest
import torch
from pruning_models import prune_command, random_pairs, save_model, write_rows
from safetensors.torch import load_file, save_file

from evenprune.cli import main
from evenprune.methods import adapters

LORA = {"method": "debias-lora", "lora_steps": 5, "lora_rate": 0.01, "lora_blocks": 1}


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = tmp_path_factory.mktemp("targets")
    base = save_model(folder / "base", "llama2")
    return base, write_rows(folder / "pairs.jsonl", random_pairs(20))


def run(base, pairs, out, **options):
    return main(prune_command(base, out, pairs, **{"method": "sparsegpt"} | options))


def tensors(folder):
    return {k: v for file in folder.glob("*.safetensors") for k, v in load_file(file).items()}


def checked(folder, base):
    report = folder.with_suffix(".json")
    assert main(["check", "--model", str(folder), "--base", str(base), "--out", str(report)]) == 0
    return json.loads(report.read_text())


@pytest.mark.parametrize(("regime", "solver"), [("2of4", "sparsegpt"), ("u50", "wanda")])
def test_adapters_are_of_the_model_and_a_solver_prunes_it(
    case, tmp_path, monkeypatch, regime, solver
):
    """The method pruned is what the other method makes of the method's dense model."""
    monkeypatch.setattr(adapters, "HELD_OUT", 0.0)  # random models have nothing to carry over
    base, pairs = case
    assert run(*case, tmp_path / "out", **LORA, regime=regime, solver=solver) == 0
    assert run(*case, tmp_path / "moved", **LORA, regime="dense") == 0
    shutil.copytree(base, tmp_path / "base", ignore=shutil.ignore_patterns("*.safetensors*"))
    moved = tensors(tmp_path / "moved")
    save_file(moved, tmp_path / "base" / "model.safetensors", metadata={"format": "pt"})
    given = {"method": solver, "regime": regime}
    assert run(tmp_path / "base", pairs, tmp_path / "then", **given) == 0
    ours, expected = tensors(tmp_path / "out"), tensors(tmp_path / "then")
    assert set(ours) == set(expected)
    assert all(torch.equal(ours[name], expected[name]) for name in ours)
    before = load_file(base / "model.safetensors")
    for name, weight in moved.items():
        changed = ".layers." in name and before[name].ndim == 2
        assert torch.equal(weight, before[name]) != changed, name
    checked(tmp_path / "out", base)
    assert checked(tmp_path / "moved", base)["regime"] == "dense"


def test_the_manifest_and_the_card_say_what_the_training_did(case, tmp_path):
    assert run(*case, tmp_path / "out", **LORA, regime="dense") == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    prepared = manifest["prepared"]
    assert prepared["contexts"] > prepared["contexts_held_out"] > 0
    assert len(prepared["steps"]) == 5
    assert manifest["options"]["lora_rate"] == 0.01
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"adapters were trained on {prepared['contexts']} contexts" in card
    assert ("so nothing was changed" in card) == (not prepared["kept"])
    assert "no zeros, the changed weights" in card


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"regime": "dense"}, ("takes no weights away", "debias-lora")),
        ({"block_size": "6"}, ("--block-size: got 6, expected a multiple of 4",)),
        ({**LORA, "alignment": "pad"}, ("--alignment: got 'pad'", "suffix")),
        (
            {"method": "debias-sparsegpt", "bias_scaling": "released-2026"},
            ("--alignment: got 'equal-length', expected 'pad'",),
        ),
    ],
)
def test_options_that_do_not_fit(case, tmp_path, capsys, options, words):
    assert run(*case, tmp_path / "out", **options) == 2
    message = capsys.readouterr().err
    for word in words:
        assert word in message
    assert not (tmp_path / "out").exists()
