"""Jobs through a real Slurm of one node, which tests/slurm/with-slurm starts for one command."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from .conftest import EMPTY, empty_run

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

TARGET = "results/lists/pruned/first/magnitude/2of4/none/s0/check.json"
# In place of pruning: 600 MB for some seconds, longer than Slurm looks away.
HUNGRY = """case " $* " in
  *" prune "*) head -c 600000000 /dev/zero | tail -c 600000000 | (sleep 3; cat >/dev/null) ;;
esac
while"""
# The cluster, as a user's profiles/site says it. What pruning asks for is too little at first.
SITE = {
    "default-resources": {"slurm_partition": "test", "tasks_per_gpu": 0},
    "set-resources": {"prune_model": {"mem_mb": "300 * attempt ** 3"}},
    "seconds-between-status-checks": 2,
    "slurm-init-seconds-before-status-checks": 2,
    "latency-wait": 5,
}


def missing():
    """Return why there is no Slurm here, or "" where there is one."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    for name in ("sbatch", "slurmctld", "slurmd", "munged"):
        if not shutil.which(name, path=path):
            return f"no {name}: needs Debian's packages slurm-wlm and munge"
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"]
    if subprocess.run(namespaces, capture_output=True).returncode or not os.path.isdir(
        "/etc/slurm"
    ):
        return "needs root, namespaces of its own (unshare) and the folder /etc/slurm"
    if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
        return "no snakemake-executor-plugin-slurm"
    return ""


def test_a_job_killed_for_its_memory_comes_back_with_more(repo, tmp_path):
    """Its steps are stand-ins: what is tested is how they are submitted."""
    if reason := missing():
        pytest.skip(f"no Slurm: {reason}")
    folder = empty_run(repo, tmp_path)
    step = tmp_path / "bin/python"
    step.write_text(step.read_text().replace("while", HUNGRY, 1))
    (folder / "tiny.yaml").write_text(yaml.safe_dump(EMPTY))
    (folder / "profiles/site/config.yaml").write_text(yaml.safe_dump(SITE))
    profiles = ("--workflow-profile", "profiles/slurm", "--profile", "profiles/site")
    words = ("snakemake", TARGET, *profiles, "--configfile", "tiny.yaml")
    path = f"{tmp_path}/bin:{os.path.dirname(sys.executable)}:{os.environ['PATH']}:/usr/sbin"
    environment = {**os.environ, "PATH": path}
    environment.pop("OMP_NUM_THREADS", None)
    before = sorted(os.listdir("/etc/slurm"))
    done = subprocess.run(
        [repo / "tests/slurm/with-slurm", tmp_path / "slurm", *words],
        cwd=folder, env=environment, text=True, capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert sorted(os.listdir("/etc/slurm")) == before
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-4000:]
    assert (folder / TARGET).is_file()
    lines = (tmp_path / "slurm/jobs").read_text().splitlines()
    jobs = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines]
    submitted = re.findall(r"SLURM jobid (\d+) \(log: \S*/(?:rule|group)_([a-z_]+)/", output)
    assert [rule for _, rule in submitted] == ["prune_model"] * 2
    assert [job["JobId"] for job in jobs] == [number for number, _ in submitted]
    assert "localrule fetch_source" in output
    assert [int(re.search(r"mem=(\d+)M", job["Tres"])[1]) for job in jobs] == [300, 2400]
    assert [int(job["TimeLimit"]) for job in jobs] == [120, 240]
    assert [job["JobState"] for job in jobs] == ["FAILED", "COMPLETED"]
    logs = folder / ".snakemake/slurm_logs/rule_prune_model"
    assert "Exceeded job memory limit" in "".join(file.read_text() for file in logs.rglob("*.log"))
