"""A headline is a metric that the result has, whether it is computed or found finished."""

import json

import pytest

from evenprune import cli
from evenprune.base.errors import UserError
from evenprune.evaluation.benchmarks import headline_of
from evenprune.evaluation.protocol import Protocol, make_protocol
from evenprune.plan.tasks import metrics_of


def evaluate(model, out, **options):
    benchmarks = json.dumps({"one": options})
    words = ["--model", str(model), "--benchmarks", benchmarks, "--out", str(out)]
    return cli.main(["evaluate-checkpoint", *words])


def test_a_typo_over_a_finished_result_is_refused(model, data, tmp_path, capsys):
    options = {"task": "mmlu", "data": str(data / "mmlu"), "limit": 2}
    assert evaluate(model, tmp_path, **options) == 0
    before = (tmp_path / "summary.json").read_bytes()
    assert evaluate(model, tmp_path, **options, headline="ac") == 2
    assert "headline: got 'ac', allowed are acc" in capsys.readouterr().err
    assert (tmp_path / "summary.json").read_bytes() == before


def test_a_finished_result_must_have_the_headline():
    spec = Protocol("perplexity", headline="ppl_gptq")
    assert headline_of("one", spec, {"ppl": {}, "ppl_gptq": {}}) == "ppl_gptq"
    with pytest.raises(UserError, match="has no metric 'ppl_gptq'"):
        headline_of("one", spec, {"ppl": {}})


def test_a_headline_is_checked_before_anything_is_read():
    with pytest.raises(UserError, match="headline: got 'acc_orders', allowed are"):
        make_protocol({"task": "bbq", "headline": "acc_orders"})
    assert make_protocol({"task": "bbq", "headline": "acc_orders", "orders": 6}).orders == 6


@pytest.mark.parametrize(
    ("folder", "options"),
    [
        ("wikitext2", {"task": "perplexity"}),
        ("tinystories", {"task": "perplexity", "split": "documents"}),
        ("hellaswag", {"task": "hellaswag"}),
        ("crows_pairs", {"task": "crows_pairs"}),
        ("stereoset", {"task": "stereoset"}),
        ("unqover", {"task": "unqover", "limit": 2}),
        ("bbq", {"task": "bbq", "limit": 2, "orders": 6}),
    ],
)
def test_the_declared_metrics_are_those_of_a_result(model, data, tmp_path, folder, options):
    assert evaluate(model, tmp_path, **options, data=str(data / folder)) == 0
    found = json.loads((tmp_path / "one/metrics.json").read_text())["metrics"]
    assert set(metrics_of(options["task"], options)) == set(found)
