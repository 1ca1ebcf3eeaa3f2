"""A tiny mirror and configuration, so that the whole workflow runs in a test."""

import functools
import json
import os
import shutil
import subprocess
import sys

import pytest
import snakemake_server
import yaml


@functools.cache
def server():
    """A process that has loaded Snakemake: each run is forked from it, which saves two seconds."""
    environment = {**os.environ}
    environment.pop("OMP_NUM_THREADS", None)
    words = [sys.executable, snakemake_server.__file__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(words, env=environment, text=True, **pipes)


def snakemake(folder, *words, fresh=False, path=""):
    """Run Snakemake in ``folder`` with this Python; return its status and all that it printed.

    ``fresh``: in a process of its own, with the environment as it is now. ``path`` comes first in
    the search path of its jobs.
    """
    path = ":".join(filter(None, [path, os.path.dirname(sys.executable), os.environ["PATH"]]))
    if fresh:
        done = subprocess.run(
            [sys.executable, "-m", "snakemake", *words],
            cwd=folder,
            env={**os.environ, "PATH": path},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return subprocess.CompletedProcess(words, done.returncode, done.stdout, "")
    question = {"folder": str(folder), "words": list(map(str, words)), "path": path}
    print(json.dumps(question), file=server().stdin, flush=True)
    answer = json.loads(server().stdout.readline())
    return subprocess.CompletedProcess(words, answer["status"], answer["output"], "")


def counts(output):
    """Read the job table that Snakemake prints: rule -> number of jobs."""
    found = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isdigit() and words[0][-1] != ":":
            found[words[0]] = int(words[1])
    return found


def copy_workflow(repo, folder):
    """Copy what a run needs, without results: the state of a fresh clone."""
    for name in ("Snakefile", "workflow", "config", "profiles", "src", "worlds", "environment.yml"):
        source = repo / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    return folder


@pytest.fixture(scope="session")
def tiny_mirror(tmp_path_factory):
    """A mirror made here: the invented world's data and an untrained two-block Llama."""
    from evaluation_fixtures import save_model

    from evenprune_world.__main__ import main

    mirror = tmp_path_factory.mktemp("mirror")
    assert main(["generate-world", "--seed", "7", "--out", str(mirror)]) == 0
    save_model(mirror / "models/tiny-llama", positions=4096)
    return mirror


TINY = yaml.safe_load("""
results: results/tiny
source: external
models: {tiny: {mirror: tiny-llama, label: Tiny & co_1}}
benchmarks:
  mmlu: {task: mmlu, dataset: mmlu, limit: 12}
  unqover: {task: unqover, dataset: unqover, limit: 12}
experiments:
  main:
    models: [tiny]
    methods: [dense, sparsegpt, debias-sparsegpt]
    regimes: [2of4]
    calibrations: [ss-uc4]
serving: {experiment: main, batch_sizes: [1], new_tokens: 16, rounds: 2}
tables: [main, calibration, efficiency, masks]
figures: [unqover_heatmap]
""")


# A run of empty files: what is planned and submitted depends on names, times and checksums only.
EMPTY = yaml.safe_load("""
results: results/lists
source: external
mirror: ../mirror
pdf: false
models: {first: {label: First}, second: {label: Second}}
benchmarks:
  mmlu: {task: mmlu, dataset: mmlu, limit: 12}
  unqover: {task: unqover, dataset: unqover, experiments: [main]}
  harmbench: {task: harmbench, dataset: harmbench, experiments: [small]}
experiments:
  main:
    models: [first]
    methods: [dense, magnitude, wanda, sparsegpt, debias-sparsegpt]
    regimes: [2of4]
    calibrations: [ss]
  small: {models: [second], methods: [dense, sparsegpt], regimes: [2of4], calibrations: [ss]}
serving: {}
tables: [main, bbq]
figures: [unqover_heatmap]
""")
# What stands where `python` is: each output that the command line names, with nothing in it.
STAND_IN = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    --out)
      case "$2" in
        */results.csv)
          for name in results significance; do
            : > "${2%results.csv}$name.csv"; : > "${2%results.csv}$name.csv.sha256"
          done ;;
        */report/paper.html)
          : > "$2"; root=${2%report/paper.html}; mkdir -p "${root}tables" "${root}figures"
          for name in tables/main tables/bbq figures/unqover_heatmap; do
            for form in tex csv md html pdf svg png; do : > "$root$name.$form"; done
          done ;;
        *.json | *.csv | *.html) : > "$2" ;;
        *) mkdir -p "$2"
          for name in pairs.jsonl texts.jsonl manifest.json summary.json; do
            : > "$2/$name"
          done ;;
      esac ;;
    --check) : > "$2" ;;
  esac
  shift
done
"""


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def empty_run(repo, root):
    """Write bin/python, which makes empty files, and a checkout beside its mirror into ``root``."""
    put(root / "bin/python", STAND_IN)
    (root / "bin/python").chmod(0o755)
    folder = root / "finished"
    (folder / "checkout").mkdir(parents=True)
    copy_workflow(repo, folder / "checkout")
    for weights in (folder / "checkout/worlds/evenprune_world/weights").glob("*.safetensors"):
        weights.unlink()  # of a world that is not made here
    for name in ("mmlu", "unqover", "harmbench", "stereoset"):
        put(folder / f"mirror/data/{name}/data.jsonl", f"{name} a\n")
    for name in ("first", "second"):
        put(folder / f"mirror/models/{name}/model.safetensors", f"{name} a\n")
    return folder / "checkout"
