"""From made-up metrics folders to results, tables, figures and the PDF, through the commands."""

import csv

import pytest
from reporting_run import small_config, write_run

from debias_sparsegpt.cli import main


def read_csv(path):
    with open(path, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def finished(repo, tmp_path_factory):
    """A collected run of the embedded default's configuration."""
    root = tmp_path_factory.mktemp("run")
    config = small_config(repo, root)
    spec = write_run(config)
    code = main(
        ["collect-results", "--spec", str(spec), "--out", str(root / "results.csv"),
         "--significance", str(root / "significance.csv")]
    )  # fmt: skip
    assert code == 0
    return root, config


def make_table(root, table):
    return main(
        ["make-table", "--table", table, "--spec", str(root / "run_spec.json"),
         "--results", str(root / "results.csv"), "--significance", str(root / "significance.csv"),
         "--out-prefix", str(root / "tables" / table)]
    )  # fmt: skip


def test_every_table_of_the_default_is_made(finished):
    root, config = finished
    for table in config.tables:
        assert make_table(root, table) == 0
        for suffix in ("tex", "csv", "md"):
            assert (root / "tables" / f"{table}.{suffix}").stat().st_size > 0
