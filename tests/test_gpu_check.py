"""``gpu_check.py`` without a GPU: on the CPU, and what a GPU runs on a fake one."""

import fake_triton
import pytest
import torch
from fake_gpu import DEVICE, fake_gpu

import gpu_check


def test_the_report_has_every_part(tmp_path):
    report = gpu_check.check("cpu", "tiny", tmp_path)
    assert report["system"]["device"] == "cpu"
    assert set(report["seconds"]) == {*gpu_check.STEPS, "all"}
    # On one device there is nothing to differ in.
    assert len(report["masks"]) == 2 * 7
    assert all(row["disagreement"] == 0 for row in report["masks"])
    phases = report["pruning"]["phases"]
    assert set(phases) == {"load", "forward", "hessian", "solve", "write", "rest", "all"}
    assert all(seconds > 0 for seconds in phases.values())
    parts = [seconds for name, seconds in phases.items() if name != "all"]
    assert sum(parts) == pytest.approx(phases["all"], rel=1e-6)
    assert len(report["pruning"]["blocks"]) == 3
    assert report["pruning"]["peak_device_bytes"] is None


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
