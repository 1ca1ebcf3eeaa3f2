"""Targets and metrics: every linear preference shifts the weights, then any solver prunes them."""

import json
import shutil

import pytest
import torch
from pruning_models import random_pairs, save_model, write_rows
from safetensors.torch import load_file, save_file

from evenprune.blocks.packing import differing
from evenprune.cli import main
from evenprune.data.calibration import TokenPair
from evenprune.methods import adapters, find
from evenprune.methods.masks import REGIMES
from evenprune.methods.options import Options

ERASE = find("debias-erase")
LORA = {"method": "debias-lora", "lora_steps": 5, "lora_rate": 0.01, "lora_blocks": 1}


def sample(seed=0, rows=6, width=12, tokens=40):
    """W, X, Δ of a small layer in float64, and H, D."""
    generator = torch.Generator().manual_seed(seed)
    sizes = ((rows, width), (width, tokens), (width, 15))
    w, x, delta = (torch.randn(*size, generator=generator).double() for size in sizes)
    return w, x, delta, x @ x.T, delta @ delta.T


def erase(weight, h, d, name="layer", **options):
    """The target of debias-erase in float32."""
    given = Options("debias-erase", "2of4", erase_modules=(name,), **options)
    sums = [h.float().clone(), d.float().clone()]
    return ERASE.target([weight.float()], sums, given, [name])


@pytest.mark.parametrize(("strength", "keep"), [(2.5, 0.3), (8.0, 0.0), (2.0, 2.0)])
def test_the_objective_is_the_distance_from_the_target_in_the_metric(strength, keep):
    """``‖(W-Ŵ)X‖² + λ‖(Ŵ-γW)Δ‖² + δ‖Ŵ-W‖²`` and the quadratic differ by a constant."""
    w, x, delta, h, d = sample(1)
    target = erase(w, h, d, erase_strength=strength, erase_keep=keep)
    damped = target.metric.damped().double()
    ridge = (damped - h - strength * d).diagonal().mean()
    constants = []
    for seed in range(4):
        other = w * torch.rand(w.shape, generator=torch.Generator().manual_seed(seed)).double()
        wanted = ((w - other) @ x).square().sum() + ridge * (other - w).square().sum()
        wanted += strength * ((other - keep * w) @ delta).square().sum()
        error = other - target.weights[0].double()
        constants.append(float(wanted - (error @ damped * error).sum()))
    assert max(constants) - min(constants) < 1e-4 * abs(constants[0])
    # The same numbers tell a wrong target apart.
    error = other - w
    assert abs(float(wanted - (error @ damped * error).sum()) - constants[-1]) > 0.1


def test_keeping_the_whole_difference_is_the_papers_term():
    """γ = 1: W* is W, and H' the Hessian of Debias-SparseGPT with λ = 2b."""
    w, _, _, h, d = sample(2)
    target = erase(w, h, d, erase_strength=3.0, erase_keep=1.0)
    assert torch.equal(target.weights[0], w.float())
    assert target.shifts == [None]
    torch.testing.assert_close(target.metric.gram.double(), h + 3.0 * d, rtol=1e-5, atol=1e-4)


def test_the_shift_is_the_relative_change_of_the_outputs():
    w, _, _, h, d = sample(4, width=16)
    options = Options("debias-erase", "2of4", erase_modules=("layer",))
    sums = [h.float(), d.float()]
    ((_, report),) = ERASE.prune([w.float()], sums, REGIMES["2of4"], options, ["layer"])
    change = erase(w, h, d).weights[0].double() - w
    expected = float((change @ h * change).sum() / (w @ h * w).sum()) ** 0.5
    assert report.shift == pytest.approx(expected, rel=1e-3)


# --- the sum of the differences --------------------------------------------------------------


def token_pair(ids0, ids1, matches):
    return TokenPair("p", "c", tuple(ids0), tuple(ids1), tuple(matches))


def test_positions_of_differences():
    pair = token_pair((1, 2, 3, 4, 5), (1, 9, 3, 4, 5), [(k, k) for k in range(5)])
    assert differing(pair) == [(k, k) for k in range(1, 5)]
    pair = token_pair((1, 2, 3, 7), (1, 9, 8, 3, 7), [(0, 0), (2, 3), (3, 4)])
    assert differing(pair) == [(2, 3), (3, 4)]
    same = token_pair((1, 2), (1, 2), [(0, 0), (1, 1)])
    assert differing(same) == []


# --- whole models ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = tmp_path_factory.mktemp("targets")
    base = save_model(folder / "base", "llama2")
    return base, write_rows(folder / "pairs.jsonl", random_pairs(20))


def run(base, pairs, out, **options):
    given = {"device": "cpu", "regime": "2of4", "method": "debias-erase"} | options
    flags = [t for key, value in given.items() for t in (f"--{key.replace('_', '-')}", str(value))]
    return main(["prune", "--model", str(base), "--pairs", str(pairs), "--out", str(out), *flags])


def shards(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.glob("*.safetensors"))}


def tensors(folder):
    return {k: v for file in folder.glob("*.safetensors") for k, v in load_file(file).items()}


def checked(folder, base):
    report = folder.with_suffix(".json")
    assert main(["check", "--model", str(folder), "--base", str(base), "--out", str(report)]) == 0
    return json.loads(report.read_text())


def test_nothing_to_erase_is_sparsegpt_bit_for_bit(case, tmp_path):
    assert run(*case, tmp_path / "erase", erase_strength=0) == 0
    assert run(*case, tmp_path / "plain", method="sparsegpt") == 0
    assert shards(tmp_path / "erase") == shards(tmp_path / "plain")


def test_dense_writes_the_target_and_leaves_the_rest(case, tmp_path):
    base, _ = case
    assert run(*case, tmp_path / "out", regime="dense", erase_modules="down_proj") == 0
    before, after = load_file(base / "model.safetensors"), tensors(tmp_path / "out")
    for name, weight in before.items():
        assert torch.equal(weight, after[name]) == ("down_proj" not in name), name
    report = checked(tmp_path / "out", base)
    assert (report["regime"], report["method"]) == ("dense", "debias-erase")
    assert report["sparsity"] < 0.01
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["options"]["erase_modules"] == ["down_proj"]
    assert "no zeros, the shifted weights" in (tmp_path / "out" / "README.md").read_text()
    rows = (tmp_path / "out" / "layers.csv").read_text().splitlines()
    column = rows[0].split(",").index("shift")
    for row in rows[1:]:
        assert (float(row.split(",")[column] or 0) > 0) == ("down_proj" in row)


@pytest.mark.parametrize(
    ("regime", "solver"), [("2of4", "sparsegpt"), ("1of4", "wanda"), ("u50", "magnitude")]
)
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


def test_a_split_input_group_gives_each_part_its_own_metric(case, tmp_path):
    """v_proj is changed, q and k of the same input are pruned as SparseGPT prunes them."""
    assert run(*case, tmp_path / "out", erase_modules="v_proj,up_proj") == 0
    assert run(*case, tmp_path / "plain", method="sparsegpt") == 0
    ours, plain = tensors(tmp_path / "out"), tensors(tmp_path / "plain")
    for name in ("q_proj", "k_proj"):
        key = f"model.layers.0.self_attn.{name}.weight"
        assert ((ours[key] == 0) == (plain[key] == 0)).float().mean() > 0.99
        torch.testing.assert_close(ours[key], plain[key], atol=1e-3, rtol=1e-3)
    key = "model.layers.0.self_attn.v_proj.weight"
    assert (ours[key] - plain[key]).norm() > 0.01 * plain[key].norm()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"erase_modules": "o_proj,c_proj"}, ("--erase-modules", "'c_proj'", "down_proj")),
        ({"erase_strength": "-1"}, ("--erase-strength", "got -1", "from 0")),
        ({"method": "sparsegpt", "regime": "dense"}, ("takes no weights away", "debias-erase")),
        ({"damping": "nan"}, ("--damping",)),
        ({"block_size": "6"}, ("divisible by 4",)),
        ({**LORA, "lora_rate": "2"}, ("--lora-rate", "less than or equal to 1")),
        ({**LORA, "alignment": "pad"}, ("alignment is 'pad'", "suffix")),
        (
            {"method": "debias-sparsegpt", "bias_scaling": "released-2026"},
            ("--alignment pad", "equal-length"),
        ),
    ],
)
def test_options_that_do_not_fit(case, tmp_path, capsys, options, words):
    assert run(*case, tmp_path / "out", **options) == 2
    message = capsys.readouterr().err
    for word in words:
        assert word in message
    assert not (tmp_path / "out").exists()
