"""Attacked input: right output, or one sentence with exit status 2, and nothing lost.

Attacks are drawn by hypothesis, always the same ones; EVENPRUNE_ATTACKS in the environment asks
for more of each family. A command runs in a child of this process: what it does to itself or how
long it takes harms nobody.
"""

import contextlib
import io
import os
import pickle
import resource
import shutil
import signal
import stat
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from both import main
from folders import snapshot
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from .attacks import CANARY, attack
from .scenes import Scene, scenes

FAMILIES = ("model folders", "own files", "records", "YAML", "foreign results")
COUNT = int(os.environ.get("EVENPRUNE_ATTACKS", 20))  # of each family
SECONDS = 20  # of the processor; three times as many by the clock, for what waits
MEMORY = 8 * 2**30  # above what the warm process has

pytestmark = pytest.mark.slow


@dataclass
class Outcome:
    """What a command did: exit status (None: an exception or a signal), its words, its raise."""

    status: int | None
    said: str = ""
    raised: str = ""


def call(argv: list[str], folder: Path) -> Outcome:
    """Run a command in this process with ``folder`` as the working directory."""
    words = io.StringIO()
    with (
        contextlib.redirect_stderr(words), contextlib.redirect_stdout(words),
        contextlib.chdir(folder),
    ):  # fmt: skip
        try:
            return Outcome(main(argv), words.getvalue())
        except SystemExit as stop:  # argparse's own way to refuse
            return Outcome(stop.code if isinstance(stop.code, int) else 1, words.getvalue())
        except BaseException as error:
            place = traceback.format_exc(limit=-2)
            return Outcome(None, str(error)[:300], f"{type(error).__name__} in {place}")


def start_child(argv: list[str], folder: Path, answer: Path) -> int:
    """Start a command in a fork with a limit of time and memory."""
    child = os.fork()
    if child == 0:
        outcome = Outcome(None, raised="no answer")
        try:
            os.environ[CANARY] = str(answer.with_name("canary"))
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest's own time limit
            signal.alarm(3 * SECONDS)
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS + 1, SECONDS + 2))
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            outcome = call(argv, folder)
        finally:
            answer.write_bytes(pickle.dumps(outcome))
            os._exit(0)
    return child


def end_child(child: int, answer: Path) -> Outcome:
    """Wait for what ``start_child`` started."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return Outcome(None, raised=signal.Signals(os.WTERMSIG(status)).name)
    return pickle.loads(answer.read_bytes())


def below(name: str, roots) -> bool:
    return any(name == root or name.startswith(f"{root}/") for root in roots)


class Stage:
    """The scenes, each played once without any attack, and the rule."""

    def __init__(self, root: Path, scenes: list[Scene]) -> None:
        self.root, self.played, self.done = root, 0, Counter()
        self.good: dict[str, dict[str, object]] = {}
        self.scenes = scenes
        for scene in scenes:
            folder = self.reference(scene)
            self.good[scene.name] = self.output(scene, snapshot(folder))

    def reference(self, scene) -> Path:
        folder = self.lay_out(scene)
        outcome = call(scene.argv, folder / "work")
        assert outcome.status == 2 * (scene.name == "a foreign task"), (scene.name, outcome)
        return folder

    def lay_out(self, scene) -> Path:
        self.played += 1
        folder = self.root / "cases" / str(self.played) / "a"
        shutil.copytree(scene.root, folder, copy_function=shutil.copyfile)
        (folder / "work").mkdir(exist_ok=True)
        (folder / "victim").mkdir()
        (folder / "victim/notes.txt").write_text("do not lose me\n")
        return folder

    @staticmethod
    def output(scene, found):
        names = [n for n in found if below(n, scene.outputs) and "provenance" not in n]
        return {name: found[name] for name in names}

    def play(self, data, family: str) -> str:
        """Attack one file of a scene and return what broke the rule, "" where nothing did."""
        among = [scene for scene in self.scenes if family in scene.attacked]
        scene = data.draw(st.sampled_from(among))
        folder = self.lay_out(scene)
        patterns = scene.attacked[family]
        files = sorted({p for one in patterns for p in folder.glob(one) if p.is_file()})
        file = data.draw(st.sampled_from(files))
        untouched = file.read_bytes()
        done = f"{scene.name}, {file.relative_to(folder)}: {attack(data.draw, file)}"
        changed = not file.is_file() or file.is_symlink() or file.read_bytes() != untouched
        sealed = changed and any(
            file.match(one) or file in folder.glob(one) for one in scene.sealed
        )
        outcome, wrong = self.judged(scene, folder, sealed)
        self.done[outcome.status] += 1
        self.done["changed"] += changed
        shutil.rmtree(folder.parent)
        return f"{wrong}: {done}" if wrong else ""

    def judged(self, scene, folder, sealed):
        """Run a scene as it lies there; return the outcome and what broke the rule."""
        before, answer = snapshot(folder), folder.parent / "answer"
        outcome = end_child(start_child(scene.argv, folder / "work", answer), answer)
        return outcome, self.judge(scene, folder, outcome, before, sealed)

    def judge(self, scene, folder, outcome, before, sealed) -> str:
        after = snapshot(folder)
        if (folder.parent / "canary").exists():
            return "code ran"
        lost = [n for n in before if not below(n, scene.outputs) and after.get(n) != before[n]]
        if lost:
            return f"lost {lost[:3]}"
        if outcome.raised:
            return f"{outcome.raised} {outcome.said}"
        if "\x1b" in outcome.said:
            return f"an escape sequence printed: {outcome.said[:200]!r}"
        new = [n for n in after if n not in before]
        if outcome.status == 2:
            # argparse says the program's name before "error: "
            said = [x for x in outcome.said.splitlines() if x.startswith(("error: ", "evenprune"))]
            if len(said) != 1 or "Traceback" in outcome.said:
                return f"not one sentence: {outcome.said[-300:]!r}"
            whole = {n.rpartition("/")[0] for n in new if n.endswith("items.jsonl")}
            left = [n for n in new if after[n] != stat.S_IFDIR and not below(n, whole)]
            left = [n for n in left if not n.startswith(("out-work/", "out/partial"))]
            return f"output left {left[:3]}" if left else ""
        if outcome.status != 0:
            return f"exit {outcome.status}: {outcome.said[-200:]}"
        stray = [n for n in new if not below(n.removesuffix(".sha256"), scene.outputs)]
        if stray:
            return f"stray {stray[:3]}"
        good = self.good[scene.name]
        # What was there before and is none of ours, such as a renamed file, stays.
        found = self.output(scene, {n: after[n] for n in after if n in good or n not in before})
        differs = sealed and found != good
        return "changed bytes taken in silence" if differs else ""


@contextlib.contextmanager
def in_memory(root):
    """Yield a folder in memory where there is one, else ``root``: cases copy and sync much."""
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK):
        root = memory / f"{root.name}-{os.getpid()}"
    root.mkdir(exist_ok=True)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    with in_memory(tmp_path_factory.mktemp("attacks")) as root:
        yield Stage(root, scenes(root / "made"))


@pytest.mark.parametrize("family", FAMILIES)
def test_attacks_change_nothing_or_end_in_one_sentence(stage, family):
    stage.done.clear()
    failures = []

    @settings(
        max_examples=COUNT, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data())
    def play(data):
        failures.append(stage.play(data, family))

    play()
    assert len(failures) >= COUNT
    assert stage.done["changed"] > 0.8 * COUNT
    assert stage.done[2] > 0.1 * COUNT
    assert not any(failures), "\n".join(filter(None, failures))
