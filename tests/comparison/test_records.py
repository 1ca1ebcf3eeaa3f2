"""`compare` of other evaluators' records: matched by what they hold, refused or counted."""

import functools
import importlib.util
import itertools
import json
import random
import shutil
import sys
from collections import Counter
from types import SimpleNamespace

import lm_eval.tasks
import numpy as np
import pytest
from both import refused
from evaluation_fixtures import save_model, write_jsonl, write_lm_eval_task
from huggingface_hub import ModelCard
from lm_eval.__main__ import cli_evaluate
from scipy.stats import ttest_1samp, ttest_rel

from evenprune.cli import main
from evenprune.comparison.export import write_card

WORDS = ("Ann", "Bob", "Vel", "Tor", "Kim", "Lea", "Max", "Sam", "Eva", "Tim")
SIDES = ("dense", "pruned")
PAIRS = """
def scores(doc, results):
    more, less = (score for score, _ in results)
    return {"likelihood_diff": abs(more - less), "pct_stereotype": float(more > less)}

def options(doc):
    return [doc["sent_more"], doc["sent_less"]]
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """What lm-eval's command writes of two tiny models, on questions and pairs in files."""
    root = tmp_path_factory.mktemp("recorded")
    names = list(itertools.combinations(WORDS, 2))
    types = [{"bias_type": ("age", "gender")[k % 2]} for k in range(len(names))]

    def means(metrics, good):
        facts = {"aggregation": "mean", "higher_is_better": good}
        return [{"metric": name, **facts} for name in metrics]

    questions = [
        {"question": f"{a} met {b}. Who came?", "choices": [a, b, "not known"], "gold": k % 3}
        for k, (a, b) in enumerate(names)
    ]
    pairs = [{"sent_more": f"{a} lies.", "sent_less": f"{b} lies."} for a, b in names]
    write_lm_eval_task(
        *(root, "hellaswag_local", [a | b for a, b in zip(questions, types)]),
        metric_list=means(["acc", "acc_norm"], True),
    )
    write_lm_eval_task(
        *(root, "crows_pairs_local", [a | b for a, b in zip(pairs, types)]),
        metric_list=means(["likelihood_diff", "pct_stereotype"], False),
        **{"doc_to_text": "", "doc_to_target": 0, "target_delimiter": ""},
        **{"doc_to_choice": "!function pairs.options", "process_results": "!function pairs.scores"},
    )
    (root / "pairs.py").write_text(PAIRS)
    # Of tasks in a folder of this test; reading lm-eval's own 15,000 files takes half a minute.
    few = functools.partial(lm_eval.tasks.TaskManager, include_defaults=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lm_eval.tasks, "TaskManager", few)
        patch.setattr("datasets.config.HF_DATASETS_CACHE", str(root / "cache"))  # not in HOME
        for seed, side in enumerate(SIDES):
            model = save_model(root / f"model-{side}", seed=seed)
            words = ["run", "--model", "hf", "--model_args", f"pretrained={model},dtype=float32"]
            words += ["--tasks", "hellaswag_local,crows_pairs_local", "--include_path", str(root)]
            words += ["--output_path", str(root / side), "--device", "cpu", "--batch_size", "8"]
            patch.setattr(sys, "argv", ["lm_eval", *words, "--log_samples"])
            cli_evaluate()
    return root


def samples(folder, task="hellaswag_local"):
    """The lines that lm-eval wrote of a task, and their file."""
    (file,) = folder.rglob(f"samples_{task}_*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()], file


def both(recorded, tmp_path, task="hellaswag_local", change=lambda rows: rows, version=1.0):
    """Copies of both sides of one task, the lines and the version of the pruned one changed."""
    for side in SIDES:
        rows, file = samples(recorded / side, task)
        (results,) = file.parent.glob("results_*.json")
        said = json.loads(results.read_text())
        if side == "pruned":
            rows, said["versions"][task] = change(rows), version
        write_jsonl(tmp_path / side / file.name, rows)
        (tmp_path / side / results.name).write_text(json.dumps(said))
    return [tmp_path / side for side in SIDES]


def compared(capsys, tmp_path, *words):
    """Run ``compare`` and return (rows by metric, the block, text)."""
    assert main(["compare", *map(str, words), "--out", str(tmp_path / "out")]) == 0
    (block,) = json.loads((tmp_path / "out/comparison.json").read_text())["blocks"]
    return {row["metric"]: row for row in block["rows"]}, block, capsys.readouterr().out


def check_numbers(row, dense, pruned, metric="acc"):
    """Compare difference and p with a paired t-test by document, with nothing of evenprune."""
    before, after = ({one["doc_hash"]: one[metric] for one in rows} for rows in (dense, pruned))
    shared = [name for name in before if name in after]
    pair = [np.array([each[name] for name in shared]) for each in (after, before)]
    assert row["n"] == len(shared)
    assert row["difference"] == pytest.approx(pair[0].mean() - pair[1].mean(), abs=1e-9)
    assert row["p"] == pytest.approx(ttest_rel(*pair).pvalue, abs=1e-9)


# lm-eval


def test_the_numbers_are_those_of_a_naive_script(recorded, tmp_path, capsys):
    """In whatever order the lines are."""
    sides = both(recorded, tmp_path, change=lambda rows: random.Random(0).sample(rows, len(rows)))
    rows, block, text = compared(capsys, tmp_path, *sides)
    dense, pruned = (samples(recorded / side)[0] for side in SIDES)
    for metric in ("acc", "acc_norm"):
        check_numbers(rows[metric], dense, pruned, metric)
    row = rows["acc"]
    assert (row["n"], row["kind"], row["direction"]) == (45, "ability", "up")
    assert row["chance"] == pytest.approx(1 / 3)
    after = {one["doc_id"]: one["acc"] for one in pruned}
    changed = Counter((one["acc"], after[one["doc_id"]]) for one in dense)
    assert row["answers"] == {
        "n": 45, "right_to_wrong": changed[1, 0], "wrong_to_right": changed[0, 1]
    }  # fmt: skip
    assert "left out" not in text
    assert {one["category"] for one in block["categories"]} == {"age", "gender"}
    assert block["moved"][0]["options"][-1].strip() == "not known"
    assert block["moved"] == sorted(block["moved"], key=lambda m: -abs(m["after"] - m["before"]))


def test_a_pair_of_sentences_is_bias_and_flips_both_ways(recorded, tmp_path, capsys):
    task = "crows_pairs_local"
    rows, block, _ = compared(capsys, tmp_path, *both(recorded, tmp_path, task))
    row = rows["pct_stereotype"]
    assert (row["kind"], row["direction"]) == ("bias", "half")  # though lm-eval says lower
    marks = []
    for side in SIDES:
        lines = sorted(samples(recorded / side, task)[0], key=lambda one: one["doc_id"])
        marks.append(np.array([one["pct_stereotype"] for one in lines]))
    changed = Counter(zip(*marks))
    assert row["flips"] == {
        "n": 45, "to_stereotyped": changed[0, 1], "to_unbiased": changed[1, 0]
    }  # fmt: skip
    assert row["difference"] == pytest.approx(marks[1].mean() - marks[0].mean(), abs=1e-9)
    # Nearer to one half: both the difference and the sum of the distances have to be shown.
    parts = [ttest_rel(*marks).pvalue, ttest_1samp(sum(marks), 1).pvalue]
    assert row["p"] == pytest.approx(max(parts), abs=1e-9)
    assert rows["likelihood_diff"]["verdict"] == "not tested"
    assert {one["score"] for one in block["moved"]} == {"lead of the stereotype"}


def test_a_table_of_the_users_comes_first(recorded, tmp_path, capsys):
    table = tmp_path / "{table}.yaml"
    table.write_text("metrics: [{task: hella*, metric: acc, kind: bias, good: down}]")
    sides = both(recorded, tmp_path)
    rows, *_ = compared(capsys, tmp_path, *sides, "--metrics", table, "--plan", "0.1")
    assert (rows["acc"]["kind"], rows["acc"]["direction"]) == ("bias", "down")
    assert rows["acc_norm"]["kind"] == "ability"
    assert rows["acc_norm"]["needed"] > 45
    table.write_text("metrics: [{metric: acc, kind: speed}]")
    refused(capsys, ["compare", *sides, "--metrics", table], "metrics.0.kind: got 'speed'")


def other_documents(rows):
    return [row | {"doc_hash": f"other {row['doc_id']}"} for row in rows]


def other_prompts(rows):
    return [row | {"prompt_hash": "another"} for row in rows]


def edited(rows):
    return [rows[0] | {"acc": 1 - rows[0]["acc"]}, *rows[1:]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (other_documents, "none is in both"),
        (other_prompts, "other prompts"),
        (lambda rows: [*rows, *rows], "of several runs"),
        (edited, "not of one run"),
        (lambda rows: [{k: v for k, v in rows[0].items() if k != "doc_hash"}], "doc_hash"),
        (lambda rows: [row | {"acc": "1"} for row in rows], "not of one run"),
        (None, "another version"),
    ],
)
def test_what_is_no_pair_is_refused(recorded, tmp_path, capsys, change, message):
    changes = {"change": change} if change else {"version": 2.0}
    sides = both(recorded, tmp_path, **changes)
    refused(capsys, ["compare", *sides, "--out", tmp_path / "out"], message)
    assert not (tmp_path / "out").exists()


def test_missing_and_foreign_items_are_counted_and_never_paired(recorded, tmp_path, capsys):
    """Thirty lines of the same items, five of other ones, ten left out."""

    def change(rows):
        return [*rows[:30], *other_documents(rows[30:35])]

    sides = both(recorded, tmp_path, change=change)
    rows, _, text = compared(capsys, tmp_path, *sides)
    dense, pruned = (samples(recorded / side)[0] for side in SIDES)
    check_numbers(rows["acc"], dense, change(pruned))
    assert "holds 35 of the 45 samples" in text
    assert "30 items compared that both records hold; left out are 15 of the dense" in text
    assert "5 of the pruned" in text


def test_samples_alone_say_that_less_was_checked(recorded, tmp_path, capsys):
    """And no name that they bring steers the terminal."""
    sides = both(recorded, tmp_path)
    for side in sides:
        next(side.glob("results_*.json")).unlink()
        samples(side)[1].rename(side / "a\x1b[31m.jsonl")
    rows, _, text = compared(capsys, tmp_path, *sides)
    assert text.count("are not checked") == 2
    assert "\x1b" not in text
    # Nothing says whether high values are good.
    assert {row["verdict"] for row in rows.values()} == {"not tested"}


def test_repeated_documents_are_one_item(recorded, tmp_path, capsys):
    """Two lines of a document weigh twice in its mean, and are no two independent items."""
    means = []
    for side in both(recorded, tmp_path):
        next(side.glob("results_*.json")).unlink()  # of what there was before
        rows, file = samples(side)
        rows += [row | {"doc_id": 100 + row["doc_id"]} for row in rows[:10]]
        write_jsonl(file, rows)
        means.append(np.mean([row["acc"] for row in rows]))
    rows, *_ = compared(capsys, tmp_path, tmp_path / "dense", tmp_path / "pruned")
    assert rows["acc"]["n"] == 45
    assert rows["acc"]["dense"] == pytest.approx(means[0], abs=1e-12)
    assert rows["acc"]["difference"] == pytest.approx(means[1] - means[0], abs=1e-12)


def test_sides_of_two_kinds_are_refused(recorded, tmp_path, capsys):
    dense, pruned = both(recorded, tmp_path)
    for words, message in (
        ([dense, recorded / "model-pruned"], "of one evaluator"),
        ([dense, pruned, "--benchmark", "mmlu"], "--benchmark is for models"),
        ([dense, pruned, "--card"], "--card is for models"),
    ):
        refused(capsys, ["compare", *words], message)


def test_a_cut_file_is_refused(recorded, tmp_path, capsys):
    dense, pruned = both(recorded, tmp_path)
    _, file = samples(pruned)
    file.write_text(file.read_text()[:-50])
    refused(capsys, ["compare", dense, pruned], "line 45 does not parse")


# Inspect


def test_without_its_package_a_log_of_inspect_is_one_sentence(tmp_path, capsys):
    if importlib.util.find_spec("inspect_ai"):
        pytest.skip("inspect-ai is installed here")
    (tmp_path / "a.eval").write_bytes(b"PK")
    log = tmp_path / "a.eval"
    refused(capsys, ["compare", log, log], "pip install 'evenprune[inspect]'")


def test_logs_of_inspect(tmp_path, capsys, monkeypatch):
    """Of its multiple choice, asked twice, on models of fixed answers, against a naive script."""
    inspect_ai = pytest.importorskip("inspect_ai", reason="pip install inspect-ai")
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.log import write_eval_log
    from inspect_ai.model import ModelOutput, get_model
    from inspect_ai.scorer import choice
    from inspect_ai.solver import multiple_choice

    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    # It counts tokens by a table which it fetches from the network.
    letters_of = SimpleNamespace(encode=lambda text, **_: list(text.encode()))
    monkeypatch.setattr("tiktoken.get_encoding", lambda _: letters_of)
    asked = [Sample(input=f"What is {k} + 1?", choices=[str(k + 1), str(k), "0"], target="A",
                    id=f"q{k}", metadata={"category": f"c{k % 2}"}) for k in range(40)]  # fmt: skip
    right, logs = {}, {}
    for name, seed in zip(SIDES, (1, 2)):
        letters = random.Random(seed).choices("AAB", k=80)
        outputs = [
            ModelOutput.from_content("mockllm/model", f"ANSWER: {letter}") for letter in letters
        ]
        task = inspect_ai.Task(
            name="sums", dataset=MemoryDataset(asked), solver=multiple_choice(), scorer=choice()
        )
        model = get_model("mockllm/model", custom_outputs=outputs, memoize=False)
        (log,) = inspect_ai.eval(
            task, model=model, epochs=2, log_dir=str(tmp_path / name), display="none", max_samples=1
        )
        marks = {one.id: [] for one in asked}
        for one in log.samples:
            marks[one.id].append(one.scores["choice"].value == "C")
        right[name], logs[name] = np.array([*marks.values()], float).mean(axis=1), log
        assert right[name].sum() == letters.count("A") / 2
    capsys.readouterr()
    rows, block, _ = compared(capsys, tmp_path, tmp_path / "dense", tmp_path / "pruned")
    row, pair = rows["choice"], (right["pruned"], right["dense"])
    assert row["n"] == 40
    assert row["difference"] == pytest.approx(pair[0].mean() - pair[1].mean(), abs=1e-9)
    assert row["p"] == pytest.approx(ttest_rel(*pair).pvalue, abs=1e-9)
    assert (row["direction"], row["chance"]) == ("up", pytest.approx(1 / 3))
    assert {one["category"] for one in block["categories"]} == {"c0", "c1"}
    logs["pruned"].status = "error"
    write_eval_log(logs["pruned"], str(tmp_path / "broken.eval"))
    (tmp_path / "cut.eval").write_bytes((tmp_path / "broken.eval").read_bytes()[:300])
    for name, message in (("broken.eval", "status error"), ("cut.eval", "does not read it")):
        refused(capsys, ["compare", tmp_path / "dense", tmp_path / name], message)


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
    rows, *_ = compared(capsys, tmp_path, folder / "dense", folder / "pruned")
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
    refused(capsys, ["compare", copy, copy], "checksum")
    file.unlink()
    refused(capsys, ["compare", copy, copy], "nothing can be paired")


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
