"""The workflow makes its world again around what others keep there, and never loses one."""

import os

import pytest

from .conftest import copy_workflow, snakemake

pytestmark = [pytest.mark.workflow, pytest.mark.slow]
TARGET = "results/world/world/models/world"
CONFIG = ("--configfile", "config/world.yaml")


def state(folder):
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}


def test_a_world_is_made_again_and_not_lost(repo, tmp_path):
    folder = copy_workflow(repo, tmp_path)
    done = snakemake(folder, "--cores", "1", TARGET, *CONFIG)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    world = folder / "results/world/world"
    mark = world / ".evenprune.json"
    model = (folder / TARGET / "model.safetensors").read_bytes()
    mine = world / "models/mine/model.safetensors"
    mine.parent.mkdir()
    mine.write_bytes(b"days of training")
    os.remove(mark)  # a world of an earlier version has none

    (folder / "seed.yaml").write_text("world: {seed: 3}\n")
    before = state(world)
    done = snakemake(folder, "--cores", "1", TARGET, *CONFIG, "seed.yaml")
    assert done.returncode != 0
    assert "world.seed: got 3" in done.stdout + done.stderr
    assert state(world) == before

    done = snakemake(folder, "--cores", "1", TARGET, *CONFIG, "--forcerun", "generate_world")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert mine.read_bytes() == b"days of training"
    assert mark.is_file()
    assert (folder / TARGET / "model.safetensors").read_bytes() == model
    assert not list(world.parent.glob(".world*"))
