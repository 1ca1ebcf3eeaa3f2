"""Which numbers have a printed counterpart, and how ours stand beside it."""

import dataclasses

import pytest

from evenprune.analysis import printed
from evenprune.config.benchmark_keys import Benchmark
from evenprune.config.declared import PROTOCOL, as_declared
from evenprune.config.grids import Checkpoint
from evenprune.config.run_sheet import RunSheet
from evenprune.reporting.forms import csv_form
from evenprune.reporting.tables import Cell, Column, Row, Table

LLAMA = Checkpoint("llama3.1-8b-it", "dense", "dense", "none", 0)


def printed_value(config, point, benchmark, metric):
    return printed.printed_value(RunSheet(config), point, benchmark, metric)


def changed(config, slug, **update):
    """The configuration with one benchmark changed."""
    entry = Benchmark(**(config.benchmarks[slug].model_dump() | update))
    return config.model_copy(update={"benchmarks": config.benchmarks | {slug: entry}})


def test_the_configuration_of_the_paper_is_the_declared_one(config):
    shown = {entry.task: slug for slug, entry in config.benchmarks.items()}
    for task in PROTOCOL:
        assert as_declared(config, task, LLAMA.model) == shown[task]
    assert as_declared(config, "stereoset", LLAMA.model) is None


@pytest.mark.parametrize(
    ("slug", "metric", "update"),
    [
        ("unqover", "acc", {"limit": 100}),
        ("unqover", "acc", {"style": "helm"}),
        ("unqover", "acc", {"bos": "never"}),
        ("wikitext2", "ppl", {"split": "lmeval"}),
        ("wikitext2", "ppl", {"dataset": "tinystories"}),
        ("hellaswag", "acc", {"headline": "acc_norm"}),
    ],
)
def test_another_protocol_has_no_printed_value(config, slug, metric, update):
    assert printed_value(config, LLAMA, slug, metric) is not None
    assert printed_value(changed(config, slug, **update), LLAMA, slug, metric) is None


def test_a_chat_template_of_the_model_counts(config):
    own = {LLAMA.model: config.models[LLAMA.model].model_copy(update={"chat_template": True})}
    config = config.model_copy(update={"models": config.models | own})
    assert printed_value(config, LLAMA, "unqover", "acc") is None
    other = dataclasses.replace(LLAMA, model="vicuna1.5-7b")
    assert printed_value(config, other, "unqover", "acc") is not None


def test_dto_needs_both_of_its_benchmarks_in_the_paper_s_form(config):
    assert printed_value(config, LLAMA, "dto", "dto") is not None
    for slug in ("mmlu", "unqover"):
        assert printed_value(changed(config, slug, limit=50), LLAMA, "dto", "dto") is None


def test_an_invented_world_never_shows_a_printed_value(config):
    names = [("mmlu", "acc"), ("hellaswag", "acc"), ("dto", "dto")]
    assert all(printed_value(config, LLAMA, *name) for name in names)
    world = config.model_copy(update={"source": "world"})
    assert not any(printed_value(world, LLAMA, *name) for name in names)


# Beside each other

PERCENT = Column("mmlu", "MMLU", scale=100.0)


@pytest.mark.parametrize(
    ("value", "error", "paper", "inside"),
    [
        (0.60, 0.01, 0.6196, True),  # 1.96 standard errors are 61.95996
        (0.60, 0.01, 0.6197, False),
        (0.60, None, 0.60, None),
        (0.60, 0.01, None, None),
        (None, None, 0.60, None),
    ],
)
def test_the_interval_covers_what_is_rounded_to_the_printed_value(value, error, paper, inside):
    assert Cell(value, "", paper, error=error).covers(PERCENT) is inside


def table(*cells):
    rows = [
        Row((f"row {index}",), {"mmlu": cell}, {"model": str(index)})
        for index, cell in enumerate(cells)
    ]
    heading = Row(("nothing below",), kind="heading")
    return Table("main", "Caption.", ("Model",), (PERCENT,), (*rows, heading))


def test_the_csv_has_difference_interval_and_cover():
    header, lines = csv_form(
        table(Cell(0.60, "60.00", 0.59, error=0.01), Cell(0.60, "60.00", error=0.01))
    )
    names = [f"mmlu_{name}" for name in ("printed", "diff", "low", "high", "covered")]
    assert header == ["model", "mmlu", *names]
    assert [lines[0][name] for name in names] == ["59.00", "1.00", "58.04", "61.96", "1"]
    assert [lines[1][name] for name in names] == ["", "", "58.04", "61.96", ""]
    plain = table(Cell(0.60, "60.00", error=0.01))
    assert csv_form(plain)[0] == ["model", "mmlu", "mmlu_printed"]
