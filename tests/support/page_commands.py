"""Commands of a page's fenced blocks, run in a fresh copy of the repository."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from snakemake_runs import snakemake

START = re.compile(r"(?:make|snakemake|evenprune|python|conda|pip|source) ")


def commands(text):
    """Return the commands of a page's fenced blocks, without comments."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [re.split(r"\s+#", line)[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def fresh_copy(repo, folder):
    """Copy the files of the repository as git would give them."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=repo, text=True, capture_output=True
    )
    if listed.returncode or not shutil.which("evenprune", path=os.path.dirname(sys.executable)):
        pytest.skip(
            "needs a git checkout, and `evenprune` installed beside this Python (`make env`)"
        )
    for name in listed.stdout.splitlines():
        if (repo / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(repo / name, folder / name)
    return folder


def called(words, folder):
    """Run a command with this Python first on the path; return what it printed."""
    if words[0] == "snakemake":
        done = snakemake(folder, *words[1:])
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout[-4000:]}"
        return done.stdout
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": f"{folder}/src:{folder}/worlds",
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(words, cwd=folder, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, (
        f"{shlex.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    )
    return done.stdout
