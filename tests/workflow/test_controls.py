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


def test_every_world_is_a_whole_run_of_its_own(planned):
    jobs = counts(planned.stdout)
    worlds = [
        {rule[3:]: count for rule, count in jobs.items() if rule.startswith(f"w{number}_")}
        for number in range(3)
    ]
    assert worlds[0] == worlds[1] == worlds[2]
    # Dense, 2:4, 50 %, counterfactuals, nothing pruned, two controls of partners, foreign ones.
    assert worlds[0]["evaluate_checkpoint"] == 1 + 4 + 2 + 4 * 2 + 1 + 2 + 2
    assert worlds[0]["build_calibration"] == 5
    assert (jobs["report_controls"], jobs["controls"]) == (1, 1)
    assert jobs["total"] == 3 * sum(worlds[0].values()) + 2


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


@pytest.mark.slow
def test_the_page_is_made_once(repo, clone, tmp_path):
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
