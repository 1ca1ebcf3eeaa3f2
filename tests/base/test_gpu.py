import os
import subprocess
import sys
import time

import pytest

from evenprune.base.gpu import claim, claim_device

HOLDER = """
import sys, time
from pathlib import Path
from evenprune.base.gpu import claim
with claim(["a", "b"], Path(sys.argv[1])) as index:
    print(index, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path, repo):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(repo / "src")},
    )
    assert process.stdout.readline().strip() == "0"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_jobs_take_different_devices_and_a_dead_job_frees_its_own(holder, tmp_path):
    with claim(["a", "b"], tmp_path) as index:
        assert index == 1
    holder.kill()
    holder.wait()
    with claim(["a", "b"], tmp_path) as index:
        assert index == 0


def test_a_job_waits_while_all_are_taken(holder, tmp_path, capfd):
    start = time.monotonic()
    killer = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {holder.pid}"])
    with claim(["a"], tmp_path, interval=0.05) as index:
        assert index == 0
    killer.wait()
    assert time.monotonic() - start > 0.3
    assert capfd.readouterr().err.count("waiting") == 1


def test_an_error_frees_the_device(tmp_path):
    with pytest.raises(RuntimeError, match="boom"), claim(["a"], tmp_path):
        raise RuntimeError("boom")
    with claim(["a"], tmp_path) as index:
        assert index == 0


def test_cpu_needs_no_claim_and_no_device_is_an_error(tmp_path):
    with claim_device("cpu") as device:
        assert device == "cpu"
    with pytest.raises(ValueError, match="no device"), claim([], tmp_path):
        pass
