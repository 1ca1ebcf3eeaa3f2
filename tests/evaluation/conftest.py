"""A tiny model and small data sets of every form, where a file has none of its own."""

import pytest
from evaluation_fixtures import save_model, write_datasets

from evenprune.evaluation import evaluate_checkpoint


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_datasets(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def ran(monkeypatch):
    """The names of the benchmarks that were computed, not kept, as they come."""
    names, real = [], evaluate_checkpoint.run_benchmark

    def run(lm, wanted, *rest):
        names.append(wanted.slug)
        return real(lm, wanted, *rest)

    monkeypatch.setattr(evaluate_checkpoint, "run_benchmark", run)
    return names
