"""Quantised folders as models: the numbers they stand for, their size, one sentence without a
package; real ones by llm-compressor where it is there."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from both import refused
from evaluation_fixtures import save_model, unqover_rows, write_jsonl
from folders import change_json, change_tensors
from peer_python import llmcompressor_python
from pruning_models import prune_command
from real_model import shortened, smollm2_folder
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, TorchAoConfig

from evenprune.cli import main
from evenprune.io.codedigest import package_versions
from evenprune.io.errors import UserError
from evenprune.language_models.language_model import load_language_model
from evenprune.models.loading import check_model_folder, load_model
from evenprune.models.stored import stored_form
from evenprune.workflow import load_run

COMPRESS = Path(__file__).parents[1] / "support/compress.py"
WEIGHTS = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"}


def rounded(base, out):
    """Write a model in eight bits, a scale for each row, as compressed-tensors stores it; and the
    numbers that it stands for as an ordinary model."""
    plain = out.with_name(f"{out.name}-plain")
    for folder in (out, plain):
        shutil.copytree(base, folder)
    tensors, numbers, weights = load_file(base / "model.safetensors"), {}, {}
    for name, tensor in tensors.items():
        weights[name] = numbers[name] = tensor
        if tensor.ndim > 1 and ".layers." in name:
            scale = tensor.abs().amax(1, keepdim=True) / 127
            integers = (tensor / scale).round().clamp(-128, 127).to(torch.int8)
            weights |= {name: integers, f"{name}_scale": scale}
            numbers[name] = integers * scale
    save_file(weights, out / "model.safetensors", {"format": "pt"})
    save_file(numbers, plain / "model.safetensors", {"format": "pt"})
    group = {"targets": ["Linear"], "weights": WEIGHTS, "format": "int-quantized"}
    config = {"config_groups": {"group_0": group}, "format": "int-quantized", "ignore": ["lm_head"]}
    config |= {"quant_method": "compressed-tensors", "quantization_status": "compressed"}
    change_json(out / "config.json", quantization_config=config)
    return out, plain


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("quantised") / "dense")


def compare(base, other, place, *more, status=0):
    """Compare two models on a few questions."""
    write_jsonl(place / "data/datas_rebuilt.jsonl", unqover_rows(24))
    words = ["compare", base, other, "--benchmark", "unqover", "--limit", "16", *more]
    words += ["--data", place / "data", "--evals", place / "evals"]
    assert main([*map(str, words)]) == status


@pytest.fixture
def compressed(dense, tmp_path):
    pytest.importorskip("compressed_tensors")
    return rounded(dense, tmp_path / "int8")


def test_a_quantised_model_is_the_numbers_it_stands_for(compressed):
    tokens = torch.tensor([[1, 5, 9, 7, 3, 2]])
    logits = []
    for folder in compressed:
        lm = load_language_model(folder, "cpu")
        with torch.inference_mode():
            logits.append(lm.head(lm.hidden(tokens)[0]))
        lm.close()
    torch.testing.assert_close(*logits, rtol=1e-5, atol=1e-5)


def test_bits_and_bytes(dense, compressed):
    size = (dense / "model.safetensors").stat().st_size
    found = stored_form(dense)
    assert (found.bits, found.bytes, found.form) == (32.0, size, "float32")
    tensors = load_file(compressed[0] / "model.safetensors")
    blocks = {k: v for k, v in tensors.items() if ".layers." in k and v.ndim > 1}
    values = sum(v.numel() for v in blocks.values() if v.dtype == torch.int8)
    bits = 8 * sum(v.numel() * v.element_size() for v in blocks.values()) / values
    found = stored_form(compressed[0])
    assert found.bits == bits
    assert found.form == "compressed-tensors"
    assert str(found).startswith(f"{bits:.4g} bits a weight (compressed-tensors), ")


def test_compare_says_what_each_side_takes(dense, compressed, tmp_path, capsys):
    compare(dense, compressed[0], tmp_path, "--out", tmp_path / "out")
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first.startswith(f"{compressed[0]}: {stored_form(compressed[0])}")
    assert (
        second
        == f"against {dense}: 32 bits a weight (float32), {str(stored_form(dense)).split(', ')[1]}"
    )
    said = json.loads((tmp_path / "out/comparison.json").read_text())["stored"]
    assert said[str(dense)]["bits"] == 32.0
    assert str(stored_form(compressed[0])) in (tmp_path / "out/comparison.html").read_text()
    result = next((tmp_path / "evals").glob("*/*/metrics.json"))
    assert set(json.loads(result.read_text())["stored"]) == {"bits", "bytes", "form"}


def test_prune_refuses_and_says_what_to_do(compressed, tmp_path, capsys):
    words = prune_command(compressed[0], tmp_path / "out", method="magnitude")
    refused(capsys, words, "give the model that was quantised")
    assert not (tmp_path / "out").exists()


def test_what_is_missing_is_named_before_anything_is_loaded(compressed, tmp_path):
    gone = "model.layers.1.mlp.up_proj.weight_scale"
    change_tensors(compressed[0] / "model.safetensors", lambda tensors: tensors.pop(gone))
    with pytest.raises(UserError, match=r"lack .*layers\.1\.mlp\.up_proj\.weight_scale"):
        check_model_folder(compressed[0], quantised=True)


@pytest.mark.parametrize(
    ("config", "needed"),
    [
        ({"quant_method": "gptq", "bits": 4}, "gptqmodel and optimum"),
        ({"quant_method": "awq", "bits": 4}, "gptqmodel"),
        ({"load_in_4bit": True, "quant_method": "bitsandbytes"}, "bitsandbytes"),
        ({"quant_method": "torchao", "quant_type": {"default": "int8_weight_only"}}, "torchao"),
    ],
)
def test_a_missing_package_is_one_sentence(dense, tmp_path, capsys, config, needed):
    folder = save_model(tmp_path / "quantised")
    change_json(folder / "config.json", quantization_config=config)
    if "absent" not in package_versions(*needed.split(" and ")).values():
        pytest.skip(f"{needed} is installed")
    with pytest.raises(UserError, match=f"needs the package {needed}; install it"):
        load_model(folder, quantised=True)
    compare(dense, folder, tmp_path, status=2)
    said = capsys.readouterr().err
    assert f"install it (pip install {needed.replace(' and ', ' ')})" in said
    assert not (tmp_path / "evals").exists()


def test_an_unknown_method_is_named(tmp_path):
    folder = save_model(tmp_path / "model")
    change_json(folder / "config.json", quantization_config={"quant_method": "guesswork"})
    with pytest.raises(UserError, match=r"by 'guesswork', which transformers .* does not"):
        check_model_folder(folder, quantised=True)


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "least", "most"), [("8", 8.2, 8.3), ("4", 4.2, 4.3)])
def test_folders_of_llm_compressor(repo, tmp_path, capsys, bits, least, most):
    pytest.importorskip("compressed_tensors")
    recipe = repo / "benchmarks/peer_llmcompressor.py"
    python = llmcompressor_python(repo, "llmcompressor", "0.14", recipe)
    base = shortened(smollm2_folder(), tmp_path / "base")
    out = tmp_path / f"W{bits}A16"
    subprocess.run([python, COMPRESS, base, out, bits], check=True, capture_output=True)
    write_jsonl(tmp_path / "text.jsonl", [{"id": "a", "text": "The cat sat on the mat. " * 40}])
    compare(base, out, tmp_path, "--out", tmp_path / "cmp", "--fidelity", tmp_path / "text.jsonl")
    assert f"{bits}.25 bits a weight (compressed-tensors)" in capsys.readouterr().out
    found = json.loads((tmp_path / "cmp/comparison.json").read_text())
    assert least < found["stored"][str(out)]["bits"] < most
    assert 0 < found["blocks"][0]["fidelity"]["kl"]["value"] < (0.05 if bits == "8" else 5)


@pytest.mark.slow
def test_a_folder_of_torchao(tmp_path, capsys):
    pytest.importorskip("torchao", reason="loads torchao's int8: pip install torchao")
    from torchao.quantization import Int8WeightOnlyConfig

    base, out = shortened(smollm2_folder(), tmp_path / "base"), tmp_path / "int8"
    how = TorchAoConfig(Int8WeightOnlyConfig())
    model = AutoModelForCausalLM.from_pretrained(base, dtype="auto", quantization_config=how)
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(base).save_pretrained(out)
    compare(base, out, tmp_path)
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert re.match(rf"{out}: 8\.\d+ bits a weight \(torchao\), \d+(\.\d)? MB$", first)
    assert second.startswith(f"against {base}: 5 bits a weight (GGUF Q4_1, de-quantised), ")


def test_a_dry_run_refuses_to_prune_it(tmp_path, monkeypatch, repo):
    monkeypatch.chdir(tmp_path)
    config = save_model(tmp_path / "mine") / "config.json"
    change_json(config, quantization_config={"quant_method": "gptq"})
    write_jsonl(tmp_path / "text.jsonl", [{"id": "a", "text": "A man ran."}])
    pairs = "stereotype,anti_stereotype\nA man ran.,A man sat.\n"
    (tmp_path / "pairs.csv").write_text(pairs)
    grid = {"models": ["mine"], "regimes": ["u50"], "calibrations": ["own"], "methods": ["dense"]}
    given = {
        "source": "external", "tables": ["main"], "figures": [], "experiments": {"main": grid},
        "models": {"mine": {"path": "mine", "label": "Mine"}},
        "benchmarks": {"prose": {"task": "perplexity", "dataset": "text.jsonl"}},
        "calibrations": {"own": {"pairs": "pairs.csv"}},
    }  # fmt: skip
    places = (repo / "config/config.yaml", repo / "config/catalogue.yaml", [], False)
    load_run(given, {}, [], *places)
    grid["methods"].append("magnitude")
    with pytest.raises(UserError, match=r"models\.mine: the weights in mine are quantised"):
        load_run(given, {}, [], *places)
