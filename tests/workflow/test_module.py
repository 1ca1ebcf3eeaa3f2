"""The workflow as another one's module, from a git source: no folder, an installed package."""

import os
import shutil
import subprocess
import sys

import pytest

from .conftest import copy_workflow, counts, snakemake
from .test_dag import planned

pytestmark = pytest.mark.workflow

USER = """\
configfile: "config/config.yaml"

module evenprune:
    snakefile:
        gitfile("{source}", path="workflow/Snakefile", commit="{commit}")
    config:
        config

use rule * from evenprune
"""


def git(folder, *words):
    named = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    done = subprocess.run(["git", *named, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def user(repo, tmp_path_factory):
    """The folder of a user: a Snakefile that takes the workflow from a git repository."""
    if not shutil.which("git"):
        pytest.skip("no git, which Snakemake takes the files by")
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("user")
    copy_workflow(repo, source)
    shutil.rmtree(source / "worlds/evenprune_world/weights")  # the installed package's are taken
    git(source, "init", "-q")
    git(source, "add", ".")
    git(source, "commit", "-q", "-m", "all")
    commit = git(source, "rev-parse", "HEAD")
    (folder / "config").mkdir()
    shutil.copy(repo / "config/world.yaml", folder / "config/config.yaml")
    (folder / "Snakefile").write_text(USER.format(source=source, commit=commit))
    return folder


@pytest.mark.slow
def test_it_plans_what_the_checkout_plans_and_runs_on_the_installed_package(user):
    assert counts(snakemake(user, "-n", "--cores", "1").stdout) == planned("world")
    target = "results/world/sources/data/mmlu.json"
    done = snakemake(user, "--cores", "1", target)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (user / target).is_file()


def test_without_the_package_it_says_where_to_get_it(user, tmp_path):
    (tmp_path / "evenprune").mkdir()
    (tmp_path / "evenprune/__init__.py").touch()
    words = [sys.executable, "-m", "snakemake", "-n", "--cores", "1"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, cwd=user, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "a workflow from a git source brings no package" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
