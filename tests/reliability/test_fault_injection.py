"""Each call that writes goes wrong once: the disk is full, the disk breaks, the process is killed.

``faults.c`` counts those calls below one folder and lets the n-th fail. A process that has it
preloaded forks a child for each n. After it: killed, or one sentence and status 2, or the whole
result; nothing half-written under a final name; the user's files as they were; and the same
command again ends with the bytes of an undisturbed run. So many points of each command are drawn
as EVENPRUNE_FAULTS says; ``all`` takes each call in each way.
"""

import errno
import itertools
import json
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import pytest
from fake_hub import FakeHub
from tqdm import tqdm

from evenprune.io.files import write_json

from .scenes import Scene, scenes
from .test_attacks import below, end_child, in_memory, snapshot, start_child

POINTS = os.environ.get("EVENPRUNE_FAULTS", "25")
WAYS = {"full": errno.ENOSPC, "broken": errno.EIO, "killed": -signal.SIGKILL}
STATE = "EVENPRUNE_FAULT_STATE"
HIT, ROOT, SIZE = 12, 512, 1012  # places in the struct of faults.c

pytestmark = pytest.mark.slow


@cache
def all_scenes(made):
    return {one.name: one for one in [*scenes(made), *fetching(made)]}


def fetching(made):
    """What lies in a cache of the user's: of a GGUF file, of a hub, of a Python package."""
    from test_gguf import write_gguf
    from test_packages import make_wheel
    from test_sources import MODEL, STORIES, stories

    root = made / "gguf"
    write_gguf(root / "in/tiny.gguf")
    argv = ["fetch-model", "--name", "m", "--out", "../out.json", "--spec"]
    argv += [json.dumps({"entry": {"path": "../in/tiny.gguf"}})]
    yield Scene("GGUF", root, argv, ("out.json", "cache/sources"), {})


class Commands:
    """A command that is run again and again in one place, with and without a fault."""

    def __init__(self, scene, place):
        self.scene, self.folder, self.answer = scene, place / "case", place / "answer"
        self.state = mmap.mmap(os.open(os.environ[STATE], os.O_RDWR), SIZE)
        self.lay_out()
        self.calls, outcome = self.run(1 << 30, 0)
        assert outcome.status == 0, outcome
        self.good = self.output(snapshot(self.folder))

    def lay_out(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.scene.root, self.folder, copy_function=shutil.copyfile)
        (self.folder / "work").mkdir(exist_ok=True)

    def output(self, found):
        return {
            name: content
            for name, content in found.items()
            if below(name, self.scene.outputs) and not name.endswith("provenance.json")
        }

    def start(self, at, fault):
        """Start the command, whose call number ``at`` meets with the fault."""
        root = f"{self.folder}/".encode() if at else b""
        self.state[:] = struct.pack("3i500s500s", at, fault, 0, b"", root)
        tqdm.set_lock(threading.RLock())  # its own is held for ever by a killed process
        os.environ["EVENPRUNE_CACHE"] = str(self.folder / "cache")
        return start_child(self.scene.argv, self.folder / "work", self.answer)

    def run(self, at=0, fault=0):
        """Return the number of calls and the outcome."""
        outcome = end_child(self.start(at, fault), self.answer)
        return struct.unpack_from("3i", self.state)[2], outcome

    def play(self, at, way):
        """Return how the command ended and what broke the rule, "" where nothing did."""
        self.lay_out()
        before = snapshot(self.folder)
        _, outcome = self.run(at, WAYS[way])
        hit = self.state[HIT:ROOT].rstrip(b"\0").decode(errors="replace")
        after = snapshot(self.folder)
        wrong = self.wrong(outcome, before, after, way) or self.wrong_again(before)
        return outcome.status, f"{way} at {at}, {hit}: {wrong}" if wrong else ""

    def wrong(self, outcome, before, after, way):
        half = [name for name in self.output(after) if after[name] != self.good.get(name)]
        half = [name for name in half if name in self.good and not name.startswith("out-work")]
        if lost := [name for name in before if after.get(name) != before[name]]:
            return f"lost {lost[:3]}"
        if half:
            return f"half-written {half[:3]}"
        if way == "killed":
            return "" if outcome.raised == "SIGKILL" else f"not killed: {outcome}"
        if outcome.status == 0:
            return "" if self.output(after) == self.good else "success without the whole result"
        said = [line for line in outcome.said.splitlines() if line.startswith("error: ")]
        plain = outcome.status == 2 and len(said) == 1 and "Traceback" not in outcome.said
        return "" if plain else f"not one sentence: {outcome}"

    def wrong_again(self, before):
        _, outcome = self.run()
        after = snapshot(self.folder)
        if outcome.status != 0:
            return f"again: {outcome}"
        if self.output(after) != self.good:
            found = self.output(after).items() ^ self.good.items()
            return f"again: other bytes of {sorted({name for name, _ in found})[:3]}"
        allowed = (*self.scene.outputs, "cache")
        stray = [n for n in after if n not in before and not below(n.removesuffix(".sha256"), allowed)]
        return f"again: stray {stray[:3]}" if stray else ""


def campaign(name, place, points):
    """Play the points of a command, in a process that has faults.c preloaded."""
    played = Commands(all_scenes(place / "made")[name], place)
    moments = list(itertools.product(range(1, played.calls + 1), WAYS))
    if points != "all":
        moments = random.Random(name).sample(moments, min(int(points), len(moments)))
    ended, failures = Counter(), []
    for at, way in moments:
        status, wrong = played.play(at, way)
        ended[status] += 1
        failures += [wrong] * bool(wrong)
    return played.calls, len(moments), ended, failures


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """A process that has the faults, and its place."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    with in_memory(tmp_path_factory.mktemp("faults")) as place, pytest.MonkeyPatch.context() as set_:
        library = place / "faults.so"
        source = Path(__file__).with_name("faults.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        (place / "state").write_bytes(bytes(SIZE))
        set_.setenv("LD_PRELOAD", str(library))
        set_.setenv(STATE, str(place / "state"))
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            yield pool, place


@pytest.mark.parametrize("name", ["prune", "evaluate stereoset", "compare", "prefetch", "collect-results", "make-tables", "GGUF"])
def test_each_call_that_writes_may_fail(process, name):
    pool, place = process
    calls, played, ended, failures = pool.submit(campaign, name, place, POINTS).result()
    print(f"{name}: {calls} calls, {played} played: {dict(ended)}")
    assert calls > 5
    assert not failures, "\n".join(failures)
