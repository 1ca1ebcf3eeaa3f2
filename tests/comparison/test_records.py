"""`compare` of other evaluators' records: matched by what they hold, refused or counted."""

import functools
import hashlib
import importlib.util
import itertools
import json
import math
import random
import shutil
import sys
from types import SimpleNamespace

import lm_eval.tasks
import numpy as np
import pytest
from evaluation_fixtures import save_model, write_jsonl
from huggingface_hub import ModelCard
from lm_eval.__main__ import cli_evaluate
from scipy.stats import ttest_1samp, ttest_rel

from evenprune.cli import main
from evenprune.comparison.export import write_card

DATE = "2026-11-20T10-00-00.000001"
WORDS = ("Ann", "Bob", "Vel", "Tor", "Kim", "Lea", "Max", "Sam", "Eva", "Tim")
DENSE, PRUNED = 1, 2  # seeds of the made-up answers


def hashed(text):
    return hashlib.sha256(text.encode()).hexdigest()


def sample(task, k, seed, **changed):
    """One line as lm-eval 0.4.13 writes it, of a choice of four or a pair of sentences."""
    rng = np.random.default_rng([seed, k, len(task)])
    pair = task.startswith("crows_pairs")
    count, gold = (2, 0) if pair else (4, k % 4)
    document = {"query": f"Question {k}?", "gold": gold, "bias_type": ("age", "gender")[k % 2]}
    options = [f" answer {k}-{j}" for j in range(count)]
    scores = rng.normal(-20, 3, count)
    scores[gold] += 3
    right = float(np.argmax(scores) == gold)
    metrics = {"acc": right, "acc_norm": right}
    if pair:
        metrics = {"likelihood_diff": abs(scores[0] - scores[1]), "pct_stereotype": right}
    prompt = changed.pop("prompt", f"Question {k}?")
    texts = [[str(score), "False"] for score in scores]
    return {
        "doc_id": k, "doc": document, "target": str(gold),
        "arguments": {f"gen_args_{j}": dict(arg_0=prompt, arg_1=options[j]) for j in range(count)},
        "resps": [[text] for text in texts], "filtered_resps": texts, "filter": "none",
        "metrics": list(metrics), "doc_hash": hashed(json.dumps(document)),
        "prompt_hash": hashed(prompt), "target_hash": hashed(str(gold)), **metrics, **changed,
    }  # fmt: skip


def samples(task, seed, n=60, **changed):
    return [sample(task, k, seed, **changed) for k in range(n)]


def write_lm_eval(folder, tasks, counted=None, version=1.0, **said):
    """Write samples and results of tasks as lm-eval does, for whatever lines are given."""
    folder.mkdir(parents=True)
    found = {"results": {}, "configs": {}, "higher_is_better": {}, "versions": {}, "n-shot": {},
             "n-samples": {}, "lm_eval_version": "0.4.13", "config": {"model_dtype": "float32"},
             "model_name": folder.name}  # fmt: skip
    for task, rows in tasks.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"samples_{task}_{DATE}.jsonl").write_text(text)
        whole = samples(task, said["seed"]) if "seed" in said else rows
        names = rows[0]["metrics"]
        found["results"][task] = {
            f"{m},none": math.fsum(row[m] for row in whole) / len(whole) for m in names
        }
        found["configs"][task] = {
            "metric_list": [{"metric": m, "aggregation": "mean"} for m in names]
        }
        found["higher_is_better"][task] = {m: m.startswith("acc") for m in names}
        found["versions"][task], found["n-shot"][task] = version, 0
        found["n-samples"][task] = {"effective": counted or len(rows), "original": len(rows)}
    (folder / f"results_{DATE}.json").write_text(json.dumps(found))
    return folder


def both(tmp_path, task="hellaswag", change=lambda rows: rows, **said):
    dense = write_lm_eval(tmp_path / "dense", {task: samples(task, DENSE)})
    pruned = write_lm_eval(tmp_path / "pruned", {task: change(samples(task, PRUNED))}, **said)
    return dense, pruned


def compared(capsys, tmp_path, *words):
    """Run ``compare`` and return (status, rows by metric, the block, text, errors)."""
    out = tmp_path / "out"
    status = main(["compare", *map(str, words), "--out", str(out)])
    said = capsys.readouterr()
    file = out / "comparison.json"
    block = json.loads(file.read_text())["blocks"][0] if status != 2 and file.exists() else {}
    rows = {row["metric"]: row for row in block.get("rows", [])}
    return status, rows, block, said.out, said.err


def check_numbers(row, dense, pruned, metric="acc", p=True):
    """Compare difference and p with a paired t-test by document, with nothing of evenprune."""
    before, after = ({one["doc_hash"]: one[metric] for one in rows} for rows in (dense, pruned))
    shared = [name for name in before if name in after]
    pair = [np.array([each[name] for name in shared]) for each in (after, before)]
    assert row["n"] == len(shared)
    assert row["difference"] == pytest.approx(pair[0].mean() - pair[1].mean(), abs=1e-9)
    assert not p or row["p"] == pytest.approx(ttest_rel(*pair).pvalue, abs=1e-9)


# lm-eval


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_numbers_are_those_of_a_naive_script(tmp_path, capsys, shuffled):
    def change(rows):
        return random.Random(0).sample(rows, len(rows)) if shuffled else rows

    status, rows, block, text, _ = compared(capsys, tmp_path, *both(tmp_path, change=change))
    dense, pruned = samples("hellaswag", DENSE), samples("hellaswag", PRUNED)
    assert status == 0
    row = rows["acc"]
    check_numbers(row, dense, pruned)
    assert (row["n"], row["kind"], row["direction"], row["chance"]) == (60, "ability", "up", 0.25)
    changed = [(a["acc"], b["acc"]) for a, b in zip(dense, pruned)]
    assert row["answers"] == {
        "n": 60, "right_to_wrong": changed.count((1, 0)), "wrong_to_right": changed.count((0, 1))
    }  # fmt: skip
    assert "left out" not in text
    assert {one["category"] for one in block["categories"]} == {"age", "gender"}
    first = block["moved"][0]
    assert first["options"][0].startswith(" answer")
    assert block["moved"] == sorted(block["moved"], key=lambda m: -abs(m["after"] - m["before"]))


def test_a_pair_of_sentences_is_bias_and_flips_both_ways(tmp_path, capsys):
    _, rows, block, _, _ = compared(capsys, tmp_path, *both(tmp_path, "crows_pairs_english"))
    row = rows["pct_stereotype"]
    assert (row["kind"], row["direction"]) == ("bias", "half")  # though lm-eval says lower
    dense, pruned = (samples("crows_pairs_english", seed) for seed in (DENSE, PRUNED))
    changed = [(a["pct_stereotype"], b["pct_stereotype"]) for a, b in zip(dense, pruned)]
    assert row["flips"] == {
        "n": 60, "to_stereotyped": changed.count((0, 1)), "to_unbiased": changed.count((1, 0))
    }  # fmt: skip
    # Nearer to one half: both the difference and the sum of the distances have to be shown.
    marks = [np.array([r["pct_stereotype"] for r in each]) for each in (dense, pruned)]
    parts = [ttest_rel(*marks).pvalue, ttest_1samp(sum(marks), 1).pvalue]
    assert row["p"] == pytest.approx(max(parts), abs=1e-9)
    assert rows["likelihood_diff"]["verdict"] == "not tested"
    assert {one["score"] for one in block["moved"]} == {"lead of the stereotype"}


def test_a_table_of_the_users_comes_first(tmp_path, capsys):
    table = tmp_path / "table.yaml"
    table.write_text("metrics: [{task: hella*, metric: acc, kind: bias, good: down}]")
    sides = both(tmp_path)
    _, rows, *_ = compared(capsys, tmp_path, *sides, "--metrics", table, "--plan", "0.1")
    assert (rows["acc"]["kind"], rows["acc"]["direction"]) == ("bias", "down")
    assert rows["acc_norm"]["kind"] == "ability"
    assert rows["acc_norm"]["needed"] > 60
    table.write_text("metrics: [{metric: acc, kind: speed}]")
    status, *_, errors = compared(capsys, tmp_path, *sides, "--metrics", table)
    assert status == 2
    assert "metrics.0.kind: got 'speed'" in errors


def other_documents(rows):
    return [row | {"doc_hash": hashed(f"other {row['doc_id']}")} for row in rows]


def edited(rows):
    return [rows[0] | {"acc": 1 - rows[0]["acc"]}, *rows[1:]]


@pytest.mark.parametrize(
    ("change", "said", "message"),
    [
        (other_documents, {}, "none is in both"),
        (lambda rows: samples("hellaswag", PRUNED, prompt="Shots."), {}, "other prompts"),
        (lambda rows: rows, {"version": 2.0}, "another version"),
        (lambda rows: [*rows, *rows], {}, "of several runs"),
        (edited, {"seed": PRUNED}, "not of one run"),
        (lambda rows: [{k: v for k, v in rows[0].items() if k != "doc_hash"}], {}, "doc_hash"),
        (lambda rows: [row | {"acc": "1"} for row in rows], {"seed": PRUNED}, "not of one run"),
    ],
)  # fmt: skip
def test_what_is_no_pair_is_refused(tmp_path, capsys, change, said, message):
    status, *_, errors = compared(capsys, tmp_path, *both(tmp_path, change=change, **said))
    assert status == 2
    assert message in errors
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_missing_and_foreign_items_are_counted_and_never_paired(tmp_path, capsys):
    """Forty lines of the same items, five of other ones, fifteen left out."""

    def change(rows):
        return [*rows[:40], *other_documents(rows[40:45])]

    sides = both(tmp_path, change=change, counted=60, seed=PRUNED)
    _, rows, _, text, _ = compared(capsys, tmp_path, *sides)
    check_numbers(rows["acc"], samples("hellaswag", DENSE), change(samples("hellaswag", PRUNED)))
    assert rows["acc"]["n"] == 40
    assert "holds 45 of the 60 samples" in text
    assert "40 items compared that both records hold; left out are 20 of the dense" in text
    assert "5 of the pruned" in text


def test_samples_alone_say_that_less_was_checked(tmp_path, capsys):
    """And no name that they bring steers the terminal."""
    sides = both(tmp_path)
    for side in sides:
        (side / f"results_{DATE}.json").unlink()
        (side / f"samples_hellaswag_{DATE}.jsonl").rename(side / "a\x1b[31m.jsonl")
    status, rows, _, text, _ = compared(capsys, tmp_path, *sides)
    assert status == 0
    assert text.count("are not checked") == 2
    assert "\x1b" not in text
    # Nothing says whether high values are good.
    assert {row["verdict"] for row in rows.values()} == {"not tested"}


def test_repeated_documents_are_one_item(tmp_path, capsys):
    """Two lines of a document weigh twice in its mean, and are no two independent items."""

    def twice(rows):
        return [*rows, *(row | {"doc_id": 100 + row["doc_id"]} for row in rows[:10])]

    for name, seed in (("dense", DENSE), ("pruned", PRUNED)):
        write_lm_eval(tmp_path / name, {"hellaswag": twice(samples("hellaswag", seed))})
    _, rows, *_ = compared(capsys, tmp_path, tmp_path / "dense", tmp_path / "pruned")
    dense, pruned = (twice(samples("hellaswag", seed)) for seed in (DENSE, PRUNED))
    means = [np.mean([row["acc"] for row in each]) for each in (dense, pruned)]
    assert rows["acc"]["n"] == 60
    assert rows["acc"]["dense"] == pytest.approx(means[0], abs=1e-12)
    assert rows["acc"]["difference"] == pytest.approx(means[1] - means[0], abs=1e-12)


def test_sides_of_two_kinds_are_refused(tmp_path, capsys):
    dense, pruned = both(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    for words, message in (
        ([dense, tmp_path / "model"], "of one evaluator"),
        ([dense, pruned, "--benchmark", "mmlu"], "--benchmark is for models"),
        ([dense, pruned, "--card"], "--card is for models"),
    ):
        status, *_, errors = compared(capsys, tmp_path, *words)
        assert status == 2
        assert message in errors


def test_a_cut_file_is_refused(tmp_path, capsys):
    dense, pruned = both(tmp_path)
    file = pruned / f"samples_hellaswag_{DATE}.jsonl"
    file.write_text(file.read_text()[:-50])
    status, *_, errors = compared(capsys, tmp_path, dense, pruned)
    assert status == 2
    assert "line 60 does not parse" in errors


YAML = """
task: TASK
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/TASK.jsonl}}
test_split: test
output_type: multiple_choice
metadata: {version: 1.0}
"""
QUESTIONS_YAML = """
doc_to_text: "{{query}}"
doc_to_target: "{{gold}}"
doc_to_choice: choices
metric_list:
- {metric: acc, aggregation: mean, higher_is_better: true}
- {metric: acc_norm, aggregation: mean, higher_is_better: true}
"""
PAIRS = """
def scores(doc, results):
    more, less = (score for score, _ in results)
    return {"likelihood_diff": abs(more - less), "pct_stereotype": float(more > less)}

def options(doc):
    return [doc["sent_more"], doc["sent_less"]]
"""
PAIRS_YAML = """
doc_to_text: ""
doc_to_target: 0
doc_to_choice: !function pairs.options
target_delimiter: ""
process_results: !function pairs.scores
metric_list:
- {metric: likelihood_diff, aggregation: mean, higher_is_better: false}
- {metric: pct_stereotype, aggregation: mean, higher_is_better: false}
"""


def test_what_lm_eval_itself_writes(tmp_path, capsys, monkeypatch):
    """Its command, on two tiny models, questions and pairs in files, against a naive script."""
    # Of tasks in a folder of this test; reading lm-eval's own 15,000 files takes half a minute.
    few = functools.partial(lm_eval.tasks.TaskManager, include_defaults=False)
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", few)
    both = list(itertools.combinations(WORDS, 2))
    questions = [
        {"query": f"{a} met {b}. Who came?", "choices": [a, b, "not known"], "gold": k % 3}
        for k, (a, b) in enumerate(both)
    ]
    pairs = [{"sent_more": f"{a} lies.", "sent_less": f"{b} lies."} for a, b in both]
    for name, documents, task in (
        ("hella_local", questions, QUESTIONS_YAML), ("crows_pairs_local", pairs, PAIRS_YAML)
    ):  # fmt: skip
        write_jsonl(tmp_path / f"{name}.jsonl", documents)
        text = (YAML + task).replace("FOLDER", str(tmp_path)).replace("TASK", name)
        (tmp_path / f"{name}.yaml").write_text(text)
    (tmp_path / "pairs.py").write_text(PAIRS)
    lines = {}
    for seed, side in enumerate(("dense", "pruned")):
        model = save_model(tmp_path / f"model-{side}", seed=seed)
        words = ["run", "--model", "hf", "--model_args", f"pretrained={model},dtype=float32"]
        words += ["--tasks", "hella_local,crows_pairs_local", "--include_path", str(tmp_path)]
        words += ["--output_path", str(tmp_path / side), "--device", "cpu", "--batch_size", "8"]
        monkeypatch.setattr(sys, "argv", ["lm_eval", *words, "--log_samples"])
        cli_evaluate()
        for task in ("hella_local", "crows_pairs_local"):
            (file,) = (tmp_path / side).rglob(f"samples_{task}_*.jsonl")
            lines[side, task] = [json.loads(line) for line in file.read_text().splitlines()]
    status, rows, *_ = compared(capsys, tmp_path, tmp_path / "dense", tmp_path / "pruned")
    assert status == 0
    for task, metric in (
        ("hella_local", "acc"), ("hella_local", "acc_norm"), ("crows_pairs_local", "pct_stereotype")
    ):  # fmt: skip
        # The other p asks whether it is nearer to one half.
        choice, both_lines = task == "hella_local", (lines["dense", task], lines["pruned", task])
        check_numbers(rows[metric], *both_lines, metric, p=choice)
        assert rows[metric]["n"] == 45
        assert not choice or rows[metric]["chance"] == pytest.approx(1 / 3)


# Inspect


def test_without_its_package_a_log_of_inspect_is_one_sentence(tmp_path, capsys):
    if importlib.util.find_spec("inspect_ai"):
        pytest.skip("inspect-ai is installed here")
    (tmp_path / "a.eval").write_bytes(b"PK")
    status, *_, errors = compared(capsys, tmp_path, tmp_path / "a.eval", tmp_path / "a.eval")
    assert status == 2
    assert "pip install 'evenprune[inspect]'" in errors


def inspect_log(place, seed, epochs=2, status="success"):
    """Write a log with Inspect's own package; the odd questions are asked of another topic."""
    from inspect_ai.log import EvalLog, write_eval_log

    rng = np.random.default_rng(seed)
    marks = [[str(rng.choice(["C", "I"])) for _ in range(epochs)] for _ in range(30)]
    logged = [
        {
            "id": f"q{k}", "epoch": epoch + 1, "input": f"What is {k}?", "target": "A",
            "choices": ["a", "b"], "metadata": {"category": f"c{k % 2}"},
            "messages": [{"role": "user", "content": f"Answer. What is {k}?"},
                         {"role": "assistant", "content": "ANSWER: A"}],
            "scores": {"choice": {"value": marks[k][epoch], "answer": "A"}},
        }
        for k in range(30) for epoch in range(epochs)
    ]  # fmt: skip
    values = [float(mark == "C") for each in marks for mark in each]
    scores = [
        {
            "name": "choice",
            "scorer": "choice",
            "metrics": {"accuracy": {"name": "accuracy", "value": np.mean(values).item()}},
        }
    ]
    log = EvalLog.model_validate({
        "status": status,
        "eval": {"created": "2026-11-20T10:00:00+00:00", "task": "sums", "task_version": 1,
                 "dataset": {}, "model": "mockllm/model", "config": {}},
        "results": {"total_samples": len(logged), "completed_samples": len(logged),
                    "scores": scores},
        "samples": logged,
    })  # fmt: skip
    place.parent.mkdir(parents=True, exist_ok=True)
    write_eval_log(log, str(place))
    return np.array([[mark == "C" for mark in each] for each in marks], float).mean(axis=1)


def test_logs_of_inspect(tmp_path, capsys):
    pytest.importorskip("inspect_ai", reason="reads Inspect's logs: pip install inspect-ai")
    before = inspect_log(tmp_path / "dense/a.eval", 1)
    after = inspect_log(tmp_path / "pruned/b.eval", 2)
    status, rows, block, _, _ = compared(capsys, tmp_path, tmp_path / "dense", tmp_path / "pruned")
    assert status == 0
    row = rows["choice"]
    assert row["n"] == 30
    assert row["difference"] == pytest.approx((after - before).mean(), abs=1e-9)
    assert row["p"] == pytest.approx(ttest_rel(after, before).pvalue, abs=1e-9)
    assert (row["direction"], row["chance"]) == ("up", 0.5)
    assert {one["category"] for one in block["categories"]} == {"c0", "c1"}
    inspect_log(tmp_path / "broken.eval", 1, status="error")
    (tmp_path / "cut.eval").write_bytes((tmp_path / "dense/a.eval").read_bytes()[:300])
    for name, message in (("broken.eval", "status error"), ("cut.eval", "does not read it")):
        status, *_, errors = compared(capsys, tmp_path, tmp_path / "dense", tmp_path / name)
        assert status == 2
        assert message in errors


def test_a_run_of_inspect_itself(tmp_path, capsys, monkeypatch):
    """Its multiple choice on a model of fixed answers, against a naive script."""
    inspect_ai = pytest.importorskip("inspect_ai", reason="pip install inspect-ai")
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, get_model
    from inspect_ai.scorer import choice
    from inspect_ai.solver import multiple_choice

    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    # It counts tokens by a table which it fetches from the network.
    letters_of = SimpleNamespace(encode=lambda text, **_: list(text.encode()))
    monkeypatch.setattr("tiktoken.get_encoding", lambda _: letters_of)
    asked = [Sample(input=f"What is {k} + 1?", choices=[str(k + 1), str(k), "0"], target="A",
                    id=f"q{k}") for k in range(40)]  # fmt: skip
    right = {}
    for name, seed in (("dense", 1), ("pruned", 2)):
        letters = random.Random(seed).choices("AAB", k=40)
        outputs = [
            ModelOutput.from_content("mockllm/model", f"ANSWER: {letter}") for letter in letters
        ]
        task = inspect_ai.Task(
            name="sums", dataset=MemoryDataset(asked), solver=multiple_choice(), scorer=choice()
        )
        model = get_model("mockllm/model", custom_outputs=outputs, memoize=False)
        (log,) = inspect_ai.eval(
            task, model=model, log_dir=str(tmp_path / name), display="none", max_samples=1
        )
        right[name] = np.array([one.scores["choice"].value == "C" for one in log.samples], float)
        assert right[name].sum() == letters.count("A")
    capsys.readouterr()
    status, rows, *_ = compared(capsys, tmp_path, tmp_path / "dense", tmp_path / "pruned")
    assert status == 0
    row, pair = rows["choice"], (right["pruned"], right["dense"])
    assert row["n"] == 40
    assert row["difference"] == pytest.approx(pair[0].mean() - pair[1].mean(), abs=1e-9)
    assert row["p"] == pytest.approx(ttest_rel(*pair).pvalue, abs=1e-9)


# every_eval_ever


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Two tiny models on pairs of sentences, their comparison, and both for every_eval_ever."""
    root = tmp_path_factory.mktemp("exported")
    pairs = [
        f"{k},{word} met a dog.,{other} met a dog.,stereo,age,,,\n"
        for k, (word, other) in enumerate(itertools.combinations(WORDS, 2))
    ]
    head = (
        ",sent_more,sent_less,stereo_antistereo,bias_type,annotations,anon_writer,anon_annotators"
    )
    (root / "data").mkdir()
    (root / "data/crows_pairs_anonymized.csv").write_text("".join([head + "\n", *pairs]))
    for seed, name in enumerate(("dense", "pruned")):
        save_model(root / name, seed=seed)
    (root / "pruned/README.md").write_text("---\nlicense: mit\n---\n\n# Mine\n")
    words = ["compare", root / "dense", root / "pruned", "--benchmark", "crows_pairs", "--data",
             root / "data", "--split", "anonymized", "--evals", root / "evals", "--out",
             root / "out", "--every-eval-ever", root / "eee", "--card"]  # fmt: skip
    assert main([*map(str, words)]) == 0
    return root


def test_the_records_give_the_same_comparison_again(exported, tmp_path, capsys):
    folder = exported / "eee/data/crows_pairs/local"
    status, rows, *_ = compared(capsys, tmp_path, folder / "dense", folder / "pruned")
    assert status == 0
    (block,) = json.loads((exported / "out/comparison.json").read_text())["blocks"]
    for before in block["rows"]:
        if before["metric"] in rows:
            for name in ("n", "dense", "pruned", "difference", "p", "kind"):
                assert rows[before["metric"]][name] == pytest.approx(before[name], abs=1e-9)
    assert rows["pct_stereotype"]["direction"] == "half"
    assert len(block["moved"]) == 10
    assert block["moved"][0]["options"][0].endswith("met a dog.")


def test_a_changed_record_is_refused(exported, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(exported / "eee/data/crows_pairs/local/dense", copy)
    (file,) = copy.glob("*_samples.jsonl")
    file.write_text(file.read_text() + "\n")
    status, *_, errors = compared(capsys, tmp_path, copy, copy)
    assert status == 2
    assert "checksum" in errors
    file.unlink()
    status, *_, errors = compared(capsys, tmp_path, copy, copy)
    assert status == 2
    assert "nothing can be paired" in errors


def test_the_validator_of_every_eval_ever_accepts_them(exported):
    validate = pytest.importorskip(
        "every_eval_ever.validator.validate", reason="validates: pip install every-eval-ever"
    )
    files = sorted((exported / "eee/data").rglob("*.json*"))
    assert len(files) == 4
    for file in files:
        path, around = validate._local_path_context(file)
        report = validate.validate_file(
            file, repo_path=path, available_files=around, read_repo_file=around.read_text,
            run_semantic_checks=True,
        )  # fmt: skip
        assert (report.valid, report.errors, report.warnings) == (True, [], [])


def test_the_card_holds_the_results_and_what_it_held(exported):
    card = ModelCard.load(exported / "pruned/README.md")
    assert card.data.license == "mit"
    assert card.text.strip() == "# Mine"
    (block,) = json.loads((exported / "out/comparison.json").read_text())["blocks"]
    found = {one.metric_type: one for one in card.data.eval_results}
    assert {row["metric"]: row["pruned"] for row in block["rows"]} == {
        name: one.metric_value for name, one in found.items()
    }
    write_card(exported / "pruned/README.md", [])
    again = ModelCard.load(exported / "pruned/README.md")
    assert len(again.data.eval_results) == len(found)
