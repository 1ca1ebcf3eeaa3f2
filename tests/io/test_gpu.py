import os
import subprocess
import sys

import pytest

from evenprune.io import gpu
from evenprune.io.errors import UserError
from evenprune.io.gpu import claim_devices, claim_several

HOLDER = """
import sys, time
from pathlib import Path
from evenprune.io.gpu import claim_several
with claim_several(["a", "b"], Path(sys.argv[1]), 1) as (index,):
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
    with claim_several(["a", "b", "c"], tmp_path, 2) as indices:
        assert indices == [1, 2]
        # What is left is too little: nothing of it is held while this one waits.
        holder.kill()
        holder.wait()
        with claim_several(["a", "b", "c"], tmp_path, 1) as (index,):
            assert index == 0


def test_a_job_waits_while_too_few_are_free(holder, tmp_path, capfd):
    killer = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {holder.pid}"])
    with claim_several(["a", "b"], tmp_path, 2, interval=0.05) as indices:
        assert indices == [0, 1]
    killer.wait()
    assert "fewer than 2 of 2 GPUs are free" in capfd.readouterr().err


def test_more_gpus_than_there_are_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu, "visible_gpus", lambda: ["one"])
    monkeypatch.setattr(gpu, "lock_folder", lambda: tmp_path)
    with pytest.raises(UserError, match=r"needs 2 GPUs .* sees 1; run with `--resources gpu=2`"):
        claim_devices("cuda", 2).__enter__()
    with claim_devices("cuda", 1) as devices:
        assert devices == ["cuda:0"]
    with claim_devices("cpu", 2) as devices:
        assert devices == ["cpu"]
