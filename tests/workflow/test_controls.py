"""One ``snakemake controls``: a whole run in every world, and the page that compares them."""

import re
import shutil

import pytest
import yaml
from test_reporting_controls import GRID, make_runs

from .conftest import copy_workflow, counts, snakemake

pytestmark = pytest.mark.workflow
CONFIG = ("--configfile", "config/controls.yaml")


@pytest.fixture(scope="module")
def clone(repo, tmp_path_factory):
    return copy_workflow(repo, tmp_path_factory.mktemp("controls"))


@pytest.fixture(scope="module")
def planned(clone):
    done = snakemake(clone, "-n", "-p", "--cores", "2", "controls", *CONFIG)
    assert done.returncode == 0, done.stderr
    return done


def outputs(text):
    """Rule -> its jobs' outputs, of a dry run."""
    found = {}
    for rule, files in re.findall(r"rule (\w+):\n(?:    input: .*\n)?    output: (.*)\n", text):
        found.setdefault(rule, []).extend(files.split(", "))
    return {rule: sorted(files) for rule, files in found.items()}


def test_every_world_is_a_whole_run_of_its_own(clone, planned):
    """Their jobs are those of the run in one world alone; nothing is shared or left out."""
    (clone / "w1.yaml").write_text(
        "results: results/controls/w1\nworld: {seed: 1, retrain: true}\ncontrols: {worlds: []}\n"
    )
    targets = ("evals", "results/controls/w1/run_sheet.json")
    done = snakemake(clone, "-n", "--cores", "2", *CONFIG, "w1.yaml", "--", *targets)
    assert done.returncode == 0, done.stderr
    alone = counts(done.stdout)
    # Dense, 2:4, 50 %, counterfactuals, nothing pruned, two controls of partners, foreign ones.
    assert alone["evaluate_checkpoint"] == 1 + 5 + 2 + 4 * 2 + 1 + 2 * 2 + 2
    assert alone["build_calibration"] == 5
    del alone["evals"], alone["total"]
    jobs = counts(planned.stdout)
    names = ("w0", "w1", "w2")
    expected = {f"{name}_{rule}": count for name in names for rule, count in alone.items()}
    expected |= {"report_controls": 1, "controls": 1}
    assert jobs == expected | {"total": sum(expected.values())}
    same = outputs(done.stdout)
    assert same == {
        rule.removeprefix("w1_"): files
        for rule, files in outputs(planned.stdout).items()
        if rule.startswith("w1_")
    }


def test_worlds_share_no_output(planned):
    found = outputs(planned.stdout)
    every = [name for files in found.values() for name in files]
    assert len(every) == len(set(every)) > 3 * 37
    for rule, files in found.items():
        world = re.match(r"(w[012])_", rule)
        folder = world[0][:-1] if world else "report"
        assert all(name.startswith(f"results/controls/{folder}/") for name in files), rule
    # World 0's model is shipped.
    trained = re.findall(r"train-world --seed (\d+)", planned.stdout)
    assert sorted(trained) == ["1", "2"]
    assert planned.stdout.count("shipped-world-model") == 1


def test_without_worlds_the_target_says_what_to_do(clone):
    done = snakemake(clone, "-n", "--cores", "1", "controls")
    assert done.returncode != 0
    message = done.stdout + done.stderr
    assert "snakemake --cores all controls --configfile config/controls.yaml" in message
    assert "Traceback (most recent call last)" not in message


@pytest.mark.slow
def test_the_page_is_made_once_and_is_in_the_report(repo, clone, tmp_path):
    """From made-up results, as if the worlds' runs were done."""
    shutil.copytree(clone, tmp_path, dirs_exist_ok=True)
    config = yaml.safe_load((tmp_path / "config/controls.yaml").read_text())
    grid = {name: config["experiments"][name] | part for name, part in GRID.items()}
    config |= {"experiments": grid, "controls": {"worlds": [0, 1]}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(config))
    make_runs(repo, tmp_path / "results/controls")
    page = "results/controls/report/controls.html"
    allowed = ("--allowed-rules", "report_controls")
    words = ("--cores", "2", "--configfile", "small.yaml", *allowed)
    done = snakemake(tmp_path, *words, "--", page)
    assert done.returncode == 0, done.stdout + done.stderr
    # What a list of localrules gives, whose names a world's rules do not have.
    assert "rules that are not present" not in done.stdout + done.stderr
    done = snakemake(tmp_path, *words, "--", page)
    assert "Nothing to be done" in done.stdout + done.stderr
    # Code of the page makes it again, a comment does not.
    code = tmp_path / "src/evenprune_world/controls/effects.py"
    for text, jobs in (("\n# a comment\n", None), ("\nUNUSED = 1\n", 1)):
        code.write_text(code.read_text() + text)
        done = snakemake(tmp_path, *words, "-n", "--", page)
        assert counts(done.stdout).get("report_controls") == jobs, done.stdout + done.stderr
    done = snakemake(tmp_path, *words, "--report", "report.html", "--", page)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Adding controls.html" in done.stdout + done.stderr
    assert "Adding controls.csv" in done.stdout + done.stderr
