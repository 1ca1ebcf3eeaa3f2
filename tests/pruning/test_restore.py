"""`restore`: a checkpoint deleted after its last use is made again, once, with the same bytes."""

import shutil
import subprocess
import sys

import pytest
from pruning_models import random_pairs, save_model, write_rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def start(verb, base, pairs, out):
    words = [verb, "--model", base, "--pairs", pairs, "--out", out]
    words += ["--method", "sparsegpt", "--regime", "2of4", "--device", "cpu"]
    command = [sys.executable, "-m", "evenprune.steps", *map(str, words)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def shards(folder):
    return {file.name: file.read_bytes() for file in folder.glob("*.safetensors")}


def said(process):
    text = process.communicate()[1]
    assert process.returncode == 0, text
    return text


def test_two_that_ask_at_a_time_get_one_checkpoint_of_the_same_bytes(tmp_path):
    base = save_model(tmp_path / "base", "llama2")
    pairs = write_rows(tmp_path / "pairs.jsonl", random_pairs(20))
    out = tmp_path / "kept" / "model"
    said(start("prune", base, pairs, out))
    before = shards(out)
    assert before
    assert "pruned again" not in said(start("restore", base, pairs, out))
    shutil.rmtree(out)
    both = [start("restore", base, pairs, out) for _ in range(2)]
    assert sum("pruned again" in said(one) for one in both) == 1
    assert shards(out) == before
    assert [file.name for file in out.parent.iterdir()] == ["model"]
