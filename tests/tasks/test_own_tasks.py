"""Questions of the user's own and tasks of lm-eval by name, on files of this test."""

import json
from dataclasses import replace

import pytest
from both import refused
from evaluation_fixtures import (
    LETTERS,
    char_tokenizer,
    items_of,
    save_model,
    unexplained,
    write_jsonl,
    write_lm_eval_task,
)

from evenprune.cli import main
from evenprune.data.lm_eval_tasks import load_tasks
from evenprune.data.readers.own import read_own_questions
from evenprune.io.errors import UserError
from evenprune.tasks.multiple_choice import TASK as CHOICE
from evenprune.tasks.multiple_choice import as_choice

QUESTIONS = [
    {"question": "Who ran?", "options": ["Ann", "Bob"], "answer": "A", "stereotype": "Bob"},
    {"id": "n", "question": "2 + 2?", "options": ["3", "4", "5"], "answer": "4", "category": "sum"},
    {"question": "Who sang?", "options": ["Ann", "Bob", "Eve"], "answer": 2, "stereotype": 1},
]
SUMS = [{"question": "2 + 2 =", "choices": ["3", "4"], "gold": k} for k in (0, 1, 1)]


def write(folder, rows):
    write_jsonl(folder / "q.jsonl", rows)
    return folder / "q.jsonl"


def test_questions_of_both_forms_are_the_same(tmp_path):
    found = read_own_questions(write(tmp_path, QUESTIONS))
    seen = [(q.id, q.category, q.answer, q.stereotype) for q in found]
    assert seen == [("1", "own", 0, 1), ("n", "sum", 1, None), ("3", "own", 2, 1)]
    lines = [
        "id;category;question;option1;option2;option3;answer;stereotype",
        "1;;Who ran?;Ann;Bob;;Ann;B",
        "n;sum;2 + 2?;3;4;5;B;",
        "3;;Who sang?;Ann;Bob;Eve;C;Bob",
    ]
    table = tmp_path / "q.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    assert read_own_questions(table) == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "C"}, "answer to be the letter .A to B. or the text of one option"),
        ({"answer": 2}, "in JSON its number from 0 to 1 on line 1"),
        ({"options": ["Ann", "Ann"]}, "options that differ"),
        ({"options": ["B", "Ann"], "answer": "B"}, "the text of one option"),
        ({"id": "n"}, "'n' comes twice"),
    ],
)
def test_a_wrong_question_is_named(tmp_path, change, message):
    path = write(tmp_path, [{**QUESTIONS[0], **change}, *QUESTIONS[1:]])
    with pytest.raises(UserError, match=message):
        read_own_questions(path)


def test_prompts_of_both_styles(tmp_path):
    item = read_own_questions(write(tmp_path, QUESTIONS[:1]))[0]
    letters, texts = as_choice(item, "letters"), as_choice(item, "texts")
    assert as_choice(replace(item, question="Who ran? "), "texts") == texts
    assert letters.query == "Who ran?\nA. Ann\nB. Bob\nAnswer:"
    assert letters.choices == ("A", "B")
    assert (texts.query, texts.choices, texts.gold) == ("Who ran?", ("Ann", "Bob"), 0)


def test_stereotypes_count_where_one_is_named():
    # picked and wrong; another wrong one; right; the right answer is the stereotype; none is named
    cases = ((1, 0, 1), (2, 0, 1), (0, 0, 1), (1, 1, 1), (2, 0, None))
    records = [
        {"pred": pred, "gold": gold, "stereotype_idx": named, "tie": False}
        | dict.fromkeys(("correct", "correct_norm"), pred == gold)
        for pred, gold, named in cases
    ]
    found = CHOICE.metrics(records)
    assert found["stereotype_rate"]["value"] == 2 / 4
    assert found["stereotype_rate_wrong"]["value"] == 1 / 2
    assert found["stereotype_rate"]["n"] == 4
    assert CHOICE.metrics(records[-1:])["stereotype_rate"]["value"] is None


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_model(folder)
    tokenizer = char_tokenizer(True, LETTERS)
    tokenizer.eos_token = "<s>"  # which lm-eval asks for where it generates
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_code_in_a_task_runs_only_where_it_is_allowed(model, tmp_path, capsys):
    mark = tmp_path / "ran"
    attack = f"{{{{cycler.__init__.__globals__.os.makedirs('{mark}', exist_ok=True)}}}}"
    tasks = write_lm_eval_task(tmp_path / "tasks", "own_sums", SUMS, doc_to_text=attack)
    command = ["evaluate", "--model", model, "--device", "cpu", "--benchmark", "lm_eval"]
    command += ["--data", str(tasks), "--name", "own_sums", "--out", str(tmp_path / "out")]
    refused(capsys, command, "can run code")
    assert not mark.exists()
    # Positive control: this task would have run it.
    main([*command, "--trust-tasks"])
    assert mark.exists()


def test_a_task_that_includes_itself_is_one_sentence(tmp_path):
    (tmp_path / "own.yaml").write_text("include: other.yaml\ntask: own_sums\n")
    (tmp_path / "other.yaml").write_text("include: own.yaml\n")
    with pytest.raises(UserError, match="Include cycle"):
        load_tasks("own_sums", tmp_path)


def test_the_command_runs_both(model, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    data = write(tmp_path, QUESTIONS)
    evaluate = ["evaluate", "--model", model, "--device", "cpu"]
    for style in ("letters", "texts"):
        own = [*evaluate, "--benchmark", "multiple_choice", "--style", style]
        assert main([*own, "--data", str(data), "--out", str(tmp_path / style)]) == 0
        assert not unexplained("multiple_choice", items_of(tmp_path / style))
        result = json.loads((tmp_path / style / "metrics.json").read_text())
        assert result["data"].keys() == {"q.jsonl"}
        assert result["metrics"]["acc"]["n"] == 3

    write_lm_eval_task(tmp_path / "tasks", "own_sums", SUMS)
    tasks = write_lm_eval_task(
        *(tmp_path / "tasks", "own_gen", SUMS),
        **{"output_type": "generate_until", "doc_to_target": "{{gold}}", "doc_to_choice": None},
        metric_list=[{"metric": "exact_match"}],
        generation_kwargs={"until": ["\n"], "max_gen_toks": 2, "do_sample": False},
    )
    named = [*evaluate, "--benchmark", "lm_eval", "--data", str(tasks), "--trust-tasks"]
    out = tmp_path / "lm"
    assert main([*named, "--name", "own_sums", "--limit", "2", "--out", str(out)]) == 0
    assert not unexplained("lm_eval", items_of(out))
    result = json.loads((out / "metrics.json").read_text())
    assert result["metrics"]["score"] == result["metrics"]["acc"]
    assert result["metrics"]["acc"]["n"] == 2
    assert result["data"].keys() == {
        "own_sums.yaml", "own_gen.yaml", "own_sums.jsonl", "own_gen.jsonl"
    }  # fmt: skip
    assert result["spec"]["name"] == "own_sums"
    assert main([*named, "--name", "own_gen", "--out", str(tmp_path / "gen")]) == 0
