"""README.md's commands as they stand, in a fresh copy: run, planned, or not run for a reason."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# What takes long is planned (`-n`) instead: all names in it must be right, nothing is computed.
PLANNED = {
    "make demo": "installs, then computes for minutes",
    "make test": "installs, then runs this",
    "make controls": "hours",
    "snakemake --cores all": "minutes",
    "snakemake prefetch --cores 1 --configfile config/paper.yaml": "the network",
    "snakemake --cores 16 --resources gpu=2 --configfile config/paper.yaml": "GPUs, days",
    "snakemake --workflow-profile profiles/slurm --profile profiles/site --configfile "
    "config/paper.yaml": "a cluster, days",
    "snakemake --cores all --configfile config/real-small.yaml --config mirror=PATH": "hours",
    "snakemake --cores all results/tables/main.tex": "minutes",
}
NOT_RUN = {
    "snakemake --cores 1 all --report report.html": "shows a finished run",
    "evenprune explain main --cell world/debias-sparsegpt/1of4/ss/unqover": "shows a finished run; "
    "tests/workflow and tests/reporting run it",
    "evenprune evaluate --model PRUNED --benchmark mmlu --data DATA/mmlu --out EVALUATION-mmlu "
    "--backend vllm": "needs vLLM; tests/evaluation runs it where there is one",
    "evenprune gpu-check --out REPORT": "needs a GPU; tests/hardware runs it on a CPU",
}
START = re.compile(r"(?:make|snakemake|evenprune|python|conda|pip|source) ")


def commands(text):
    """Return the commands of a page's fenced blocks, without comments."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [re.split(r"\s+#", line)[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def all_commands():
    return commands((Path(__file__).parents[1] / "README.md").read_text())


@pytest.fixture(scope="module")
def copy(repo, tmp_path_factory):
    """The files of the repository as git would give them, with this Python first on the path."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=repo, text=True, capture_output=True
    )
    if listed.returncode or not shutil.which("evenprune", path=os.path.dirname(sys.executable)):
        pytest.skip(
            "needs a git checkout, and `evenprune` installed beside this Python (`make env`)"
        )
    folder = tmp_path_factory.mktemp("readme") / "evenprune"
    for name in listed.stdout.splitlines():
        if (repo / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(repo / name, folder / name)
    return folder


def called(words, folder):
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(folder / "src"),
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(words, cwd=folder, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, (
        f"{shlex.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    )
    return done.stdout


def test_the_lists_name_commands_of_the_page_only():
    page = all_commands()
    assert len(page) == len(set(page)) >= 15
    assert sorted((set(PLANNED) | set(NOT_RUN)) - set(page)) == []
    assert not set(PLANNED) & set(NOT_RUN)
    assert [line for line in page if not START.match(line)] == []


def test_the_first_screen_is_short_and_has_both_pictures(repo):
    first = (repo / "README.md").read_text().split("\n## ")[0].splitlines()
    assert len(first) < 60
    assert sum("docs/pictures/" in line for line in first) >= 1


@pytest.mark.slow
@pytest.mark.workflow
@pytest.mark.parametrize("command", PLANNED)
def test_what_takes_long_is_planned(copy, command):
    words = shlex.split(command)
    words.insert(1, "-n")
    if "mirror=PATH" in words:
        (copy / "mirror").mkdir(exist_ok=True)
        words[words.index("mirror=PATH")] = "mirror=mirror"
    assert called(words, copy)


@pytest.mark.slow
def test_the_others_run_one_after_the_other(copy):
    """On the world's data and its shipped model, under the names that the page uses."""
    world = ["evenprune", "generate-world", "--out", "world"]
    called(world, copy)
    called(["evenprune", "shipped-world-model", "--world", "world", "--out", "MODEL"], copy)
    (copy / "DATA").symlink_to("world/data")
    calibration = [
        "--pairs-source",
        "stereoset",
        "--pairs-data",
        "DATA/stereoset",
        "--model",
        "MODEL",
    ]
    called(["evenprune", "build-calibration", *calibration, "--out", "calibration"], copy)
    shutil.copy(copy / "calibration/pairs.jsonl", copy / "pairs.jsonl")
    left = [line for line in all_commands() if line not in PLANNED and line not in NOT_RUN]
    assert len(left) >= 5
    for line in left:
        called(shlex.split(line), copy)
    assert json.loads((copy / "check.json").read_text())
    assert len((copy / "EVALUATION/items.jsonl").read_text().splitlines()) == 500
