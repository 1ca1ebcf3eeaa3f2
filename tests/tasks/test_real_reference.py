"""Every benchmark's records on a real model and real items, against the naive reference.

SmolLM2-135M-Instruct in float32, item by item: all log-probabilities within 1e-3 nats and all
decisions equal (``naive.py``). Where model and data come from: ``real_model.py``. A benchmark
has 4 items; EVENPRUNE_AGREEMENT=500 makes that 500. Windows of 2,048 tokens: of its first blocks.
"""

import json
import math
import os
from functools import cache

import naive
import numpy as np
import pytest
from real_model import real_data, shortened, smollm2_folder

from evenprune.data.readers.bbq import bbq_files, read_bbq
from evenprune.data.readers.choice import read_mmlu
from evenprune.data.readers.crows_pairs import read_crows_pairs
from evenprune.data.readers.stereoset import read_stereoset
from evenprune.data.readers.texts import read_wikitext
from evenprune.evaluation.benchmarks import ask, run_benchmark
from evenprune.evaluation.load_model import Loader
from evenprune.tasks.protocol import make_protocol
from evenprune.tasks.unqover_generator import head_items

ITEMS = int(os.environ.get("EVENPRUNE_AGREEMENT", 4))
BAR = 1e-3  # nats
NUMBERS = (
    "option_logits", "option_logprobs", "shared_logprobs", "unrelated_logprob", "mass", "nll",
)  # fmt: skip

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reference():
    return naive.NaiveModel(smollm2_folder())


def evaluation(folder, tmp_path_factory):
    """Return a function that evaluates as the command does, with one loaded model for all calls."""
    loader = Loader(folder, "cpu")

    def evaluate(task, data, **options):
        spec = make_protocol({"task": task, "dtype": "float32", **options})
        out = tmp_path_factory.mktemp(task)
        result = run_benchmark(ask(task, spec, data, loader), out)
        assert result["spec"]["dtype"] == "float32"
        with open(out / "items.jsonl") as lines:
            return [json.loads(line) for line in lines], result["metrics"]

    return evaluate


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return evaluation(smollm2_folder(), tmp_path_factory)


@cache
def short_questions():
    """Questions of MMLU that are short with their options."""
    items = read_mmlu(real_data("mmlu"))
    # A CPU scores some 300 tokens a second.
    return [one for one in items if len(one.query) + sum(map(len, one.choices)) <= 80]


def compare(found, expected):
    """Compare records with the reference's; print the largest difference of a log-probability."""
    assert len(found) == len(expected) > 0
    largest = 0.0
    for ours, theirs in zip(found, expected, strict=True):
        for key, value in theirs.items():
            told = f"{ours['item_id']}: {key} is {ours[key]}, by the reference {value}"
            if key in NUMBERS:
                assert np.shape(ours[key]) == np.shape(value), told
                gap = np.abs(np.subtract(ours[key], value)).max()
                # nats a token, of the sum over a text or a window of thousands
                assert gap < (1e-5 * ours["n_tokens"] if key == "nll" else BAR), told
                largest = max(largest, gap)
            else:
                assert ours[key] == value, told
    print(f"{len(found)} items, largest difference {largest:.2e}")


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def share(expected, key):
    return pytest.approx(np.mean([one[key] for one in expected if one[key] is not None]))


def bbq_data(folder):
    # The smallest files: reading all takes longer than scoring.
    for path in bbq_files(real_data("bbq")):
        if path.name.split(".")[0] in ("Disability_status", "Religion"):
            (folder / path.name).symlink_to(path.resolve())
    return folder


def mmlu_data(folder):
    rows = [
        {"subject": i.category, "question": i.query, "choices": i.choices, "answer": i.gold}
        for i in short_questions()
    ]
    assert any("_" in row["subject"] for row in rows)  # subjects of several words
    return write_rows(folder / "test.jsonl", rows).parent


# name -> its data, its items, options, metric -> field of the records whose mean it is
CASES = {
    "stereoset": (
        lambda folder: real_data("stereoset"), read_stereoset, {}, {"ss": "correct"},
    ),
    "crows_pairs": (
        lambda folder: real_data("crows_pairs"),
        lambda data: read_crows_pairs(data, "anonymized"),
        {"split": "anonymized"},
        {"pct_stereotype": "correct", "pct_stereotype_shared": "correct_shared"},
    ),
    "bbq": (bbq_data, read_bbq, {}, {"acc_all": "correct"}),
    "unqover": (
        lambda folder: real_data("unqover"),
        lambda data: head_items(data / "word_lists"),
        {"split": "generated"},
        {"acc": "correct"},
    ),
    "mmlu": (mmlu_data, read_mmlu, {}, {"acc": "correct"}),
}  # fmt: skip


@pytest.mark.parametrize("task", CASES)
def test_sentences_and_letters_are_scored(task, run, reference, tmp_path):
    write, read, options, shares = CASES[task]
    data = write(tmp_path)
    found, metrics = run(task, data, limit=ITEMS, **options)
    items = {item.id: item for item in read(data)}
    expected = [getattr(naive, task)(reference, items[record["item_id"]]) for record in found]
    compare(found, expected)
    for name, key in shares.items():
        assert metrics[name]["value"] == share(expected, key)


def test_cloze_questions_score_the_options_texts(run, reference, tmp_path):
    found = [item for item in short_questions() if len(set(item.choices)) == 4]
    questions = [(i.query, i.choices, i.gold) for i in found[:: len(found) // ITEMS][:ITEMS]]
    rows = [
        {"id": k, "question": question, "options": options, "answer": gold}
        for k, (question, options, gold) in enumerate(questions)
    ]
    data = write_rows(tmp_path / "own" / "questions.jsonl", rows)
    found, metrics = run("multiple_choice", data, limit=ITEMS, style="texts")
    expected = [naive.cloze(reference, *question) for question in questions]
    compare(found, expected)
    for name, key in (("acc", "correct"), ("acc_norm", "correct_norm")):
        assert metrics[name]["value"] == share(expected, key)


def test_perplexity_of_windows(tmp_path, tmp_path_factory):
    """Of articles of twelve real sentences each: the unrelated ones of StereoSet."""
    data = tmp_path / "wiki.test.raw"
    sentences = [item.unrelated for item in read_stereoset(real_data("stereoset"))]
    lines = []
    for k in range(36):
        text = " ".join(sentences[12 * k : 12 * k + 12])
        lines += [f" = Article {k} = ", " ", f" {text} ", " "]
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    folder = shortened(smollm2_folder(), tmp_path / "short")
    found, metrics = evaluation(folder, tmp_path_factory)("perplexity", data.parent)
    expected = naive.windows(naive.NaiveModel(folder), read_wikitext(data.parent))
    assert len(expected) == 2
    compare(found, expected)
    total, count = (sum(record[key] for record in expected) for key in ("nll", "n_tokens"))
    assert metrics["ppl"]["value"] == pytest.approx(math.exp(total / count), rel=BAR)
