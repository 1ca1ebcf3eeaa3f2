"""Items one by one: texts and prompts, dense and pruned answers joined, the limit, the blocks."""

import base64
import json
import random
import zlib

import numpy as np
import pytest
from item_run import HOSTILE, ITEMS, TASKS, item_id, record, write_item_run

from evenprune.base.errors import UserError
from evenprune.cli import main
from evenprune.data.prompts import STYLES
from evenprune.evaluation.harness import MMLU_HEADER
from evenprune.plan.grids import Checkpoint
from evenprune.plan.paths import ANSWERED
from evenprune.reporting.items.join import MISSING, ItemSet, changed, join, roles
from evenprune.reporting.items.pack import LEAST, block, fit, pack, sample, shares
from evenprune.reporting.items.prompts import prompt_of
from evenprune.reporting.items.texts import FIELDS, READERS, ItemText

DENSE = Checkpoint("tiny", "dense", "dense", "none", 0)
PRUNED = Checkpoint("tiny", "sparsegpt", "2of4", "ss", 0)


def fill_pattern(pattern, texts):
    """Return the prompt of an item, as the page fills it; ``texts`` are its fields and options."""
    return "".join(texts[part] if isinstance(part, int) else part for part in pattern)


def unpacked(text):
    return json.loads(zlib.decompress(base64.b64decode(text)))


@pytest.fixture(scope="module")
def root(repo, tmp_path_factory):
    folder = tmp_path_factory.mktemp("items")
    write_item_run(repo, folder)
    return folder


def made(root, monkeypatch, *words):
    monkeypatch.chdir(root)
    out = root / "items.json"
    sheet = "results/run_sheet.json"
    assert main(["make-items", "--run-sheet", sheet, "--out", str(out), *words]) == 0
    return json.loads(out.read_text())


# Texts and prompts


def test_the_tasks_are_those_that_the_workflow_knows():
    assert set(FIELDS) == set(READERS) == set(ANSWERED)


@pytest.mark.parametrize("style", STYLES)
def test_a_pattern_gives_the_prompt_that_is_sent(style):
    texts = ["A {0} context.", "Who?\ue001", "x", f"y {HOSTILE}", "\\1"]
    names = ("context", "question", "ans0", "ans1", "ans2")
    prefix, candidates = STYLES[style](dict(zip(names, texts, strict=True)))
    for task in ("unqover", "bbq"):
        pattern, behind = prompt_of(task, style)
        assert fill_pattern(pattern, texts) == prefix
        assert behind == candidates


def test_the_prompts_of_lm_eval_are_those_of_its_files():
    from importlib.metadata import distribution
    from pathlib import Path

    import yaml
    from jinja2 import Template

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda loader, node: node.value)
    folder = Path(str(distribution("lm_eval").locate_file("lm_eval/tasks")))

    def shipped(file, head=""):
        content = yaml.load((folder / file).read_text(), Loader)
        return Template(head + content["doc_to_text"])

    choices = ["w", "x", "y", "z"]
    template = shipped("mmlu/default/_default_template_yaml", MMLU_HEADER)
    text = template.render(subject="high school", question=" Why? ", choices=choices)
    assert fill_pattern(prompt_of("mmlu", None)[0], ["high school", "Why?", *choices]) == text
    text = shipped("hellaswag/hellaswag.yaml").render(query="A b")
    assert fill_pattern(prompt_of("hellaswag", None)[0], ["A b"]) == text


# Joining


def small(task, answers):
    """A set of items with answers: ``answers`` are (checkpoint, chosen option of each item)."""
    width = {"crows_pairs": 2}.get(task, 3)
    count = len(answers[0][1])
    texts = {str(k): ItemText((), tuple(f"o{j}" for j in range(width))) for k in range(count)}
    rows = [
        (point, [{**record(task, "dense", k), "item_id": str(k), "pred": pred}
                 for k, pred in enumerate(chosen) if pred is not None])
        for point, chosen in answers
    ]  # fmt: skip
    return join(ItemSet(task, task), texts, rows)


def test_answers_are_joined_by_their_items_whatever_their_order():
    found = small("unqover", [(DENSE, [2, 2, 2]), (PRUNED, [0, None, 2])])
    assert found.ids == ["0", "1", "2"]
    assert found.answers[1].chosen.tolist() == [0, MISSING, 2]
    assert changed(found).tolist() == [True, False, False]
    texts = {"a": ItemText((), ("x", "y")), "b": ItemText((), ("x", "y"))}
    rows = [{**record("crows_pairs", "dense", k), "item_id": name} for k, name in enumerate("ab")]
    turned = join(ItemSet("c", "crows_pairs"), texts, [(DENSE, rows), (PRUNED, rows[::-1])])
    assert np.array_equal(turned.answers[0].logprobs, turned.answers[1].logprobs)
    assert not changed(turned).any()


def test_an_item_that_the_data_lack_is_one_sentence():
    with pytest.raises(UserError, match="expected the item '0' of x in its data, found none"):
        join(ItemSet("x", "unqover"), {}, [(DENSE, [record("unqover", "dense", 0)])])


def test_biased_answers_are_those_that_the_metrics_count():
    assert roles("stereoset", {}) == roles("crows_pairs", {}) == (MISSING, MISSING, 1)
    assert roles("unqover", {"gold": 1, "unknown_idx": 1}) == (1, 1, 0b101)
    assert roles("bbq", {"gold": 2, "unknown_idx": 2, "biased_idx": 1}) == (2, 2, 0b010)
    assert roles("bbq", {"gold": 2, "unknown_idx": 2, "biased_idx": None}) == (2, 2, 0)
    assert roles("mmlu", {"gold": 3}) == (3, MISSING, 0)
    assert roles("multiple_choice", {"gold": 0, "stereotype_idx": 1}) == (0, MISSING, 0b10)
    assert roles("multiple_choice", {"gold": 0, "stereotype_idx": None}) == (0, MISSING, 0)


def test_questions_of_your_own_may_have_different_numbers_of_options(tmp_path):
    rows = [
        {"question": "Who?", "options": ["Ann", "Bob"], "answer": "A"},
        {"question": "What?", "options": ["x", "y", "z"], "answer": "C"},
    ]
    (tmp_path / "quiz.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = READERS["multiple_choice"]
    asked = dict(read(tmp_path / "quiz.jsonl", "all", {"style": "letters"}))
    _, second = asked.values()
    pattern, behind = prompt_of("multiple_choice", "letters")
    texts = [*second.fields, *second.options]
    assert fill_pattern(pattern, texts) == "What?\nA. x\nB. y\nC. z\nAnswer:"
    assert behind[: len(second.options)] == [" A", " B", " C"]
    (whole, _) = dict(read(tmp_path / "quiz.jsonl", "all", {"style": "texts"})).values()
    assert fill_pattern(*prompt_of("multiple_choice", "texts")[:1], whole.fields) == "Who?"
    assert prompt_of("multiple_choice", "texts")[1] is None
    records = [
        {"item_id": name, "category": "own", "option_logprobs": scores, "pred": 0, "gold": 0}
        for name, scores in zip(asked, ([-1.0, -2.0], [-1.0, -2.0, -3.0]), strict=True)
    ]
    joined = join(ItemSet("quiz", "multiple_choice"), asked, [(DENSE, records)])
    assert joined.answers[0].logprobs.tolist() == [[-1000, -2000, 0], [-1000, -2000, -3000]]


# The limit


@pytest.mark.parametrize("seed", range(20))
def test_a_sample_takes_changed_items_first(seed):
    drawn = random.Random(seed)
    flags = [drawn.random() < 0.3 for _ in range(50)]
    for count in (0, 5, sum(flags), 40, 50, 60):
        found = sample(flags, count, 0)
        assert found == sorted(set(found)) == sample(flags, count, 0)
        assert len(found) == min(count, 50)
        taken = sum(flags[k] for k in found)
        assert taken == min(len(found), sum(flags)) or taken == sum(flags)


@pytest.mark.parametrize("seed", range(20))
def test_shares_use_the_budget_and_exceed_no_need(seed):
    drawn = random.Random(seed)
    needs = [drawn.uniform(0, 10) for _ in range(6)]
    for budget in (1.0, 20.0, 100.0):
        found = shares(needs, budget)
        assert all(share <= need + 1e-9 for share, need in zip(found, needs, strict=True))
        assert sum(found) == pytest.approx(min(budget, sum(needs)))
        less = [s for s, need in zip(found, needs, strict=True) if s < need - 1e-9]
        assert not less or min(less) == pytest.approx(max(found))


def test_items_beyond_the_limit_are_a_sample_within_it():
    drawn = random.Random(0)
    chosen = [drawn.randrange(3) for _ in range(3000)]
    many = small("unqover", [(DENSE, [2] * 3000), (PRUNED, chosen)])
    few = small("crows_pairs", [(DENSE, [1] * 30), (PRUNED, [0] * 30)])
    whole = pack([many, few], [None, None])
    packed = fit([many, few], whole.size() // 3)
    assert packed.size() <= whole.size() // 3
    assert packed.sets[1]["shown"] == 30
    assert LEAST < packed.sets[0]["shown"] < packed.sets[0]["of"] == 3000
    texts = unpacked(packed.blocks[packed.sets[0]["texts"]])
    flags = dict(zip(many.ids, changed(many).tolist(), strict=True))
    assert all(flags[name] for name in texts["ids"])
    assert [one["shown"] for one in fit([many, few], 1).sets] == [LEAST, LEAST]


def test_no_character_of_a_block_means_anything_in_html():
    assert not set("<>&'\" ") & set(block({"text": HOSTILE}))
    assert unpacked(block({"text": HOSTILE})) == {"text": HOSTILE}


# The command


def test_the_items_of_a_run_are_its_records_with_the_texts_of_its_data(root, monkeypatch):
    content = made(root, monkeypatch)
    sets = {one["benchmark"]: one for one in content["sets"]}
    assert set(sets) == set(TASKS)
    for task, one in sets.items():
        texts = unpacked(content["blocks"][one["texts"]])
        assert texts["ids"] == [item_id(task, k) for k in range(ITEMS)]
        said = json.dumps(texts, ensure_ascii=False).replace('\\"', '"')
        assert HOSTILE.strip() in said
        width = len(texts["options"][0])
        for answers in one["answers"]:
            found = unpacked(content["blocks"][answers["block"]])
            rows = [record(task, answers["method"], k) for k in range(ITEMS)]
            assert found["chosen"] == [row["pred"] for row in rows]
            for k, row in enumerate(rows):
                mine = found["logprobs"][k * width : (k + 1) * width]
                given = [*row["option_logprobs"], *([-30.0] if task == "stereoset" else [])]
                assert mine == [round(1000 * one) for one in given]
    assert sets["bbq"]["prompt"][0].startswith("Answer with only a single letter.")
    assert sets["stereoset"]["prompt"] is None
    again = (root / "items.json").read_bytes()
    made(root, monkeypatch)
    assert (root / "items.json").read_bytes() == again
