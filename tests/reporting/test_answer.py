"""The table that says in words what pruning did, and the note on weights of another form."""

import csv
import json
from dataclasses import replace

import pytest
from test_reporting import make_table, prepare

from evenprune.plan.run_sheet import read_run_sheet
from evenprune.reporting.bottom_line import bottom_line
from evenprune.reporting.fields import Run
from evenprune.reporting.results import Results, Significance


@pytest.fixture(scope="module")
def run(repo, tmp_path_factory):
    """A made-up run: magnitude answers far worse than the dense model, and less fairly."""
    root, _ = prepare(repo, tmp_path_factory.mktemp("answer"))
    (root / "significance.csv.sha256").unlink()  # a test below changes that file
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
    assert magnitude.startswith("Perplexity × 1.6.")  # 20 / 0.5 against 20 / 0.8
    assert "Ability lost:" in magnitude
    assert "MMLU" in magnitude.partition("Ability lost:")[2].partition(".")[0]
    assert "Better:" not in magnitude


def test_without_the_claims_the_document_begins_with_the_same_words(run):
    sheet = read_run_sheet(run / "run_sheet.json")
    tables = [name for name in sheet.config.tables if name != "claims"]
    sheet = replace(sheet, config=sheet.config.model_copy(update={"tables": tables}))
    files = Results(run / "results.csv"), Significance(run / "significance.csv")
    head, *lines = bottom_line(Run(sheet, *files), {})
    assert head[0] == "Bottom line"
    assert make_table(run, "answer") == 0
    table = (run / "tables/answer.md").read_text().replace("**", "")
    assert len(lines) > 3
    for name, text in lines:
        model, method, _ = name.split(", ")
        assert model == "World-Llama"
        assert f"| + {method} | {text} |" in table


def test_words_follow_from_the_corrected_test(run):
    """With every p at 1 nothing is said to have changed; the share of stereotypes stays below."""
    path = run / "significance.csv"
    before = path.read_text()
    with open(path, newline="") as lines:
        table = list(csv.DictReader(lines))
    for row in table:
        row["p_holm"] = "1.0" if row["p_holm"] else ""
    try:
        with open(path, "w", newline="") as out:
            writer = csv.DictWriter(out, table[0])
            writer.writeheader()
            writer.writerows(table)
        for name, text in rows(run).items():
            if name.startswith("+"):
                assert not {"Ability lost", "Fairer", "Less fair", "Better"} & {
                    part.partition(":")[0] for part in text.split(". ")
                }
    finally:
        path.write_text(before)


def test_weights_of_another_form_are_said_beneath_the_tables_of_their_model(run):
    text = "4-bit weights (Q4_1), de-quantised"
    record = run / "sources/models/world.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"source": {"weights": text}}))
    for table in ("answer", "models", "fidelity", "claims"):
        assert make_table(run, table, "noted") == 0
        for form in ("md", "tex", "html"):
            content = (run / f"noted/{table}.{form}").read_text()
            assert "de-quantised" in content, (table, form)
    record.write_text(json.dumps({"source": {"package": "w==1"}}))
    assert make_table(run, "answer") == 0
    assert "de-quantised" not in (run / "tables/answer.md").read_text()
