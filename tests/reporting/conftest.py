"""A run that several files of tests look at."""

import pytest
from reporting_run import make_tables, prepare, small_config


@pytest.fixture(scope="session")
def world(repo, tmp_path_factory):
    """A collected run of the invented world's configuration, with tables and figures.

    Returns its folder and configuration. Tests add files of their own and change none.
    """
    root, config = prepare(repo, tmp_path_factory.mktemp("world"))
    assert make_tables(root) == 0
    return root, config


@pytest.fixture(scope="session")
def config(repo, tmp_path_factory):
    """The configuration of the paper's grid."""
    return small_config(repo, tmp_path_factory.mktemp("paper"), "paper.yaml")
