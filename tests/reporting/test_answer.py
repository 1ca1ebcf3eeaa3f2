"""The table that says in words what pruning did, and the note on weights of another form."""

import json
import re
from dataclasses import replace

import pandas as pd
import pytest
from reporting_run import make_table, prepare

from evenprune.plan.run_sheet import read_run_sheet
from evenprune.reporting.bottom_line import bottom_line
from evenprune.reporting.cells import Run
from evenprune.reporting.results import Results, Significance
from evenprune.reporting.tables import answer


@pytest.fixture(scope="module")
def run(repo, tmp_path_factory):
    """A made-up run: magnitude answers far worse than the dense model, and less fairly."""
    grids = {"regimes": {"methods": ["dense", "magnitude", "sparsegpt", "debias-sparsegpt"]}}
    root, _ = prepare(repo, tmp_path_factory.mktemp("answer"), experiments=grids)
    (root / "significance.csv.sha256").unlink()  # a test below changes that file
    return root


def whole(root):
    files = Results(root / "results.csv"), Significance(root / "significance.csv")
    return Run(read_run_sheet(root / "run_sheet.json"), *files)


def rows(root):
    assert make_table(root, "answer") == 0
    text = (root / "tables/answer.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return {line.split("|")[1].strip(" *"): line.split("|")[2].strip() for line in lines}


def test_each_pruned_model_is_judged_in_words(run):
    said = rows(run)
    assert said["World-Llama"] == ""  # the dense model itself
    magnitude = said["+ Magnitude"]
    assert magnitude.startswith("Perplexity goes from 25.00 to 40.00 (× 1.6). Ability: lost on ")
    assert "MMLU" in magnitude.partition("Ability: lost on")[2].partition(";")[0]
    assert "better" not in magnitude


def test_without_the_claims_the_document_begins_with_the_same_words(run):
    found = whole(run)
    tables = [name for name in found.sheet.config.tables if name != "claims"]
    config = found.sheet.config.model_copy(update={"tables": tables})
    head, *lines = bottom_line(replace(found, sheet=replace(found.sheet, config=config)))
    assert head[0] == "Bottom line"
    assert make_table(run, "answer") == 0
    table = (run / "tables/answer.md").read_text().replace("**", "")
    assert len(lines) > 3
    assert [name for name, _ in lines] == [one.name for one in answer.answers(found)]
    for name, text in lines:
        model, method, *_ = name.split(", ")
        assert model == "World-Llama"
        assert f"| + {method} | {text} |" in table


def test_a_line_has_both_values_the_interval_and_the_verdict(run):
    found = {one.name: one for one in answer.answers(whole(run))}
    first = next(one for name, one in found.items() if ", Magnitude, " in name)
    lines = {line.measure: line for line in first.lines}
    assert lines["Perplexity"].difference == "× 1.6"
    assert lines["Perplexity"].verdict == "worse, not tested"
    line = lines["MMLU"]
    assert (line.verdict, line.look) == ("ability lost", "bad")
    shown = [float(text.replace("−", "-")) for text in re.findall(r"[+−][\d.]+", line.difference)]
    assert shown[0] == pytest.approx(float(line.pruned) - float(line.dense), abs=0.011)
    assert shown[1] < shown[0] < shown[2] < 0
    assert len(first.sentences) == 3
    # The table of regimes has the same difference, with a star.
    assert make_table(run, "regimes") == 0
    page = (run / "tables/regimes.html").read_text()
    assert f'<small class="change">{line.difference.partition(" ")[0]}*</small>' in page
    assert {line.measure for line in first.lines} >= {"CrowS-Pairs", "UnQover"}


@pytest.mark.parametrize(
    ("verdict", "ability", "ratio", "looks"),
    [
        ("fairer", "no change shown", 1.0, "good"),
        ("fairer, ability lost", "ability lost", 2.0, ""),
        ("fairer, perplexity up", "no change shown", 2.0, ""),
    ],
)
def test_what_is_fairer_and_less_able_is_no_good_news(
    run, monkeypatch, verdict, ability, ratio, looks
):
    """A model that drifts to guessing looks fair."""
    monkeypatch.setattr(answer, "judge", lambda bias, *_: "fairer" if bias else ability)
    monkeypatch.setattr(answer, "MARGIN", 1.6 / ratio + 0.01)
    lines = answer.answers(whole(run))[0].lines
    fair = [line for line in lines if line.kind == "fairness" and line.verdict != "not tested"]
    assert fair
    assert {(line.verdict, line.look) for line in fair} == {(verdict, looks)}


def test_words_follow_from_the_corrected_test(run):
    """With every p at 1 nothing is said to have changed; the share of stereotypes stays below."""
    path = run / "significance.csv"
    before = path.read_text()
    table = pd.read_csv(path, dtype=str)
    table.loc[table["p_holm"].notna(), "p_holm"] = "1.0"
    try:
        table.to_csv(path, index=False)
        for name, text in rows(run).items():
            if name.startswith("+"):
                assert "no change shown" in text
                assert not re.search("lost on|fairer|less fair|better", text)
    finally:
        path.write_text(before)


def test_weights_of_another_form_are_said_beneath_the_tables_of_their_model(run):
    text = "4-bit weights (Q4_1), de-quantised"
    record = run / "sources/models/world.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"source": {"weights": text}}))
    for table in ("answer", "fidelity"):
        assert make_table(run, table, "noted") == 0
        for form in ("md", "tex", "html"):
            content = (run / f"noted/{table}.{form}").read_text()
            assert "de-quantised" in content, (table, form)
    record.write_text(json.dumps({"source": {"package": "w==1"}}))
    assert make_table(run, "answer") == 0
    assert "de-quantised" not in (run / "tables/answer.md").read_text()
