"""``gpu-check`` without a GPU: the program itself on the CPU, and what a GPU runs on a fake one."""

import json

import fake_triton
import pytest
import torch
from both import refused
from fake_gpu import DEVICE, fake_gpu

from evenprune.cli import main
from evenprune.hardware import gpu_check


def test_the_report_has_every_part_and_its_page_claims_nothing(tmp_path):
    out = tmp_path / "out"
    assert main(["gpu-check", "--device=cpu", f"--out={out}"]) == 0
    report = json.loads((out / "gpu-check.json").read_text())
    page = (out / "gpu-check.md").read_text()
    assert report["system"]["device"] == "cpu"
    # On one device there is nothing to differ in.
    assert len(report["masks"]) == 2 * 7
    assert all(row["disagreement"] == 0 and row["module"] in page for row in report["masks"])
    phases = report["pruning"]["phases"]
    assert set(phases) == {"load", "forward", "hessian", "solve", "write", "rest", "all"}
    assert min(phases.values()) > 0
    assert sum(phases.values()) == pytest.approx(2 * phases["all"], rel=1e-6)
    assert len(report["pruning"]["blocks"]) == 3
    assert report["pruning"]["peak_device_bytes"] is None
    assert "None of its times say anything about a GPU" in page
    assert "Memory of the device: not measured" in page
    assert "nan" not in page
    assert page == gpu_check.page(report)


def test_without_a_gpu_it_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    argv = ["gpu-check", "--out", tmp_path / "out"]
    refused(capsys, argv, "torch sees no GPU here")
    monkeypatch.setattr(gpu_check, "DISK", {"tiny": 1 << 60})
    refused(capsys, [*argv, "--device", "cpu"], "MB of free disk")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_what_a_gpu_runs_on_a_fake_one(tmp_path, monkeypatch):
    """All steps on the device that is not there."""
    facts = {"name": "fake", "major": 9, "minor": 0, "total_memory": 1}
    stand_ins = {
        "set_device": lambda _: None,
        "get_device_properties": lambda _: type("Facts", (), facts),
        "reset_peak_memory_stats": lambda _: None,
        "max_memory_allocated": lambda _: 12_000_000,
    }
    for name, value in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, value)
    with fake_gpu():
        fake_triton.install(monkeypatch)
        report = gpu_check.check(DEVICE, "tiny", tmp_path)
    assert report["system"]["capability"] == "9.0"
    assert report["pruning"]["implementation"] == "triton"
    assert report["pruning"]["peak_device_bytes"] == 12_000_000
    assert all(row["disagreement"] == 0 for row in report["masks"])
    page = gpu_check.page(report)
    assert "0.01 GB allocated" in page
    assert "None of its times" not in page
