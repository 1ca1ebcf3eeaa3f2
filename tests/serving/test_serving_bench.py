"""Products of 2:4 weights: what of their measurement runs without a GPU."""

import os
import subprocess
import sys

import pytest
import torch

from evenprune.serving import products24
from evenprune.serving.sparse24 import compress


def test_without_a_gpu_it_says_so_in_one_sentence(repo, tmp_path):
    out = tmp_path / "out.jsonl"
    # transformers is made unimportable: torch alone must be enough
    (tmp_path / "transformers.py").write_text("raise RuntimeError('not needed here')\n")
    done = subprocess.run(
        [sys.executable, str(repo / "benchmarks/bench_sparse24.py"), "--out", str(out)],
        env={
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": os.pathsep.join([str(tmp_path), str(repo / "src")]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "needs a CUDA device" in done.stderr
    assert "nothing was measured" in done.stderr
    assert not out.exists()


def test_random_weights_are_2of4():
    weight = products24.random_2of4(16, 64, torch.bfloat16, "cpu", 3)
    compress(weight)  # refuses anything else
    assert int((weight == 0).sum()) == weight.numel() // 2
    assert not weight.equal(products24.random_2of4(16, 64, torch.bfloat16, "cpu", 4))


def test_floors():
    shape, bandwidth, rate = (512, 1024), 1e9, 1e15
    weights = 512 * 1024 * 2
    activations = (512 + 1024) * 2
    dense = products24.floor_us(shape, 1, 16, False, bandwidth, rate)
    sparse = products24.floor_us(shape, 1, 16, True, bandwidth, rate)
    assert dense == pytest.approx(1e6 * (weights + activations) / bandwidth)
    assert sparse == pytest.approx(1e6 * (weights * 9 / 16 + activations) / bandwidth)
    # where arithmetic is the limit the gain is two
    many = [products24.floor_us(shape, 4096, 16, kind, 1e15, 1e9) for kind in (False, True)]
    assert many[0] / many[1] == pytest.approx(2)
    assert many[0] == pytest.approx(1e6 * 2 * 512 * 1024 * 4096 / 1e9)


def test_a_form_that_fails_or_is_wrong_has_a_reason_and_no_time(monkeypatch):
    real = products24.make_product

    def make_product(form, weight):
        if form == "cusparselt":
            raise RuntimeError("no such kernel\nmore")
        if form == "cutlass":
            return lambda x: real("dense", weight)(x) * 1.5
        return real("dense", weight)

    monkeypatch.setattr(products24, "make_product", make_product)
    copies = []

    def timer(products, x):
        copies.append(len(products))
        return 10.0 * len(x), "graph"

    found = products24.measure_layer(
        (32, 64), [1, 4], torch.float32, products24.FORMS, timer, "cpu", 4 * 32 * 64 * 4
    )
    assert copies == [4] * 4  # dense and triton, one and four tokens, four copies each
    for count in (1, 4):
        assert found[count]["dense"]["us"] == 10.0 * count
        assert found[count]["dense"]["error"] < 1e-6
        assert found[count]["cusparselt"] == {"reason": "no such kernel"}
        assert "wrong result" in found[count]["cutlass"]["reason"]


def test_a_block_sums_its_layers_and_takes_the_best():
    def layer(dense, triton):
        return {1: {"dense": {"us": dense}, "triton": triton, "cutlass": {"reason": "no"}}}

    layers = {"a": layer(4.0, {"us": 1.0}), "b": layer(6.0, {"us": 9.0})}
    floors = {name: {1: {"dense": 2.0, "2of4": 1.0}} for name in layers}
    (row,) = products24.block_rows(layers, floors)
    assert row["us"] == {"dense": 10.0, "triton": 10.0, "best": 7.0}
    assert row["gain"]["best"] == pytest.approx(10 / 7)
    assert row["gain_bound"] == 2
