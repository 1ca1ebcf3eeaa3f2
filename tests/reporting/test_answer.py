"""The table that says in words what pruning did, and the note on weights of another form."""

import json
import math
import re
from collections import Counter

import pytest
from reporting_run import (
    collect,
    make_table,
    prepare,
    run_of,
    seal,
    small_config,
    write_jsonl,
    write_run,
)  # fmt: skip

from evenprune.analysis.labels import measure_label
from evenprune.analysis.results import groups
from evenprune.cli import main
from evenprune.reporting import answer
from evenprune.stats.measures import MEASURES
from evenprune.stats.records import read_records
from evenprune.stats.verdicts import UNDECIDED


@pytest.fixture(scope="module")
def run(repo, tmp_path_factory):
    """A made-up run: magnitude answers far worse than the dense model, and less fairly."""
    grids = {"regimes": {"methods": ["dense", "magnitude", "sparsegpt", "debias-sparsegpt"]}}
    root, _ = prepare(repo, tmp_path_factory.mktemp("answer"), only=["regimes"], experiments=grids)

    return root


def rows(root):
    assert make_table(root, "answer") == 0
    text = (root / "tables/answer.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return {line.split("|")[1].strip(" *"): line.split("|")[2].strip() for line in lines}


def test_each_pruned_model_is_judged_in_words(run):
    said = rows(run)
    assert said["World-Llama"] == ""  # the dense model itself
    magnitude = said["+ Magnitude"]
    head = "Perplexity goes from 25.00 to 40.00 (× 1.6: not tested). Ability: worse on "
    assert magnitude.startswith(head)
    assert "MMLU" in magnitude.removeprefix(head).partition(";")[0]
    assert "better" not in magnitude
    assert any(re.search(r"no change shown on [^;]*\(could have seen \d", t) for t in said.values())
    # It is not asked whether a model at chance got worse.
    assert "Left out, as the dense model is too weak there: StereoSet LMS (not shown" in magnitude


def test_a_run_ends_with_its_page_and_the_verdicts_on_each_model(run, capsys):
    found = answer.answers(run_of(run))
    capsys.readouterr()
    assert main(["say-results", "--results", str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[4:])) <= 120
    assert "report/paper.html" in lines[0]
    said = " ".join(" ".join(lines[4:]).split())
    ability, bias = answer.summary(found)
    assert said.startswith(f"verdict {ability} {bias} ")
    assert any(one.decided for one in found)
    for one in found:
        shown = [f"{line.measure} {line.difference}, {line.verdict}" for line in one.decided]
        assert f"{one.name}: {'; '.join(shown)}" in said
        assert all(line.measure in said for line in one.undecided)


def test_the_summary_counts_the_verdicts(run):
    found = answer.answers(run_of(run))
    ability, bias = answer.summary(found)
    worse = [
        (one.name, line.measure)
        for one in found for line in one.lines
        if line.verdict == "worse" and line.kind != "fairness"
    ]  # fmt: skip
    count = len({name for name, _ in worse})
    assert count
    assert ability.startswith(f"Ability: worse in {count} of {len(found)} pruned models (")
    for measure, times in Counter(measure for _, measure in worse).items():
        assert f"{measure}: {times}" in ability
    less = sum(any(line.verdict == "less fair" for line in one.lines) for one in found)
    assert bias.startswith(f"Bias: less fair in {less} of {len(found)} pruned models")
    assert answer.summary([]) == []


def test_a_line_has_both_values_the_interval_and_the_verdict(run):
    found = {one.name: one for one in answer.answers(run_of(run))}
    first = next(one for name, one in found.items() if ", Magnitude, " in name)
    lines = {line.measure: line for line in first.lines}
    assert lines["Perplexity"].difference == "× 1.6"
    assert lines["Perplexity"].verdict == "not tested"  # two windows
    line = lines["MMLU"]
    assert (line.verdict, line.look, line.seen) == ("worse", "bad", "")
    shown = [float(text.replace("−", "-")) for text in re.findall(r"[+−][\d.]+", line.difference)]
    assert shown[0] == pytest.approx(float(line.pruned) - float(line.dense), abs=0.011)
    assert shown[1] < shown[0] < shown[2] < 0
    # The table of regimes has the same difference, with a star.
    assert make_table(run, "regimes") == 0
    page = (run / "tables/regimes.html").read_text()
    assert f'<small class="change">{line.difference.partition(" ")[0]}*</small>' in page


def truthful(evals):
    """Make the metrics of a made-up checkpoint those of its records, its perplexity of 30 texts."""
    for path in evals.glob("*/metrics.json"):
        content = json.loads(path.read_text())
        if content["task"] == "perplexity":
            nll = math.log(content["metrics"]["ppl"]["value"])
            texts = [
                {"item_id": str(k), "nll": nll * 10 + math.sin(k + nll), "n_tokens": 10}
                for k in range(30)
            ]
            write_jsonl(path.with_name("items.jsonl"), texts)
        rows = read_records(path.with_name("items.jsonl"))
        for name, metric in content["metrics"].items():
            if (content["task"], name) in MEASURES:
                metric["value"] = MEASURES[content["task"], name].value(rows)
        path.write_text(json.dumps(content))
    seal(evals)


def test_page_table_and_compare_say_the_same(repo, tmp_path):
    """Row by row: the verdict, what was tested, and the smallest change that would be seen."""
    write_run(small_config(repo, tmp_path, only=["regimes"]), 60)
    for summary in tmp_path.glob("evals/**/summary.json"):
        truthful(summary.parent)
    assert collect(tmp_path) == 0
    found = run_of(tmp_path)
    dense = tmp_path / "evals/world/dense/dense/none/s0"
    shown = 0
    for group in groups(found.sheet.checkpoints):
        if group.is_base:
            continue
        (point,) = group.checkpoints()
        out = tmp_path / "compared" / group.method / group.regime
        pruned = tmp_path / "evals" / point.key
        assert main(["compare", str(dense), str(pruned), "--out", str(out)]) == 0
        (block,) = json.loads((out / "comparison.json").read_text())["blocks"]
        said = {}
        for row in block["rows"]:
            if row["dense"] is None:
                continue
            names = row["benchmark"], row["metric"]
            said[measure_label(found.sheet, *names)] = row["verdict"]
            test = found.significance.against_dense(group, *names)
            for name in ("p_holm", "family_low", "family_high", "detectable"):
                silent = name == "detectable" and row["reason"]
                expected = None if silent else (test or {}).get(name)
                assert row[name] == pytest.approx(expected), (row, name)
            if row["verdict"] in UNDECIDED:
                assert row["detectable"]
                shown += 1
        assert said == {line.measure: line.verdict for line in answer.lines_of(found, group)}
    assert shown > 5


def test_weights_of_another_form_are_said_beneath_the_tables_of_their_model(run):
    text = "4-bit weights (Q4_1), de-quantised"
    record = run / "sources/models/world.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"source": {"weights": text}}))
    assert make_table(run, "answer") == 0
    for form in ("md", "tex", "html"):
        assert "de-quantised" in (run / f"tables/answer.{form}").read_text(), form
    record.write_text(json.dumps({"source": {"package": "w==1"}}))
    assert make_table(run, "answer") == 0
    assert "de-quantised" not in (run / "tables/answer.md").read_text()
