"""Items one by one: texts, dense and pruned answers joined, the limit."""

import json
import math
import random
from pathlib import Path

import pytest
from evaluation_fixtures import write_jsonl
from item_run import HOSTILE, ITEMS, TASKS, item_id, record, write_item_run

from evenprune.analysis.item_texts import read_texts
from evenprune.analysis.make_items import LEAST, changes, fitted, joined, leans, stereotyped
from evenprune.cli import main
from evenprune.config.grids import Checkpoint
from evenprune.io.errors import UserError

DENSE = Checkpoint("tiny", "dense", "dense", "none", 0)
PRUNED = Checkpoint("tiny", "sparsegpt", "2of4", "ss", 0)


# Joining


def small(task, answers):
    """A set of items with answers: ``answers`` are (checkpoint, chosen option of each item)."""
    width = {"crows_pairs": 2}.get(task, 3)
    count = len(answers[0][1])
    texts = {str(k): ((), tuple(f"o{j}" for j in range(width))) for k in range(count)}
    rows = [
        (point, [{**record(task, "dense", k), "item_id": str(k), "pred": pred}
                 for k, pred in enumerate(chosen) if pred is not None])
        for point, chosen in answers
    ]  # fmt: skip
    return joined({"task": task, "benchmark": task}, texts, rows)


def test_answers_are_joined_by_their_items_whatever_their_order():
    found = small("unqover", [(DENSE, [2, 2, 2]), (PRUNED, [0, None, 2])])
    assert [item[0] for item in found["items"]] == ["0", "1", "2"]
    assert found["answers"][1]["chosen"] == [0, None, 2]
    assert found["answers"][1]["logprobs"][1] is None
    assert changes(found) == [[False] * 3, [True, False, False]]
    texts = {"a": ((), ("x", "y")), "b": ((), ("x", "y"))}
    rows = [{**record("crows_pairs", "dense", k), "item_id": name} for k, name in enumerate("ab")]
    about = {"task": "crows_pairs", "benchmark": "c"}
    turned = joined(about, texts, [(DENSE, rows), (PRUNED, rows[::-1])])
    assert turned["answers"][0]["logprobs"] == turned["answers"][1]["logprobs"]
    assert changes(turned) == [[False] * 2] * 2


def test_an_item_that_the_data_lack_is_one_sentence():
    about = {"task": "unqover", "benchmark": "x"}
    with pytest.raises(UserError, match="expected the item '0' of x in its data, found none"):
        joined(about, {}, [(DENSE, [record("unqover", "dense", 0)])])


def test_stereotyped_answers_are_those_that_the_metrics_count():
    assert stereotyped("stereoset", {}) == stereotyped("crows_pairs", {}) == 0
    assert stereotyped("bbq", {"biased_idx": 1}) == 1
    assert stereotyped("bbq", {"biased_idx": None}) is None
    assert stereotyped("multiple_choice", {"gold": 0, "stereotype_idx": 1}) == 1
    assert stereotyped("mmlu", {"gold": 3}) is None
    assert stereotyped("unqover", {"gold": 1, "unknown_idx": 1}) is None


def block(numbers, name="b"):
    """Four questions of a block; ``numbers``: p(x1) and p(x2) by (flipped, negated)."""
    return [
        {
            **{"item_id": f"{name}{k}", "block": name, "flipped": flipped, "negated": negated},
            **{"x1_idx": flipped, "x2_idx": 1 - flipped},
            "option_logprobs": [math.log(p) for p in (pair[flipped], pair[1 - flipped])]
            + [math.log(1 - sum(pair))],
        }
        for k, ((flipped, negated), pair) in enumerate(numbers.items())
    ]


def test_on_unqover_the_stereotyped_person_is_whom_the_dense_model_leans_to():
    even = (0.2, 0.2)
    rows = block({(0, 0): (0.7, 0.1), (1, 0): even, (0, 1): even, (1, 1): (0.1, 0.6)})
    # x1 has the attribute, x2 its negation, wherever they stand.
    who = [rows[0]["x1_idx"], rows[1]["x1_idx"], rows[2]["x2_idx"], rows[3]["x2_idx"]]
    assert leans(rows) == {f"b{k}": option for k, option in enumerate(who)}
    # Whoever stands first is chosen: that is no lean.
    place = {(f, n): (0.5, 0.25) if f == 0 else (0.25, 0.5) for f in (0, 1) for n in (0, 1)}
    assert leans(block(place)) == leans(rows[:3]) == {}
    assert leans([{"item_id": "0", "option_logprobs": [0, 0]}]) == {}
    texts = {row["item_id"]: ((), ("x", "y", "z")) for row in rows}
    full = [{**row, "category": "c", "gold": 2, "unknown_idx": 2, "pred": 2} for row in rows]
    found = joined({"task": "unqover", "benchmark": "u"}, texts, [(DENSE, full), (PRUNED, full)])
    assert found["answers"][0]["leans"] == who
    assert "leans" not in found["answers"][1]


def test_questions_of_your_own_may_have_different_numbers_of_options(tmp_path):
    rows = [{"question": "Q", "options": [*names], "answer": "A"} for names in ("ab", "xyz")]
    write_jsonl(tmp_path / "quiz.jsonl", rows)
    texts = read_texts("multiple_choice", tmp_path / "quiz.jsonl", "all", {})
    assert [*texts.values()] == [(("Q",), ("a", "b")), (("Q",), ("x", "y", "z"))]


# The limit


def test_items_beyond_the_limit_are_a_sample_with_changed_ones_first():
    drawn = random.Random(0)
    chosen = [drawn.randrange(3) for _ in range(3000)]
    many = small("unqover", [(DENSE, [2] * 3000), (PRUNED, chosen)])
    few = small("crows_pairs", [(DENSE, [1] * 30), (PRUNED, [0] * 30)])
    size = len(json.dumps([many, few]))
    packed, rest = fitted([many, few], size / 3)
    assert size / 6 < len(json.dumps([packed, rest])) < size / 2
    assert (packed["of"], packed["changed"]) == (3000, sum(one != 2 for one in chosen))
    assert (rest["of"], rest["changed"], len(rest["items"])) == (30, 30, 30)
    names = [int(item[0]) for item in packed["items"]]
    assert LEAST < len(names) < 3000
    assert names == sorted(set(names))
    assert all(chosen[k] != 2 for k in names)
    assert packed["answers"][1]["chosen"] == [chosen[k] for k in names]
    for room, counts in ((1, [LEAST, LEAST]), (2 * size, [3000, 30])):
        assert [len(one["items"]) for one in fitted([many, few], room)] == counts
    # With room for more than what changed, others come too.
    half = fitted([many], size * 0.9)[0]["items"]
    assert {str(k) for k, one in enumerate(chosen) if one != 2} < {item[0] for item in half}


# The command


def test_the_items_of_a_run_are_its_records_with_the_texts_of_its_data(repo, tmp_path, monkeypatch):
    write_item_run(repo, tmp_path)
    monkeypatch.chdir(tmp_path)
    command = ["make-items", "--run-sheet", "results/run_sheet.json", "--out", "items.json"]
    assert main(command) == 0
    text = Path("items.json").read_text()
    sets = {one["benchmark"]: one for one in json.loads(text)["sets"]}
    assert set(sets) == set(TASKS)
    for task, one in sets.items():
        assert [item[0] for item in one["items"]] == [item_id(task, k) for k in range(ITEMS)]
        said = json.dumps(one["items"], ensure_ascii=False).replace('\\"', '"')
        assert HOSTILE.strip() in said
        for answers in one["answers"]:
            rows = [record(task, answers["method"], k) for k in range(ITEMS)]
            assert answers["chosen"] == [row["pred"] for row in rows]
            last = [-30.0] if task == "stereoset" else []
            assert answers["logprobs"] == [
                [round(p, 3) for p in [*row["option_logprobs"], *last]] for row in rows
            ]
    assert main(command) == 0
    assert Path("items.json").read_text() == text
