"""Runs damaged cases in children of a warm process and judges them by one rule.

A command must succeed with right output, or exit with status 2 and one sentence ``error: …`` and
leave nothing. In both cases everything that lay there stays, byte for byte.
"""

import contextlib
import gc
import io
import os
import pickle
import resource
import shutil
import signal
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from evenprune.base.marks import MARK

from . import mutations
from .scenarios import Scenario, build_scenarios

LIMIT_S = 20
MEMORY = 8 * 2**30  # above what the warm process has


@dataclass
class Outcome:
    """What a command did: exit status (None: an exception or a signal), its words, its raise."""

    status: int | None
    err: str = ""
    raised: str = ""
    place: str = ""


@dataclass
class Failure:
    """A case that broke the rule."""

    number: int
    command: str
    damage: str
    kind: str
    place: str = ""
    detail: str = ""


@dataclass
class Report:
    """How often each command gave right output or refused, and all cases that broke the rule."""

    success: Counter = field(default_factory=Counter)
    refused: Counter = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    @property
    def cases(self) -> Counter:
        return self.success + self.refused + Counter(one.command for one in self.failures)


def snapshot(root: Path) -> dict[str, object]:
    """Everything below a folder: bytes of files, targets of links, names of folders."""
    found: dict[str, object] = {}
    for folder, names, files in os.walk(root):
        for name in [*names, *files]:
            path = os.path.join(folder, name)
            short = os.path.relpath(path, root)
            if os.path.islink(path):
                found[short] = ("link", os.readlink(path))
            elif os.path.isdir(path):
                found[short] = "folder"
            else:
                with open(path, "rb") as handle:
                    found[short] = handle.read()
    return found


def where(error: BaseException) -> str:
    """The innermost frame of our own code."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "evenprune" in frame.filename]
    frame = (ours or frames)[-1]
    return f"{frame.filename.rpartition('evenprune/')[2]}:{frame.name}"


def run_in_child(argv: list[str], folder: Path) -> Outcome:
    """Run a command in a fork with a limit of time and memory."""
    answer = folder.parents[2] / "answer"  # outside of what is compared
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        outcome = Outcome(None, raised="no answer")
        try:
            signal.alarm(LIMIT_S)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            outcome = call(argv, folder)
        finally:
            answer.write_bytes(pickle.dumps(outcome))
            os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return Outcome(None, raised=signal.Signals(os.WTERMSIG(status)).name)
    return pickle.loads(answer.read_bytes())


def call(argv: list[str], folder: Path) -> Outcome:
    """Run a command in this process with ``folder`` as the working directory."""
    from both import main

    here = os.getcwd()
    err = io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        try:
            os.chdir(folder)
            return Outcome(main(argv), err.getvalue())
        except SystemExit as stop:  # argparse's own way to refuse
            return Outcome(stop.code if isinstance(stop.code, int) else 1, err.getvalue())
        except BaseException as error:
            kind = type(error).__name__
            return Outcome(None, f"{kind}: {str(error)[:300]}", kind, where(error))
        finally:
            os.chdir(here)


def below(name: str, roots: list[str]) -> bool:
    return any(name == root or name.startswith(f"{root}/") for root in roots)


class Session:
    """The scenarios, built once, and the cases drawn from them."""

    def __init__(self, seed: int = 0):
        self.seed = seed
        # In memory where there is such a folder: each case copies, syncs and deletes small files.
        memory = Path("/dev/shm")
        place = memory if os.access(memory, os.W_OK) else None
        self.root = Path(tempfile.mkdtemp(prefix="mutation-", dir=place))
        try:
            self.scenarios = build_scenarios(self.root / "made")
            for scenario in self.scenarios:
                self.warm(scenario)
        except BaseException:
            self.close()
            raise
        gc.collect()
        gc.freeze()  # children then share these pages

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def sandbox(self, scenario: Scenario, number: str) -> Path:
        """Lay out a case; return its folder, whose ``work`` is the working directory."""
        folder = self.root / "cases" / number / "a" / "b"
        folder.mkdir(parents=True)
        mutations.copy_tree(scenario.inputs, folder / "in")
        (folder / "victim").mkdir()
        (folder / "victim" / "notes.txt").write_text("do not lose me\n")
        (folder / "victim" / "manifest.json").write_text('{"mine": true}\n')
        (folder / "work").mkdir()
        (folder / "link").symlink_to("victim")
        (folder / "dangling").symlink_to("nowhere-at-all")
        return folder

    def warm(self, scenario: Scenario) -> None:
        """Run the undamaged command here, keep its output, and load all that it loads."""
        folder = self.sandbox(scenario, f"warm-{scenario.name}")
        outcome = call(scenario.argv, folder / "work")
        if "took no longer than one token" in outcome.err:  # timing on a busy machine
            outcome = call(scenario.argv, folder / "work")
        if outcome.status != 0:
            raise AssertionError(f"{scenario.name} fails undamaged: {outcome}")
        scenario.keep(folder)

    def draw(self, number: int) -> tuple[Scenario, Random]:
        rng = Random(f"{self.seed} {number}")
        weights = [scenario.weight for scenario in self.scenarios]
        return rng.choices(self.scenarios, weights)[0], rng

    def run(self, numbers) -> Report:
        report = Report()
        for number in numbers:
            self.case(number, *self.draw(number), report)
        return report

    def case(self, number: int, scenario: Scenario, rng: Random, report: Report) -> None:
        folder = self.sandbox(scenario, str(number))
        argv, roots, damage = self.damage(scenario, folder, rng)
        before = snapshot(folder)
        outcome = run_in_child(argv, folder / "work")
        after = snapshot(folder)
        failure = self.judge(scenario, folder, outcome, before, after, roots)
        if failure:
            report.failures.append(Failure(number, scenario.name, damage, *failure))
        elif outcome.status == 0:
            report.success[scenario.name] += 1
        else:
            report.refused[scenario.name] += 1
        shutil.rmtree(folder.parents[1])

    def damage(self, scenario: Scenario, folder: Path, rng: Random):
        """Damage the input or the arguments; return arguments, where output may lie, the words."""
        argv = list(scenario.argv)
        roots = list(scenario.outputs)
        files = scenario.damageable(folder)
        chance = rng.random()
        flags = [k for k, word in enumerate(argv) if word in scenario.numbers]
        if chance < 0.12 or not files:
            flag = rng.choice(scenario.flags)
            value = mutations.bad_outputs(scenario.folders(folder), rng)
            if value == "../victim/notes.txt" and any("." in name for name in scenario.outputs):
                value = "../victim"  # a command that writes one file may replace one that is named
            argv[argv.index(flag) + 1] = value
            place = os.path.normpath(os.path.join("work", value))
            ends = [Path(name).suffix for name in roots] if flag.endswith("-prefix") else [""]
            roots += ["" if place == "." else f"{place}{end}" for end in ends]
            return argv, roots, f"{flag} {value[:60]!r}"
        if chance < 0.2 and flags:
            at = rng.choice(flags)
            argv[at + 1] = rng.choice(mutations.NUMBERS)
            return argv, roots, f"{argv[at]} {argv[at + 1][:30]!r}"
        if chance < 0.3 and scenario.texts:
            flag = rng.choice(scenario.texts)
            at = argv.index(flag) + 1
            argv[at], done = mutations.json_text(argv[at], rng)
            return argv, roots, f"{flag} {done}"
        file = rng.choice(files)
        return argv, roots, f"{file.relative_to(folder)}: {mutations.damage_file(file, rng)}"

    def judge(self, scenario, folder, outcome, before, after, roots):
        """Return (kind, place, detail) of what broke the rule, or None."""
        protected = {n: v for n, v in before.items() if below(n, ["in", "victim", "link"])}
        lost = [name for name, value in protected.items() if after.get(name) != value]
        given = [word[3:] for word in scenario.argv if word.startswith("../in/")]
        given = [name for name in given if before.get(name) == "folder"]
        lost += [n for n in after if below(n, given) and n not in before]
        if lost:
            status = outcome.status if outcome.status is not None else outcome.raised
            return "input lost or changed", lost[0].split("/")[0], f"{lost[:3]}, status {status}"
        if outcome.raised:
            return outcome.raised, outcome.place, outcome.err
        new = [n for n in after if n not in before or after[n] != before[n]]
        gone = [n for n in before if n not in after]
        if gone:
            return "something gone", "", str(gone[:3])
        if outcome.status == 2:
            # argparse says the program's name before "error: "
            said = [x for x in outcome.err.splitlines() if x.startswith(("error: ", "evenprune"))]
            if len(said) != 1 or "Traceback" in outcome.err or "error: " not in said[0]:
                return "not one sentence", "", repr(outcome.err[-300:])
            # An empty work folder, and benchmarks that were finished before, stay by design.
            left = [n for n in new if after[n] != "folder" or n.startswith("out/")]
            if "evaluate-checkpoint" in scenario.argv[:1]:
                parts = {n.rpartition("/")[0] for n in left if n.endswith("metrics.json")}
                whole = {p for p in parts if f"{p}/items.jsonl" in after}
                left = [n for n in left if n != "out" and not below(n, whole)]
            return ("output left", "", f"{left[:3]} {said[0][:120]}") if left else None
        if outcome.status != 0:
            return f"exit {outcome.status}", "", outcome.err[-200:]
        parents = [root.rpartition("/")[0] for root in roots]
        stray = [
            n for n in new if not below(n.removesuffix(".sha256"), roots) and "" not in roots
            and not any(p == n or p.startswith(f"{n}/") for p in parents)
        ]  # fmt: skip
        hidden = [n for n in new if n.rpartition("/")[2].startswith(".") and not n.endswith(MARK)]
        if stray or hidden:
            return "stray file", "", str((stray or new)[:3])
        if roots != list(scenario.outputs):  # written elsewhere: no output to compare
            return None
        try:
            wrong = scenario.wrong(folder)
        except Exception as error:  # accepted, but even the rule cannot read it
            wrong = f"{type(error).__name__} while judging: {where(error)} {error}"[:300]
        return ("silently wrong", wrong.split(":")[0], wrong) if wrong else None
