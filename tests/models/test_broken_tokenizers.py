"""Tokenizers that do not belong to their model, or lose the text: refused before anything runs."""

import json
import shutil

import pytest
from both import refused
from evaluation_fixtures import command, save_model, write_datasets
from pruning_models import random_pairs, write_rows

from evenprune.models.loading import load_tokenizer

FIRST, SECOND = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
POST = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, FIRST],
    "pair": [FIRST, SECOND],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [999], "tokens": ["<s>"]}},
}
SOME = {"type": "Replace", "pattern": {"Regex": "^Tor.*"}, "content": ""}
GONE = {"type": "Split", "pattern": {"Regex": "[\\s\\S]+"}, "behavior": "Removed", "invert": False}


def without_unknown(state):
    state["model"]["unk_token"] = "<none>"
    del state["model"]["vocab"]["K"]


# What is done to which file, and the words of the refusal
CASES = {
    "added token": ("added_tokens.json", {"Tor": 77}, "gives token 77"),
    "padding": ("tokenizer_config.json", {"pad_token": "Tor"}, "gives token 77"),
    "post-processor": ("tokenizer.json", {"post_processor": POST}, "gives token 999"),
    "word": ("tokenizer.json", lambda state: state["model"]["vocab"].update(V=5000), "token 5000"),
    "no unknown": ("tokenizer.json", without_unknown, "does not take a text"),
    "normalizer of some": ("tokenizer.json", {"normalizer": SOME}, "leaves no token"),
    "pre-tokenizer": ("tokenizer.json", {"pre_tokenizer": GONE}, "leaves no token"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("made")
    save_model(root / "model")
    rows = [{**row, "stereotype": f"Tor {row['stereotype']} VK"} for row in random_pairs(4)]
    write_rows(root / "pairs.jsonl", rows)
    return write_datasets(root)


@pytest.mark.parametrize("case", CASES)
def test_a_tokenizer_that_loses_text_or_leaves_the_embeddings_is_refused(
    made, tmp_path, capsys, case
):
    name, change, words = CASES[case]
    model = shutil.copytree(made / "model", tmp_path / "model")
    file, out = model / name, tmp_path / "out"
    state = json.loads(file.read_text()) if file.exists() else {}
    state.update(change) if isinstance(change, dict) else change(state)
    file.write_text(json.dumps(state))
    prune = ["prune", "--model", str(model), "--out", str(out), "--pairs", made / "pairs.jsonl"]
    prune += ["--method", "sparsegpt", "--regime", "2of4", "--alignment", "suffix"]
    for argv in (command("crows_pairs", model, made, out), map(str, prune)):
        refused(capsys, list(argv), words, str(model), "use the tokenizer that belongs")
        assert not out.exists()


def test_a_tokenizer_that_does_not_give_a_text_back_says_so(made, tmp_path, capsys):
    model = shutil.copytree(made / "model", tmp_path / "model")
    file = model / "tokenizer.json"
    letters = {"type": "Replace", "pattern": {"Regex": "[a-z]"}, "content": ""}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"normalizer": letters}))
    for _ in range(2):
        load_tokenizer(model)
    assert capsys.readouterr().err.count("back for 'The quick brown fox.'") == 1


def test_an_option_of_which_no_token_is_left_is_refused(made, tmp_path, capsys):
    model = shutil.copytree(made / "model", tmp_path / "model")
    file = model / "tokenizer.json"
    answer = {"type": "Replace", "pattern": {"Regex": "(?<=Answer:) ?[ABC]"}, "content": ""}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"normalizer": answer}))
    own = tmp_path / "own.csv"
    own.write_text("question,option1,option2,answer\nWho sang?,Vel,Tor,A\n")
    argv = command("multiple_choice", model, made, tmp_path / "out")
    argv[argv.index("--data") + 1] = str(own)
    refused(capsys, argv, "an answer of item", "has 0 tokens")
