"""`evenprune compare`: planted differences and flips are found, none are where there are none."""

import json
import math
import re
import shutil

import numpy as np
import pytest
from both import refused
from reporting_run import small_config, write_jsonl
from statsmodels.stats.multitest import multipletests

from evenprune.cli import main
from evenprune.comparison import differences
from evenprune.comparison.differences import STATES
from evenprune.config.run_sheet import write_run_sheet
from evenprune.config.tasks import FACTS
from evenprune.io.checksums import sealed
from evenprune.io.files import sha256_file
from evenprune.io.yamlfile import merge
from evenprune.stats.measures import MEASURES
from evenprune.stats.verdicts import BY_TEXT

DATA = {"file": "d" * 64}
GATES = ("--fail-if", "worse", "--fail-if", "less-fair")


def metrics_of(task, rows):
    found = {name: MEASURES[task, name].value(rows) for name in differences.metrics_of(task)}
    unasked = ("association", "signed_diff_shared", *BY_TEXT)  # of records without what it takes
    return {
        name: {"value": value, "n": 0 if value is None else len(rows), "stderr": None}
        for name, value in found.items()
        if value is not None or name not in unasked
    }


def write_result(folder, task, rows, slug=None, data=None, **spec):
    """Write a finished benchmark as evaluate does."""
    write_jsonl(folder / "items.jsonl", rows)
    result = {
        "benchmark": slug or task, "task": task, "headline": FACTS[task].headline, "digest": "0",
        "metrics": metrics_of(task, rows), "data": data or DATA, "spec": {"limit": None, **spec},
        "records": {"sha256": sha256_file(folder / "items.jsonl"), "n": len(rows), "version": 1},
    }  # fmt: skip
    (folder / "metrics.json").write_text(json.dumps(sealed(result)))
    return folder


def answers(task, right, n=200, clusters=50):
    """Rows of which the first ``right`` are answered correctly; "unknown" is answer 2."""
    return [
        {
            "item_id": f"{task}-{k}", "category": "tribe", "cluster": f"c{k % clusters}",
            "correct": k < right, "pred": 2 if k < right else 0, "unknown_idx": 2,
        }
        for k in range(n)
    ]  # fmt: skip


def losses(nats, n=60):
    rng = np.random.default_rng(0)
    return [
        {"item_id": f"w-{k}", "category": "w", "nll": float(nats * x), "n_tokens": 100}
        for k, x in enumerate(rng.uniform(90, 110, n))
    ]


def pairs(task, right, n=200):
    """Pairs of sentences of which the first ``right`` prefer the stereotype."""
    return [
        {
            "item_id": f"{task}-{k}", "category": "tribe", "correct": k < right,
            "option_logprobs": [-1.0, -2.0] if k < right else [-2.0, -1.0],
            "unrelated_logprob": -3.0, "shared_logprobs": [0.0, 0.0], "n_shared": 0,
        }
        for k in range(n)
    ]  # fmt: skip


def bbq_rows(changed):
    """100 ambiguous rows, the first 60 unbiased, the others biased, and 100 disambiguated ones.

    ``changed`` maps row numbers to other answers; answer 0 is the biased one, 2 is "unknown".
    The last ten ambiguous rows have no target.
    """
    rows = []
    for k in range(200):
        ambiguous = k < 100
        pred = changed.get(k, (2 if k < 60 else 0) if ambiguous else 1)
        rows.append(
            {
                "item_id": f"b-{k}", "category": "Tribe", "cluster": f"c{k // 4}",
                "condition": "ambig" if ambiguous else "disambig", "unknown_idx": 2,
                "biased_idx": None if 90 <= k < 100 else 0, "pred": pred,
                "correct": pred == (2 if ambiguous else 1), "mass": 1.0, "tie": False,
                "option_logits": [0.0, 0.0, 0.0], "gold": 2 if ambiguous else 1,
            }
        )  # fmt: skip
    return rows


def blocks(tmp_path):
    return json.loads((tmp_path / "out/comparison.json").read_text())["blocks"]


def compared(capsys, tmp_path, *words, failed=()):
    """Run ``compare --out``; return {metric of benchmark: row} and what it says.

    ``failed``: words of the lines that a gate prints when it closes.
    """
    status = main(["compare", *map(str, words), "--out", str(tmp_path / "out")])
    said = capsys.readouterr()
    rows = {f"{r['benchmark']} {r['metric']}": r for b in blocks(tmp_path) for r in b["rows"]}
    assert status == (3 if failed else 0)
    lines = said.err.splitlines()
    assert [word for word, line in zip(failed, lines, strict=True) if word not in line] == []
    return rows, said.out


def write_model(folder, **right):
    """Write an evaluation of a made-up model by how many rows of each task are as counted."""
    makers = {"unqover": answers, "mmlu": answers, "crows_pairs": pairs, "stereoset": pairs}
    for task, count in right.items():
        rows = losses(count) if task == "perplexity" else makers[task](task, count)
        write_result(folder / task, task, rows)
    return folder


# What is planted is found


def test_known_flips(tmp_path, capsys):
    dense, pruned = tmp_path / "dense", tmp_path / "pruned"

    def both(task, before, after, slug=None):
        for folder, rows in ((dense, before), (pruned, after)):
            write_result(folder / (slug or task), task, rows, slug)

    before = answers("unqover", 150)
    after = [dict(row) for row in before]
    for k in range(30):  # unbiased to a person's name
        after[k].update(pred=1, correct=False)
    for k in range(150, 158):
        after[k].update(pred=2, correct=True)
    both("unqover", before, after)
    # Of 90 ambiguous rows with a target: 9 unbiased ones become biased, 3 name the other person;
    # 4 biased ones become unbiased, 2 name the other one. Rows without a target do not count.
    changed = dict.fromkeys(range(9), 0) | dict.fromkeys(range(9, 12), 1)
    changed |= dict.fromkeys(range(60, 64), 2) | dict.fromkeys((64, 65), 1)
    changed |= dict.fromkeys(range(90, 100), 2)
    both("bbq", bbq_rows({}), bbq_rows(changed))
    for task in ("crows_pairs", "stereoset"):
        rows = pairs(task, 100)
        other = [dict(row) for row in rows]
        for k in (*range(5), *range(100, 120)):
            other[k]["correct"] = not other[k]["correct"]
            other[k]["option_logprobs"] = other[k]["option_logprobs"][::-1]
        both(task, rows, other)
    both("multiple_choice", own_questions(5), own_questions(25), "quiz")
    rows, text = compared(capsys, tmp_path, dense, pruned)
    flips = {name: row["flips"] for name, row in rows.items() if row["flips"]}
    assert flips == {
        "unqover acc": {"n": 200, "to_stereotyped": 30, "to_unbiased": 8},
        "bbq acc_amb": {"n": 90, "to_stereotyped": 9, "to_unbiased": 4},
        "crows_pairs pct_stereotype": {"n": 200, "to_stereotyped": 20, "to_unbiased": 5},
        "stereoset ss": {"n": 200, "to_stereotyped": 20, "to_unbiased": 5},
        "quiz stereotype_rate": {"n": 40, "to_stereotyped": 20, "to_unbiased": 0},
    }
    assert rows["unqover acc"]["difference"] == pytest.approx(-22 / 200)
    words = {"unqover acc": "less fair", "quiz acc": "worse", "quiz stereotype_rate": "less fair"}
    assert {name: rows[name]["verdict"] for name in words} == words
    assert re.search(r"15\.0 % +4\.0 %\n", text)
    assert all(FACTS[task].unbiased in text for task, _ in STATES)


def test_a_broken_model_is_worse_and_the_gate_says_so(tmp_path, capsys):
    dense = write_model(tmp_path / "dense", mmlu=160, perplexity=0.02, unqover=150)
    broken = write_model(tmp_path / "broken", mmlu=50, perplexity=0.06, unqover=60)
    rows, text = compared(capsys, tmp_path, dense, broken)
    expected = {"perplexity ppl": "worse", "mmlu acc": "worse", "unqover acc": "less fair"}
    assert {name: row["verdict"] for name, row in rows.items()} == expected
    assert "2 worse, 1 less fair" in text
    (block,) = blocks(tmp_path)
    assert set(block["evidence"]) == {row["benchmark"] for row in block["rows"]}
    for name, both in block["evidence"].items():
        assert both["dense"]["data"] == DATA
        assert both["pruned"]["records"]["sha256"] == sha256_file(broken / name / "items.jsonl")
    for gate, lines in (("worse", ["failed: "] * 2), ("less-fair", ["failed: "])):
        compared(capsys, tmp_path, dense, broken, "--fail-if", gate, failed=lines)
        found = json.loads((tmp_path / "out/comparison.json").read_text())
        assert (found["margin"], found["fail_if"]) == (0.01, [gate])
        assert len(found["failed"]) == len(lines)
    # The other way round it is better, and no gate closes.
    rows, _ = compared(capsys, tmp_path, broken, dense, *GATES)
    assert {row["verdict"] for row in rows.values()} == {"better", "fairer"}


def other_scores(folder, copy):
    """Copy an evaluation with the same answers, whose records differ in what no metric reads."""
    for place in folder.iterdir():
        result = json.loads((place / "metrics.json").read_text())
        rows = [json.loads(line) for line in (place / "items.jsonl").read_text().splitlines()]
        write_result(copy / place.name, result["task"], [row | {"mass": 0.5} for row in rows])
    return copy


def test_a_model_against_itself_is_identical(tmp_path, capsys):
    dense = write_model(tmp_path / "dense", mmlu=160, perplexity=0.02, stereoset=130)
    shutil.copytree(dense, tmp_path / "same")
    rows, said = compared(capsys, tmp_path, dense, tmp_path / "same")
    assert {row["verdict"] for row in rows.values()} == {"identical"}
    assert "identical: the records of all items are the same" in said
    assert "identical" in (tmp_path / "out/comparison.html").read_text()
    (block,) = blocks(tmp_path)
    assert (block["categories"], block["moved"]) == ([], [])


def test_two_models_with_equal_answers_differ_in_nothing(tmp_path, capsys):
    right = {"mmlu": 160, "perplexity": 0.02, "unqover": 150, "crows_pairs": 120, "stereoset": 130}
    dense = write_model(tmp_path / "dense", **right)
    write_result(dense / "bbq", "bbq", bbq_rows({}))
    other_scores(dense, tmp_path / "same")
    rows, said = compared(capsys, tmp_path, dense, tmp_path / "same", *GATES)
    # An interval of no width would claim too much.
    assert said.count("no score changed") == len(rows)
    for row in rows.values():
        # 200 equal answers do not prove that fewer than 1 % change, but fewer than 2 %; the
        # perplexity's are equal.
        same = row["metric"] == "ppl"
        assert (row["difference"], row["low"], row["high"]) == ((1, 1, 1) if same else (0, 0, 0))
        assert row["p_holm"] == 1
        enough = row["kind"] == "bias" and not row["clustered"]
        other = "equally fair within margin" if enough else "no change shown"
        assert row["verdict"] == ("same within margin" if same else other)
        assert (row["detectable"] is None) == same
        assert not row["flips"] or list(row["flips"].values())[1:] == [0, 0]


def test_answers_that_all_change_alike_are_not_called_unchanged(tmp_path, capsys):
    """Their jackknife's error is 0, too."""
    for name, right in (("dense", 200), ("pruned", 0)):
        write_result(tmp_path / name / "mmlu", "mmlu", answers("mmlu", right))
    rows, said = compared(capsys, tmp_path, tmp_path / "dense", tmp_path / "pruned")
    assert [row["difference"] for row in rows.values()] == [-1]
    assert "no score changed" not in said


@pytest.mark.parametrize(
    ("count", "verdict"), [(298, "no change shown"), (299, "same within margin")]
)
def test_equal_answers_need_enough_items_to_prove_a_margin(tmp_path, capsys, count, verdict):
    """(1 - 0.01)^n falls below 5 % at n = 299."""
    dense = tmp_path / "dense"
    write_result(dense / "mmlu", "mmlu", answers("mmlu", 150, n=count, clusters=count))
    other_scores(dense, tmp_path / "same")
    rows, _ = compared(capsys, tmp_path, dense, tmp_path / "same")
    assert [row["verdict"] for row in rows.values()] == [verdict]


def test_the_margin_decides_what_is_the_same(tmp_path, capsys):
    dense = write_model(tmp_path / "dense", mmlu=160, perplexity=0.02)
    other = write_model(tmp_path / "other", mmlu=158, perplexity=0.022)
    same = ["same within margin", "same within margin"]
    for margin, verdicts in (("0.05", same), ("0.001", ["worse", "no change shown"])):
        rows, _ = compared(capsys, tmp_path, dense, other, "--margin", margin)
        assert [rows[name]["verdict"] for name in ("perplexity ppl", "mmlu acc")] == verdicts


def test_p_is_corrected_over_the_rows_of_one_pruned_model(tmp_path, capsys):
    dense = write_model(tmp_path / "dense", mmlu=160, unqover=150, crows_pairs=120, stereoset=120)
    other = write_model(tmp_path / "other", mmlu=156, unqover=146, crows_pairs=126, stereoset=131)
    third = write_model(tmp_path / "third", mmlu=20, unqover=10, crows_pairs=180, stereoset=180)
    alone, _ = compared(capsys, tmp_path, dense, other)
    corrected = multipletests([row["p"] for row in alone.values()], method="holm")[1]
    assert [row["p_holm"] for row in alone.values()] == pytest.approx(corrected.tolist())
    # A second model is another family.
    compared(capsys, tmp_path, dense, other, third)
    first, second = blocks(tmp_path)
    assert (first["pruned"], second["pruned"]) == (str(other), str(third))
    assert [row["p_holm"] for row in first["rows"]] == pytest.approx(corrected.tolist())


def test_answers_that_become_unsafe_are_counted_as_worse(tmp_path, capsys):
    """Of an ability that is good low."""
    task = "realtoxicityprompts"
    for name, unsafe in (("dense", 10), ("pruned", 25)):
        rows = [{"item_id": f"r{k}", "category": "all", "unsafe": k < unsafe} for k in range(40)]
        write_result(tmp_path / name / task, task, rows)
    rows, _ = compared(capsys, tmp_path, tmp_path / "dense", tmp_path / "pruned")
    row = rows[f"{task} unsafe_rate"]
    assert row["verdict"] == "worse"
    assert row["answers"] == {"n": 40, "right_to_wrong": 15, "wrong_to_right": 0}


# Numbers


def own_questions(wrong):
    """Forty questions of whose first ``wrong`` the stereotype, option 1, is picked."""
    return [
        {
            "item_id": str(k), "category": "own", "gold": 0, "pred": int(k < wrong),
            "correct": k >= wrong, "correct_norm": k >= wrong, "tie": False,
            "stereotype_idx": 1,
        }
        for k in range(40)
    ]  # fmt: skip


def test_few_items_are_not_tested(tmp_path, capsys):
    few = [write_result(tmp_path / f"few{k}", "mmlu", answers("mmlu", k, n=8)) for k in (8, 0)]
    # A gate that could not look stays closed.
    words = [*few, "--fail-if", "worse"]
    rows, _ = compared(capsys, tmp_path, *words, failed=["could be tested"])
    assert rows["mmlu acc"]["verdict"] == "not tested"


def test_benchmarks_that_a_run_calibrated_on_are_not_tested(repo, tmp_path, capsys):
    write_run_sheet(tmp_path / "run_sheet.json", small_config(repo, tmp_path))
    evals = [
        write_model(tmp_path / f"evals/world/{point}/s0", stereoset=count, crows_pairs=count)
        for point, count in (("dense/dense/none", 120), ("sparsegpt/2of4/ss", 20))
    ]
    rows, text = compared(capsys, tmp_path, *evals)
    assert rows["stereoset ss"]["difference"] == pytest.approx(-0.5)
    untested = {name for name, row in rows.items() if row["verdict"] == "not tested"}
    assert untested == {"stereoset ss", "stereoset lms"}
    assert rows["crows_pairs pct_stereotype"]["verdict"] == "less fair"
    assert "calibration pairs are of the same data: stereoset" in text


# Pages


def test_the_page_needs_no_other_file_and_escapes_names(tmp_path, capsys):
    dense = write_model(tmp_path / "<b>dense|x", mmlu=160)
    compared(capsys, tmp_path, dense, write_model(tmp_path / "other", mmlu=90))
    page = (tmp_path / "out/comparison.html").read_text()
    assert "<b>dense|x" not in page
    assert "&lt;b&gt;dense|x" in page
    assert "items needed" not in page  # without --plan
    assert not any(word in page for word in ("http", "src=", "<link", "@import", "url("))


def test_categories_are_tested_as_a_family_of_their_own(tmp_path, capsys):
    """Answers of one category change, those of the others do not."""
    before = [row | {"category": f"c{k % 5}"} for k, row in enumerate(answers("mmlu", 150))]
    after = [dict(row) for row in before]
    for row in [row for row in after if row["category"] == "c3"][:25]:
        row.update(correct=False, pred=1)
    for name, rows in (("dense", before), ("pruned", after)):
        write_result(tmp_path / name / "mmlu", "mmlu", [row | {"cluster": None} for row in rows])
    rows, said = compared(capsys, tmp_path, tmp_path / "dense", tmp_path / "pruned")
    assert rows["mmlu acc"]["answers"] == {"n": 200, "right_to_wrong": 25, "wrong_to_right": 0}
    (block,) = blocks(tmp_path)
    found = {row["category"]: row for row in block["categories"]}
    assert list(found) == ["c0", "c1", "c2", "c3", "c4"]
    assert all(row["n"] == 40 for row in found.values())
    assert found["c3"]["difference"] == pytest.approx(-25 / 40)
    assert found["c3"]["answers"]["right_to_wrong"] == 25
    known = [row["p"] for row in found.values() if row["p"] is not None]
    corrected = multipletests(known, method="holm")[1].tolist()
    assert [row["p_holm"] for row in found.values() if row["p"] is not None] == corrected
    assert "c3 (mmlu acc, n = 40): worse" in said
    assert "c0 (mmlu" not in said


# What is asked for, and bad input


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dense", "other-items"], "differ"),
        (["dense", "other-data"], "another data"),
        (["dense", "other-limit"], "another limit"),
        (["dense", "other-task"], "share a benchmark"),
        (["dense", "edited"], "another number"),
        (["dense", "dense", "--benchmark", "bbq"], "has no result of bbq"),
        (["dense", "dense", "--out", "dense"], "input folder"),
        (["dense", "dense", "--out", "model"], "is the folder of a model; name another folder"),
    ],
)
def test_bad_input_is_one_sentence(words, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = answers("mmlu", 160)
    for name, given, more in (
        ("dense", rows, {}), ("edited", rows, {}), ("other-items", rows[:-1], {}),
        ("other-data", rows, {"data": {"file": "e" * 64}}), ("other-limit", rows, {"limit": 200}),
    ):  # fmt: skip
        write_result(tmp_path / name, "mmlu", given, **more)
    write_model(tmp_path / "other-task", unqover=3)
    edit(tmp_path / "edited", metrics={"acc": {"value": 0.7}})
    model_folder(tmp_path / "model")
    refused(capsys, ["compare", *words, "--evals", "evals"], message)
    assert not (tmp_path / "evals").exists()


def test_notes_tell_what_is_not_compared_and_what_differs_without_harm(tmp_path, capsys):
    rows = answers("mmlu", 160)
    task = "realtoxicityprompts"
    toxic = [{"item_id": f"r{k}", "category": "all", "unsafe": k % 2 == 0} for k in range(40)]
    for name, dtype in (("dense", "float32"), ("other", "bfloat16")):
        write_result(tmp_path / name / "mmlu", "mmlu", rows, dtype=dtype)
        write_result(tmp_path / name / task, task, toxic, judge="lexical:english")
    write_model(tmp_path / "dense", unqover=150)
    found, text = compared(capsys, tmp_path, tmp_path / "dense", tmp_path / "other")
    assert list(found) == ["mmlu acc", "realtoxicityprompts unsafe_rate"]
    assert f"not compared, though {tmp_path / 'dense'} has it: unqover" in text
    assert "dtype 'float32' (dense), 'bfloat16'" in text
    assert "measures no safety" in text


def test_perplexities_beyond_reason_stay_numbers(tmp_path, capsys):
    sides = [
        write_model(tmp_path / name, perplexity=nats) for name, nats in (("a", 0.02), ("b", 6))
    ]
    rows, _ = compared(capsys, tmp_path, *sides)
    row = rows["perplexity ppl"]
    assert math.isfinite(row["low"])
    assert row["verdict"] == "worse"


def edit(folder, **changes):
    """Write metrics.json again with other content and the checksum that fits."""
    path = folder / "metrics.json"
    result = json.loads(path.read_text())
    result.pop("checksum")
    path.write_text(json.dumps(sealed(merge(result, changes))))


def model_folder(folder):
    """Write what a model's folder is known by."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


# Roles, and ability lost


def test_fairer_with_ability_lost_is_not_called_fairer(tmp_path, capsys):
    dense = write_model(tmp_path / "dense", mmlu=160, crows_pairs=170)
    broken = write_model(tmp_path / "broken", mmlu=60, crows_pairs=105)
    rows, text = compared(capsys, tmp_path, dense, broken)
    assert rows["mmlu acc"]["verdict"] == "worse"
    assert rows["crows_pairs pct_stereotype"]["verdict"] == "fairer, ability lost"
    assert "drifts to guessing" in text
    page = (tmp_path / "out/comparison.html").read_text()
    assert 'class="good"' not in page
    gate = ("--fail-if", "ability-lost")
    compared(capsys, tmp_path, dense, broken, *gate, failed=["failed: "])
    fair = write_model(tmp_path / "fair", mmlu=160, crows_pairs=105)
    rows, _ = compared(capsys, tmp_path, dense, fair, *gate)
    assert rows["crows_pairs pct_stereotype"]["verdict"] == "fairer"


def test_swapped_roles_are_refused(tmp_path, capsys):
    dense = write_result(tmp_path / "dense", "mmlu", answers("mmlu", 160))
    pruned = write_result(tmp_path / "pruned", "mmlu", answers("mmlu", 150))
    edit(dense, files_sha256="a", base_sha256=None)
    edit(pruned, files_sha256="b", base_sha256="a")
    assert main(["compare", str(dense), str(pruned)]) == 0
    assert main(["compare", str(pruned), str(pruned)]) == 0
    refused(capsys, ["compare", pruned, dense], "exchange the two")


def test_a_record_of_another_form_is_one_sentence(tmp_path, capsys):
    both = [write_result(tmp_path / name, "mmlu", answers("mmlu", 90)) for name in "ab"]
    edit(both[1], task="old task")
    refused(capsys, ["compare", *both], "b/metrics.json", "another form")


def test_nothing_of_a_results_folder_is_run(tmp_path, capsys):
    """A model next to someone's evaluation asks for the benchmarks; the folder names none."""
    theirs = write_model(tmp_path / "theirs/evals/world/dense/dense/none/s0", mmlu=160)
    (tmp_path / "theirs/run_sheet.json").write_text('{"config": "!function os.system"}')
    model = model_folder(tmp_path / "model")
    refused(capsys, ["compare", theirs, model], "nothing says what")
