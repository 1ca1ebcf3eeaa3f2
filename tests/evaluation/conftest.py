"""A tiny model and small data sets of every form, where a file has none of its own."""

import pytest
from evaluation_fixtures import save_model, write_datasets


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_datasets(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("model") / "tiny")
