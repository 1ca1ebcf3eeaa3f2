"""What is said of names, keys and environments before a run."""

import pytest

from .conftest import TINY, copy_workflow, counts, snakemake

pytestmark = pytest.mark.workflow


@pytest.fixture(scope="module")
def clone(repo, tmp_path_factory):
    """A checkout without results."""
    return copy_workflow(repo, tmp_path_factory.mktemp("clone"))


def test_names_that_begin_with_none_are_calibrations(clone, tiny_mirror, write_config):
    experiments = {"main": {**TINY["experiments"]["main"], "calibrations": ["none-ss"]}}
    path = write_config(
        clone,
        tiny_mirror,
        calibrations={"none-ss": {"pairs": "stereoset"}},
        experiments=experiments,
    )
    done = snakemake(clone, "-n", "--cores", "1", "--configfile", path)
    assert done.returncode == 0, done.stderr[-3000:]
    jobs = counts(done.stdout)
    assert (jobs["prune_model"], jobs["build_calibration"]) == (2, 1)


def test_a_key_that_stands_twice_in_the_file_of_the_user(clone):
    (clone / "twice.yaml").write_text("title: one\ntitle: two\n")
    done = snakemake(clone, "-n", "--configfile", "twice.yaml")
    assert done.returncode != 0
    output = done.stdout + done.stderr
    assert "the key 'title' on line 2 of" in output
    assert "Traceback" not in output


def test_snakemake_without_its_environment_is_one_sentence(clone, monkeypatch):
    fake = clone / "fake"
    fake.mkdir()
    (fake / "sitecustomize.py").write_text(
        "import importlib.metadata as metadata\n"
        "found = metadata.version\n"
        "def version(name):\n"
        "    if name == 'torch':\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "metadata.version = version\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(fake))
    done = snakemake(clone, "-n", fresh=True)
    assert done.returncode != 0
    output = done.stdout + done.stderr
    assert "lacks the Python package torch; build the workflow's environment with" in output
    assert "Traceback" not in output
