"""``gpu-check`` without a GPU: the program itself on the CPU, and what a GPU runs on a fake one."""

import json

import fake_triton
import pytest
import torch
from fake_gpu import DEVICE, fake_gpu

from evenprune.cli import main
from evenprune.hardware import column_loops, floors, gpu_check, trial
from evenprune.serving import device


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The report of a run on the CPU, and its page."""
    out = tmp_path_factory.mktemp("gpu-check") / "out"
    assert main(["gpu-check", "--device=cpu", "--size=tiny", f"--out={out}"]) == 0
    return json.loads((out / "gpu-check.json").read_text()), (out / "gpu-check.md").read_text()


def test_the_report_has_every_part(tiny):
    report, _ = tiny
    assert report["system"]["device"] == "cpu"
    assert set(report["seconds"]) == {*gpu_check.STEPS, "all"}
    assert all(rate > 0 for rate in report["rates"].values())
    # On one device there is nothing to differ in.
    assert len(report["masks"]) == 2 * 7
    assert all(row["disagreement"] == 0 for row in report["masks"])
    phases = report["pruning"]["phases"]
    assert set(phases) == {"load", "forward", "hessian", "solve", "write", "rest", "all"}
    assert all(phase["seconds"] > 0 for phase in phases.values())
    parts = [phase["seconds"] for name, phase in phases.items() if name != "all"]
    assert sum(parts) == pytest.approx(phases["all"]["seconds"], rel=1e-6)
    assert len(report["pruning"]["blocks"]) == 3
    assert report["pruning"]["peak_device_bytes"] is None
    for row in report["column_loops"]:
        assert row["forms"]["plain"]["equal_to_cpu"] == 1
        assert "reason" in row["forms"]["triton"]
    for row in report["products"]["block"]:
        assert set(row["us"]) == {"dense", "best"}


def test_the_page_says_that_nothing_is_claimed(tiny):
    report, page = tiny
    assert "None of its times say anything about a GPU" in page
    assert "Memory of the device: not measured" in page
    assert page.count("not run") == 3 * len(report["products"]["block"])
    for row in report["masks"]:
        assert row["module"] in page
    assert "nan" not in page
    assert page == gpu_check.page(report)


def test_without_a_gpu_it_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["gpu-check", f"--out={tmp_path / 'out'}"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "needs a CUDA device" in error
    assert "nothing was measured" in error
    assert not (tmp_path / "out").exists()
    assert main(["gpu-check", f"--out={tmp_path / 'out'}", "--device=cpu"]) == 2
    assert "--size tiny" in capsys.readouterr().err
    other = tmp_path / "out" / "gpu-check.json"
    other.parent.mkdir()
    other.write_text("{}")
    assert main(["gpu-check", f"--out={other.parent}", "--device=cpu", "--size=tiny"]) == 2
    assert "did not make" in capsys.readouterr().err


def test_floors_are_the_counted_work():
    decoder = trial.TRIALS["tiny"].decoder
    shapes = decoder.linears()
    weights = sum(rows * width for rows, width in shapes.values())
    d, wide, blocks = 64, 128, 3
    work = floors.work(decoder, 1000, 16)
    # By hand: every pass but what needs no output of down_proj, and no second pass at the end.
    passes = 2 * blocks * weights - weights - blocks * d * wide
    assert work["forward"]["product_flop"] == 2 * 1000 * passes
    assert work["hessian"]["float32_flop"] == 1000 * blocks * (3 * d * d + wide * wide)
    assert work["load"]["to_device_bytes"] == 2 * blocks * weights
    rates = dict.fromkeys(
        ("product_flop_per_s", "float32_flop_per_s", "to_device_bytes_per_s",
         "to_host_bytes_per_s"), 1e6,
    )  # fmt: skip
    once = floors.floors(decoder, 1000, 16, rates)
    assert once["forward"] == work["forward"]["product_flop"] / 1e6
    slower = floors.floors(decoder, 1000, 16, rates | {"product_flop_per_s": 5e5})
    assert slower == once | {"forward": 2 * once["forward"]}


def test_a_form_with_other_masks_is_seen(monkeypatch):
    """Positive control of the shares of equal masks."""
    real = column_loops.prune_columns

    def other(weight, *arguments):
        loss = real(weight, *arguments)
        weight[:, ::2] = 1.0
        return loss

    decoder = trial.TRIALS["tiny"].decoder
    assert all(
        row["forms"]["plain"]["equal_to_cpu"] == 1
        for row in column_loops.column_loops(decoder, "cpu")
    )
    calls = iter(range(10_000))  # every fifth call is the reference's
    monkeypatch.setattr(
        column_loops, "prune_columns",
        lambda *given: (other if next(calls) % 5 else real)(*given),
    )  # fmt: skip
    for row in column_loops.column_loops(decoder, "cpu"):
        assert row["forms"]["plain"]["equal_to_cpu"] == pytest.approx(0.75, abs=0.01)


@pytest.mark.slow
def test_what_a_gpu_runs_on_a_fake_one(tmp_path, monkeypatch):
    """All steps but the 2:4 products on the device that is not there."""
    facts = {"name": "fake", "major": 9, "minor": 0, "total_memory": 1}
    stand_ins = {
        "set_device": lambda _: None,
        "get_device_properties": lambda _: type("Facts", (), facts),
        "reset_peak_memory_stats": lambda _: None,
        "max_memory_allocated": lambda _: 12_000_000,
    }
    for name, value in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setitem(device.GEMM_SIZE, "cuda", 32)
    monkeypatch.setitem(floors.COPIED, "cuda", 1 << 10)
    monkeypatch.setattr(device, "LARGEST_COPY", 1 << 20)

    def measure(shape, tokens, dtype, forms, timer, kind, working_set):
        assert kind == "cuda"
        absent = {"reason": "no such kernel on a fake GPU"}
        cells = {form: absent for form in forms} | {"dense": {"us": 2.0}, "triton": {"us": 1.0}}
        return {count: cells for count in tokens}

    # Its kernels are tested in tests/serving; here no CUDA graph can be captured.
    monkeypatch.setattr("evenprune.hardware.products.measure_layer", measure)
    with fake_gpu() as record:
        fake_triton.install(monkeypatch, record)
        report = gpu_check.check(DEVICE, "tiny", tmp_path)
    assert report["system"]["capability"] == "9.0"
    assert report["pruning"]["implementation"] == "triton"
    assert report["pruning"]["peak_device_bytes"] == 12_000_000
    assert all(row["disagreement"] == 0 for row in report["masks"])
    for row in report["column_loops"]:
        for form in ("plain", "triton"):
            assert row["forms"][form]["equal_to_cpu"] == 1
    row = report["products"]["block"][0]
    assert row["us"] == {"dense": 14.0, "triton": 7.0, "best": 7.0}
    page = gpu_check.page(report)
    assert "0.01 GB allocated" in page
    assert "None of its times" not in page
    assert "no such kernel on a fake GPU" in page
