"""Processes killed at seeded moments, then started again: the bytes of a run that was let be."""

import json
import os
import random
import shutil
import signal
import time

import pytest
from fake_hub import FakeHub
from pruning_models import random_pairs, save_model, write_rows

from evenprune.cli import main
from evenprune.data.hub import Hub
from evenprune.data.prefetch import prefetch

pytestmark = pytest.mark.slow


def files(*roots):
    """Bytes of all files below some folders, but for times and hosts."""
    return {
        str(path): path.read_bytes()
        for root in roots
        for path in ([root] if root.is_file() else sorted(root.rglob("*")))
        if path.is_file() and path.name != "provenance.json"
    }


def names(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def run_in_child(command):
    """Start a command in a process of its own; return its id."""
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os._exit(command())
        finally:
            os._exit(1)
    return child


def killed(child):
    """Wait for a process; return whether it was killed. Anything but success is a failure."""
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def kill_after(command, seconds):
    """Kill a command after a time; return whether it still ran."""
    child = run_in_child(command)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)  # of no effect on one that is done
    return killed(child)


def kill_at_rename(command, number):
    """Kill a command right before it gives its n-th file or folder the final name."""

    def doomed():
        real, left = os.replace, number

        def replace(*args, **options):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **options)

        os.replace = replace
        return command()

    return killed(run_in_child(doomed))


def torture(make, clear, folder, kills, seed, at_rename):
    """Kill ``make(root)`` so many times, let it end, and compare with a run that was let be.

    Half of the kills come at a moment drawn from the run's duration, half at a rename. What a
    kill leaves is kept for the next run, but for finished output, which ``clear`` takes away.
    """
    rng = random.Random(seed)
    whole, root = folder / "a" / "root", folder / "b" / "root"
    whole.mkdir(parents=True)
    root.mkdir(parents=True)
    assert make(whole) == 0
    clear(whole)
    start = time.monotonic()
    assert make(whole) == 0
    duration = time.monotonic() - start
    expected = {name.replace("/a/root", "/b/root"): data for name, data in files(whole).items()}
    count = 0
    for attempt in range(20 * kills):
        if count == kills:
            break
        if attempt % 2:
            hit = kill_at_rename(lambda: make(root), rng.randint(1, at_rename))
        else:
            hit = kill_after(lambda: make(root), duration * rng.random())
        count += hit
        if not hit:  # it came to its end, behind earlier kills
            assert {k: v for k, v in files(root).items() if k in expected} == expected
            clear(root)
    assert count == kills
    assert make(root) == 0
    left = files(root)
    assert {name: left.get(name) for name in expected} == expected
    kept = names(whole)
    assert [name for name in names(root) if name not in kept] == []
    return count


def test_prune(tmp_path):
    base = save_model(tmp_path / "base", "llama2", num_hidden_layers=6, hidden_size=64)
    pairs = write_rows(tmp_path / "pairs.jsonl", random_pairs(40))

    def make(root):
        words = ["prune", "--model", str(base), "--pairs", str(pairs), "--out", str(root / "out")]
        words += ["--method", "debias-sparsegpt", "--regime", "2of4", "--device", "cpu"]
        return main(words)

    def clear(root):
        shutil.rmtree(root / "out", ignore_errors=True)

    torture(make, clear, tmp_path, 6, 1, 8)


def test_evaluate_checkpoint(tmp_path):
    from evaluation_fixtures import save_model as save_scored
    from evaluation_fixtures import write_datasets

    model = save_scored(tmp_path / "model")
    data = write_datasets(tmp_path / "data")
    wanted = {
        name: {"task": name, "data": str(data / name), "batch_size": 2}
        for name in ("bbq", "unqover", "mmlu")
    }

    def make(root):
        words = ["evaluate-checkpoint", "--model", str(model), "--benchmarks", json.dumps(wanted)]
        return main([*words, "--out", str(root / "out"), "--device", "cpu"])

    def clear(root):
        shutil.rmtree(root / "out", ignore_errors=True)

    torture(make, clear, tmp_path, 6, 2, 7)


def test_results_table_and_figure(repo, tmp_path):
    from reporting_run import small_config, write_run

    from .scenes import one_experiment

    run_sheet = write_run(one_experiment(small_config(repo, tmp_path / "run"), "main"), 40)

    def make(root):
        given = ["--run-sheet", str(run_sheet)]
        out = ["--out", str(root / "results.csv"), "--significance", str(root / "tests.csv")]
        shown = [*given, "--results", str(root / "results.csv"), "--out-prefix"]
        steps = (
            ["collect-results", *given, *out],
            ["make-table", "--table", "main", "--significance", str(root / "tests.csv"), *shown,
             str(root / "main")],
            ["make-figure", "--figure", "unqover_heatmap", *shown, str(root / "heatmap")],
        )  # fmt: skip
        return max(main(step) for step in steps)

    def clear(root):
        for file in root.glob("[!.]*"):
            file.unlink()

    torture(make, clear, tmp_path, 8, 3, 9)


def test_prefetch(tmp_path, monkeypatch):
    from huggingface_hub import constants
    from test_sources import MODEL, STORIES, safetensors, stories

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    server = FakeHub()
    try:
        extra = {f"model_{k}.json": b"[" + b"1," * 200_000 + b"1]" for k in range(6)}
        server.repository("model", "org/model").push({**MODEL, **extra})
        assert safetensors() == MODEL["model.safetensors"]
        rows = stories(*(f"story {k}" for k in range(200)))
        server.repository("dataset", "org/stories").push({"data/validation.jsonl": rows})
        items = [("data", "tinystories", STORIES), ("models", "m", {"hub": "org/model"})]

        def make(root):
            hub = Hub(cache=root.parent / "cache", endpoint=server.url)
            lock = root / "lock.json"
            prefetch(items, mirror=None, lock_path=lock, into=root / "mirror", hub=hub)
            return 0

        def clear(root):
            shutil.rmtree(root.parent / "cache", ignore_errors=True)
            shutil.rmtree(root / "mirror", ignore_errors=True)
            (root / "lock.json").unlink(missing_ok=True)

        torture(make, clear, tmp_path, 6, 4, 8)
    finally:
        server.close()
