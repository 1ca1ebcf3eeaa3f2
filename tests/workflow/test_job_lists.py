"""Which jobs Snakemake plans again after one change of a finished run.

The run is finished by a stand-in of the program that writes empty files: what is planned depends
on names, times and checksums only. tests/config/test_reruns.py compares what jobs depend on.
"""

import copy
import json
import re
import shutil

import pytest
import yaml

from .conftest import EMPTY as CONFIG
from .conftest import empty_run, put, snakemake

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

RESULTS = r"results\.csv|report/items\.json|report/paper\.html"  # with all tables and figures


class Run:
    """A checkout beside its mirror, in which the run is finished."""

    def __init__(self, folder):
        self.folder, self.checkout = folder, folder / "checkout"
        self.results = self.checkout / CONFIG["results"]
        self.config = copy.deepcopy(CONFIG)

    def snakemake(self, *words):
        """Run Snakemake with the configuration as it is now; return what it printed."""
        (self.checkout / "run.yaml").write_text(yaml.safe_dump(self.config, sort_keys=False))
        words = [*words, "--cores", "2", "--configfile", "run.yaml"]
        done = snakemake(self.checkout, *words, path=f"{self.folder.parent}/bin")
        assert done.returncode == 0, done.stdout[-3000:]
        return done.stdout

    def plan(self, *targets):
        """Return the first output of each job that is planned."""
        output = self.snakemake("-n", *targets)
        found = re.findall(r"rule \w+:\n(?:    input: .*\n)?    output: ([^,\n]+)", output)
        prefix = f"{CONFIG['results']}/"
        assert all(name.startswith(prefix) for name in found)
        assert found or "Nothing to be done" in output
        return {name.removeprefix(prefix) for name in found}

    def append(self, file, text):
        """Write a line more into a file of the package."""
        with open(self.checkout / "src/evenprune" / file, "a") as out:
            out.write(text)


@pytest.fixture(scope="module")
def finished(repo, tmp_path_factory):
    root = tmp_path_factory.mktemp("lists")
    empty_run(repo, root)
    run = Run(root / "finished")
    run.everything = run.plan()
    run.snakemake()
    assert run.plan() == set()
    return run


@pytest.fixture
def run(finished, tmp_path_factory):
    """A copy of the finished run, for a test to change; beside the first, like a moved one."""
    folder = finished.folder.parent / tmp_path_factory.mktemp("copy").name
    yield Run(shutil.copytree(finished.folder, folder))  # with the files' times
    shutil.rmtree(folder)


@pytest.fixture
def jobs(finished):
    """Return the jobs of the whole run whose first output fits one of the patterns."""

    def found(*patterns):
        chosen = [{job for job in finished.everything if re.search(p, job)} for p in patterns]
        assert all(chosen)  # a pattern that fits nothing expects nothing
        return set().union(*chosen)

    return found


def test_words_times_and_other_machines_make_nothing_again(run):
    """All at once, as one plan takes two seconds; test_reruns.py has them one by one."""
    run.append("methods/solver.py", "\n# a comment\n")
    run.append("pruning/card.md.j2", "More words.\n")
    run.append("../../worlds/evenprune_world/society.py", "\nUNUSED = 1\n")
    (run.results / "sources/models/first.json").touch()
    # The code as a new clone leaves it, newer than all results; other settings of the machine.
    places = ("src", "worlds", "workflow", "config", "profiles", "../mirror")
    for path in (path for name in places for path in (run.checkout / name).rglob("*")):
        if path.is_file():
            path.touch()
    run.config |= {"threads": 3, "lock": "other.json"}
    assert run.plan() == set()


def everything_of(*methods, model=r"\w+"):
    """Patterns of what a method's checkpoints are and of what follows from them."""
    return (rf"(pruned|evals)/{model}/({'|'.join(methods)})/", RESULTS)


CALIBRATED = ("calibration/", *everything_of("wanda", "sparsegpt", "debias-sparsegpt"))


@pytest.mark.parametrize(
    ("name", "patterns"), [("unqover", ("evals/first/", RESULTS)), ("stereoset", CALIBRATED)]
)
def test_a_byte_of_data_makes_again_what_reads_it(run, jobs, name, patterns):
    put(run.folder / f"mirror/data/{name}/data.jsonl", f"{name} b\n")
    assert run.plan() == jobs(f"sources/data/{name}", *patterns)


def test_a_label_makes_the_tables_again(run, jobs):
    run.config["models"]["first"]["label"] = "Another"
    assert run.plan() == jobs(r"run_sheet\.json", r"report/paper\.html")


def test_a_calibration_more_makes_only_itself(run, jobs):
    run.config["experiments"]["main"]["calibrations"].append("ss.some")
    run.config["calibrations"] = {"ss.some": {"pairs": "stereoset", "categories": ["gender"]}}
    found = run.plan() - jobs(r"run_sheet\.json", RESULTS)
    assert {"ss.some" in name for name in found} == {True}


def test_a_moved_mirror_makes_nothing_again(run, jobs):
    """What reads the mirror's files finds them there; no result waits for it."""
    (run.folder / "mirror").rename(run.folder / "elsewhere")
    run.config["mirror"] = "../elsewhere"
    assert run.plan() == set()
    run.append("methods/wanda.py", "\nX = 1\n")
    assert run.plan() == jobs(*everything_of("wanda"))
    put(run.folder / "elsewhere/data/unqover/data.jsonl", "other\n")
    assert "sources/data/unqover.json" in run.plan()
    run.snakemake()
    assert json.loads((run.results / "sources/mirror.json").read_text())["mirror"] == "../elsewhere"
    assert run.plan() == set()


def test_a_single_stale_file_is_made_again(run):
    """Also one that is asked for by its name; Snakemake says why."""
    evaluated = "evals/first/{}/s0/summary.json".format
    stale, kept = evaluated("wanda/2of4/ss"), evaluated("dense/dense/none")
    targets = [f"{CONFIG['results']}/{name}" for name in (stale, kept)]
    run.append("methods/wanda.py", "\nX = 1\n")
    assert run.plan(*targets) == {"pruned/first/wanda/2of4/ss/s0/model", stale}
    assert run.plan(targets[1]) == set()
    said = run.snakemake("-n", targets[0])
    assert re.search(r"reason: Params have changed .* before: 'code \w+' now: 'code \w+'", said)
    (run.checkout / ".snakemake/metadata").rename(run.folder / "lost")
    assert "sees no change of options, code or data" in run.snakemake("-n")
