"""Each call that writes goes wrong once: the disk is full, the disk breaks, the process is killed.

``faults.c`` counts those calls below one folder and lets the n-th fail. A process that has it
preloaded forks a child for each n. After it: killed, or one sentence and status 2, or the whole
result; nothing half-written under a final name; the user's files as they were; and the same
command again ends with the bytes of an undisturbed run. So many points of each command are drawn
as EVENPRUNE_FAULTS says (default: 2, and the quick ones); ``all`` takes each call in each way.
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

import huggingface_hub
import pytest
from evaluation_fixtures import save_model, write_datasets
from fake_hub import FakeHub
from folders import snapshot
from snakemake_runs import snakemake
from test_gguf import write_gguf
from test_packages import make_wheel
from test_sources import MODEL, stories, write_config
from tqdm import tqdm

from evenprune.io.files import write_json

from .scenes import REPO, Scene, scenes
from .test_attacks import Outcome, below, end_child, in_memory, start_child

POINTS = os.environ.get("EVENPRUNE_FAULTS", "2")
MORE = ["check", "compare-masks", "export-sparse24", "build-calibration", "own questions"]
MORE += ["compare in a run", "prune, resumed", "evaluate, resumed", "prefetch", "workflow"]
MORE = MORE if "EVENPRUNE_FAULTS" in os.environ else []
WAYS = {"full": errno.ENOSPC, "broken": errno.EIO, "killed": -signal.SIGKILL}
STATE = "EVENPRUNE_FAULT_STATE"
HIT, ROOT, SIZE = 12, 512, 1012  # places in the struct of faults.c

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200 if POINTS == "2" else 0)]


@cache
def all_scenes(made):
    return {one.name: one for one in [*scenes(made), *fetching(made), *workflow(made)]}


def fetching(made):
    """What lies in a cache of the user's: of a GGUF file, of a hub, of a Python package."""
    write_gguf(made / "gguf/in/tiny.gguf")
    argv = ["fetch-source", "--kind", "models", "--name", "m", "--out", "../out.json", "--entry"]
    argv += [json.dumps({"path": "../in/tiny.gguf"})]
    yield Scene("GGUF", made / "gguf", argv, ("out.json", "cache/sources"), {})
    server = FakeHub()
    huggingface_hub.constants.HF_HUB_OFFLINE = False
    server.serve(pytest.MonkeyPatch(), made.parent / "case/cache/hub")
    server.repository("model", "org/model").push(MODEL)
    server.repository("dataset", "org/stories").push({"data/validation.jsonl": stories("A", "B")})
    package = make_wheel(made / "index")
    os.environ |= {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    os.environ["PIP_FIND_LINKS"] = str(made / "index")
    write_config(made / "hub/in", "../lock.json", ["dense", "sparsegpt"], {"package": package})
    argv = ["prefetch", "--configfile", "../in/config.yaml", "--catalogue", "../in/catalogue.yaml"]
    wheel = f"cache/packages/{package['name']}-{package['sha256'][:12]}.whl"
    outputs = ["lock.json", wheel, "cache/sources"]
    repositories = ("models--org--model", "datasets--org--stories")
    outputs += [f"cache/hub/{name}/snapshots" for name in repositories]
    yield Scene("prefetch", made / "hub", argv, tuple(outputs), {})


def workflow(made):
    """A model that is fetched, pruned by the sizes of its weights, and evaluated."""
    mirror = made / "workflow/mirror"
    save_model(mirror / "models/m", positions=4096)
    write_datasets(mirror / "data")
    config = {
        "source": "external", "mirror": "../mirror", "results": "results", "tables": ["main"],
        "models": {"m": {"label": "M"}},
        "benchmarks": {"stereoset": {"task": "stereoset", "dataset": "stereoset"}},
        "experiments": {"main": {"models": ["m"], "methods": ["dense", "magnitude"],
                              "regimes": ["2of4"], "calibrations": ["ss"]}},
    }  # fmt: skip
    write_json(made / "workflow" / "work" / "config.yaml", config)
    target = "results/evals/m/magnitude/2of4/none/s0/summary.json"
    argv = [target, "--snakefile", str(REPO / "workflow/Snakefile"), "--cores", "1"]
    argv += ["--configfile", "config.yaml", "--workflow-profile", str(REPO / "profiles/default")]
    yield Scene("workflow", made / "workflow", argv, ("work/results",), {})


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
        """Return the result, whose links may lead elsewhere, without what no step depends on."""
        ours = [name for name in found if below(name, self.scene.outputs)]
        return {
            name: (self.folder / name).read_bytes() if isinstance(found[name], str) else found[name]
            for name in ours
            if not any(one in name for one in ("/logs/", "provenance", ".snakemake_timestamp"))
        }

    def arm(self, at, fault, below=""):
        """Let call number ``at`` of what is started next meet with the fault."""
        root = f"{self.folder}/{below}".encode() if at else b""
        self.state[:] = struct.pack("3i500s500s", at, fault, 0, b"", root)
        os.environ["EVENPRUNE_CACHE"] = str(self.folder / "cache")

    def start(self, answer):
        tqdm.set_lock(threading.RLock())  # its own is held for ever by a killed process
        return start_child(self.scene.argv, self.folder / "work", answer)

    def run(self, at=0, fault=0):
        """Return the number of calls and the outcome."""
        self.arm(at, fault)
        outcome = end_child(self.start(self.answer), self.answer)
        self.state[ROOT : ROOT + 1] = b"\0"  # nothing of this process is counted
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
        made = self.output(after).items()
        # What is pinned is written down one by one.
        half = [n for n, what in made if n != "lock.json" and what != self.good.get(n, what)]
        kept = [name for name in before if not below(name, self.scene.outputs)]
        if lost := [name for name in kept if after.get(name) != before[name]]:
            return f"lost {lost[:3]}"
        if half:
            return f"half-written {half[:3]}"
        if way == "killed" and (outcome.raised == "SIGKILL" or outcome.status == -signal.SIGKILL):
            return ""
        if outcome.status == 0:
            return "" if self.output(after) == self.good else "success without the whole result"
        return self.unclear(outcome)

    def unclear(self, outcome):
        said = [line for line in outcome.said.splitlines() if line.startswith("error: ")]
        plain = outcome.status == 2 and len(said) == 1 and "Traceback" not in outcome.said
        return "" if plain else f"not one sentence: {outcome}"

    def wrong_again(self, before, after=None):
        if after is None:
            _, outcome = self.run()
            after = snapshot(self.folder)
            if outcome.status != 0:
                return f"again: {outcome}"
        if self.output(after) != self.good:
            found = self.output(after).items() ^ self.good.items()
            return f"again: other bytes of {sorted({name for name, _ in found})[:3]}"
        allowed = (*self.scene.outputs, "cache", "work/.snakemake")
        new = [name for name in after if name not in before]
        stray = [name for name in new if not below(name.removesuffix(".sha256"), allowed)]
        return f"again: stray {stray[:3]}" if stray else ""

    def interleave(self, at):
        """Stop the command at a call, run it a second time meanwhile, and let it go on."""
        self.lay_out()
        before, second = snapshot(self.folder), self.answer.with_name("second")
        self.arm(at, -signal.SIGSTOP)
        first = self.start(self.answer)
        os.waitid(os.P_PID, first, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.arm(0, 0)
        other, patience = self.start(second), time.monotonic() + 1
        while time.monotonic() < patience:  # or it waits for the first one
            if os.waitid(os.P_PID, other, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                break
            time.sleep(0.01)
        os.kill(first, signal.SIGCONT)
        outcomes = [end_child(first, self.answer), end_child(other, second)]
        wrong = [self.unclear(one) for one in outcomes if one.status != 0]
        if len(wrong) == 2 or any(wrong):
            return f"two at {at}: {outcomes}"
        wrong = self.wrong_again(before, snapshot(self.folder))
        return f"two at {at}, {outcomes}: {wrong}" if wrong else ""


class Workflow(Commands):
    """Snakemake and its jobs; the calls below results/ are counted."""

    def run(self, at=0, fault=0):
        self.arm(at, fault, "work/results/")
        left = any((self.folder / "work/.snakemake/locks").glob("*"))  # where it was killed
        for words in [["--unlock"]] * left + [[]]:
            done = snakemake(self.folder / "work", *self.scene.argv, *words)
        calls = struct.unpack_from("3i", self.state)[2]
        return calls, Outcome(2 if done.returncode == 1 else done.returncode, done.stdout)

    def unclear(self, outcome):
        # The latter: of a Python that could not print its own.
        wrong = [one for one in ("Traceback", "lost sys.stderr") if one in outcome.said]
        return f"not in words: {outcome.said[-3000:]}" if wrong or outcome.status != 2 else ""


def draw(moments, name, points):
    count = len(moments) if points == "all" else min(int(points), len(moments))
    return random.Random(name).sample(list(moments), count)


def interleaved(name, place, points):
    """Run a command twice at once, the first stopped at drawn calls; return what fell."""
    played = Commands(all_scenes(place / "made")[name], place)
    moments = draw(range(1, played.calls + 1), name, points)
    return [wrong for at in moments if (wrong := played.interleave(at))]


def campaign(name, place, points):
    """Play points of a command, in a process that has faults.c preloaded."""
    kind = Workflow if name == "workflow" else Commands
    played = kind(all_scenes(place / "made")[name], place)
    moments = draw(list(itertools.product(range(1, played.calls + 1), WAYS)), name, points)
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
    with (
        in_memory(tmp_path_factory.mktemp("faults")) as place,
        pytest.MonkeyPatch.context() as set_,
    ):
        library = place / "faults.so"
        source = Path(__file__).with_name("faults.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        (place / "state").write_bytes(bytes(SIZE))
        set_.setenv("LD_PRELOAD", str(library))
        set_.setenv(STATE, str(place / "state"))
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            yield pool, place


@pytest.mark.parametrize(
    "name",
    ["prune", "evaluate stereoset", "compare", "GGUF", "collect-results", "make-tables", *MORE],
)
def test_each_call_that_writes_may_fail(process, name):
    pool, place = process
    calls, played, ended, failures = pool.submit(campaign, name, place, POINTS).result()
    print(f"{name}: {calls} calls, {played} played: {dict(ended)}")
    assert calls > 5
    assert not failures, "\n".join(failures)


def test_two_processes_on_one_output(process):
    pool, place = process
    assert not pool.submit(interleaved, "prune", place, POINTS).result()
