"""Model folders that are damaged, do not fit together or bring code: refused, never scored."""

import io
import json
import math
import shutil
import sys
from functools import partial
from pathlib import Path

import evaluation_fixtures
import pytest
import torch
from both import refused
from evaluation_fixtures import command, write_datasets
from folders import change_json, change_tensors
from pruning_models import prune_command, random_pairs, save_model, write_rows
from transformers import AutoModelForCausalLM, GPTNeoConfig

from evenprune import cli
from evenprune.io.errors import UserError
from evenprune.io.files import sha256_file
from evenprune.models import loading, tensors
from evenprune.models.loading import load_tokenizer

CONFIG, WEIGHTS = "config.json", "model.safetensors"
HEAD = "lm_head.weight"
MATRIX = "model.layers.1.mlp.up_proj.weight"


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("sharded"), "llama2", max_shard_size="20KB")


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    rows = [{"id": k, "text": "a b c d e f g h"} for k in range(3)]
    folder = tmp_path_factory.mktemp("stories")
    return write_rows(folder / "stories_1000.jsonl", rows).parent


@pytest.fixture
def parts(sharded, tmp_path):
    """A model in several files that a test may damage, its index, and what that says."""
    base = Path(shutil.copytree(sharded, tmp_path / "base"))
    index = base / "model.safetensors.index.json"
    return base, index, json.loads(index.read_text())


prune = partial(prune_command, method="magnitude")


def evaluate(model, data, out, *more):
    options = ["--benchmark", "perplexity", "--device", "cpu", *more]
    return ["evaluate", "--model", str(model), "--data", str(data), "--out", str(out), *options]


def check(model, base, out):
    return ["check", "--model", str(model), "--base", str(base), "--out", str(out)]


def all_refuse(capsys, base, checkpoint, stories, tmp_path, *words):
    """No command takes the model ``base``, and none leaves anything behind."""
    out = tmp_path / "out"
    for argv in (prune(base, out), evaluate(base, stories, out), check(checkpoint, base, out)):
        refused(capsys, argv, *words)
        assert not out.exists()


def named(folder, *words):
    """The check that every command makes first refuses a folder, in words that hold ``words``."""
    with pytest.raises(UserError) as caught:
        loading.check_model_folder(folder)
    for word in words:
        assert word in str(caught.value)


# --- weights that do not belong to the configuration -------------------------------------------


@pytest.mark.parametrize("name", [HEAD, MATRIX])
def test_missing_tensor(base, checkpoint, stories, tmp_path, capsys, name):
    change_tensors(base / WEIGHTS, lambda stored: stored.pop(name))
    all_refuse(capsys, base, checkpoint, stories, tmp_path, "lack", name, str(base))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("num_hidden_layers", 1, ("model.layers.1.", "and 14 more")),
        ("num_hidden_layers", 10**9, ("number of layers", "1000000000")),
        ("intermediate_size", 128, ("another shape", "mlp.gate_proj")),
        ("quantization_config", {"quant_method": "gptq", "bits": 4}, ("are quantised (gptq)",)),
        ("transformers_weights", "other.safetensors", ("remove that key",)),
        ("_attn_implementation", "org/kernel", ("remove that key",)),
        ("head_dim", 10**9, ("head_dim", "at most 10,000,000")),
        ("num_labels", 10**9, ("num_labels", "at most 10,000")),
    ],
)
def test_a_configuration_of_other_weights_files_or_of_absurd_size(base, key, value, words):
    shutil.copy(base / "model.safetensors", base / "other.safetensors")
    change_json(base / CONFIG, **{key: value})
    named(base, *words)


def test_masks_of_positions_are_no_larger_than_the_weights(tmp_path):
    shape = {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 64}
    config = GPTNeoConfig(**shape, attention_types=[[["global", "local"], 1]], vocab_size=64)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    loading.check_model_folder(tmp_path)
    change_json(tmp_path / CONFIG, max_position_embeddings=60_000)
    named(tmp_path, "asks for tables of 7,200,")


@pytest.mark.parametrize(
    "changes",
    [
        {"return_dict": False}, {"_attn_implementation": "paged|eager"},
        {"attn_implementation": "eager"}, {"experts_implementation": "eager"},
    ],
    ids=str,
)  # fmt: skip
def test_a_configuration_does_not_say_how_it_is_computed(base, changes):
    tokens = torch.arange(9)[None]
    expected = loading.load_model(base)(tokens).logits
    change_json(base / CONFIG, **changes)
    model = loading.load_model(base)
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(model(tokens).logits, expected)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_tied_heads_and_old_buffers_are_no_fault(name, tmp_path):
    base = save_model(tmp_path / "base", name)
    loading.check_model_folder(base)
    if name == "llama":  # as old checkpoints of transformers have it
        old = "model.layers.0.self_attn.rotary_emb.inv_freq"
        change_tensors(base / WEIGHTS, lambda stored: stored.update({old: torch.ones(4)}))
        loading.check_model_folder(base)


# --- NaN and numbers that cannot be computed with ----------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"), [(HEAD, math.nan), ("model.norm.weight", math.inf), (MATRIX, math.inf)]
)
def test_nan_weights_get_no_score(base, stories, tmp_path, capsys, name, value):
    change_tensors(base / WEIGHTS, lambda stored: stored[name].view(-1)[3:4].fill_(value))
    for argv in (prune(base, tmp_path / "out"), evaluate(base, stories, tmp_path / "out")):
        refused(capsys, argv, "NaN or infinity", name)
    with pytest.raises(UserError, match="NaN or infinity"):
        tensors.check_stored(base)
    assert not (tmp_path / "out" / "metrics.json").exists()


# --- headers and index -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../{}", "{folder}/{}", 3])
def test_an_index_reaches_no_other_folder(parts, tmp_path, name):
    base, file, index = parts
    first, part = min(index["weight_map"].items())
    shutil.copyfile(base / part, tmp_path / part)
    given = name.format(part, folder=tmp_path) if isinstance(name, str) else name
    index["weight_map"][first] = given
    file.write_text(json.dumps(index))
    named(base, "index.json", first)


def test_an_index_agrees_with_its_files(parts, checkpoint, stories, tmp_path, capsys):
    base, file, index = parts
    places = index["weight_map"]
    first = min(places)
    other = next(file for file in places.values() if file != places[first])
    file.write_text(json.dumps(index | {"weight_map": places | {first: other}}))
    all_refuse(capsys, base, checkpoint, stories, tmp_path, "do not agree", first)
    del places[first]
    file.write_text(json.dumps(index))
    named(base, "do not agree", first)


def test_an_adapter_is_not_left_out_or_added_in_silence(base):
    (base / "adapter_config.json").write_text('{"base_model_name_or_path": "x"}')
    named(base, "adapter_config.json", "merge")


# --- code that a model brings ------------------------------------------------------------------

CODE = """
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
Path({marker!r}).touch()
class OwnConfig(LlamaConfig):
    model_type = "own-llama"
class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig
class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture
def coded(base, tmp_path, monkeypatch):
    """A folder that needs its own Python file, which leaves a mark when it runs."""
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    (base / "own.py").write_text(CODE.format(marker=str(tmp_path / "ran")))
    places = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    change_json(base / CONFIG, model_type="own-llama", auto_map=places)
    return base


def own_tokenizer(folder):
    places = {"AutoTokenizer": ["own.OwnTokenizer"] * 2}
    file = folder / "tokenizer_config.json"
    change_json(file, tokenizer_class="OwnTokenizer", auto_map=places)


@pytest.mark.parametrize("tokenizer", [False, True])
def test_code_never_runs_by_prompt(
    coded, prunable, checkpoint, stories, tmp_path, capsys, monkeypatch, tokenizer
):
    if tokenizer:
        own_tokenizer(coded)
        shutil.copyfile(prunable / "config.json", coded / "config.json")
    out = tmp_path / "out"
    commands = [prune(coded, out), evaluate(coded, stories, out)]
    if not tokenizer:
        export = ["export-sparse24", "--model", str(coded), "--out", str(out)]
        commands += [check(checkpoint, coded, out), export]
    for argv in commands:
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 100))
        refused(capsys, argv, "code of its own", "trust_remote_code", str(coded))
    assert not (tmp_path / "ran").exists()


def test_code_runs_where_it_is_allowed_and_is_recorded(coded, stories, tmp_path, capsys):
    own_tokenizer(coded)
    out = tmp_path / "out"
    assert cli.main([*prune(coded, out), "--trust-remote-code"]) == 0
    assert (tmp_path / "ran").exists()
    own = {"own.py": sha256_file(coded / "own.py")}
    assert json.loads((out / "manifest.json").read_text())["trust_remote_code"] == own
    assert (out / "own.py").is_file()
    argv = check(out, coded, tmp_path / "check.json")
    refused(capsys, argv, "code of its own")
    assert cli.main([*argv, "--trust-remote-code"]) == 0
    argv = evaluate(out, stories, tmp_path / "eval")
    refused(capsys, argv, "code of its own")
    assert cli.main([*argv, "--trust-remote-code"]) == 0
    metrics = json.loads((tmp_path / "eval/metrics.json").read_text())
    assert metrics["spec"]["trust_remote_code"] == own


def test_allowed_code_comes_from_the_folder_alone(coded, tmp_path, capsys):
    change_json(coded / CONFIG, auto_map={"AutoConfig": "else/where--own.OwnConfig"})
    argv = [*prune(coded, tmp_path / "out"), "--trust-remote-code"]
    refused(capsys, argv, "another repository", "else/where--own.OwnConfig")


# Tokenizers that do not belong to their model, or lose the text: refused before anything runs


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


TEN = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
LONG = {"normalizer": {"type": "Sequence", "normalizers": [TEN] * 9}}


def dropout(share):
    return {"model": {"type": "BPE", "dropout": share, "vocab": {}, "merges": []}}


# What is done to which file, and the words of the refusal
CASES = {
    "longer text": ("tokenizer.json", LONG, "as long"),
    "longer answers": ("tokenizer.json", {"decoder": TEN | {"content": "a" * 10**5}}, "as long"),
    "dropout": ("tokenizer.json", dropout(0.5), "dropout 0.5"),
    "more dropout": ("tokenizer.json", dropout(2), "dropout 2"),
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
    evaluation_fixtures.save_model(root / "model")
    rows = [{**row, "stereotype": f"Tor {row['stereotype']} VK"} for row in random_pairs(4)]
    write_rows(root / "pairs.jsonl", rows)
    return write_datasets(root)


@pytest.fixture
def model(made, tmp_path):
    return shutil.copytree(made / "model", tmp_path / "model")


@pytest.mark.parametrize("case", CASES)
def test_a_tokenizer_that_loses_text_or_leaves_the_embeddings_is_refused(
    made, model, tmp_path, capsys, case
):
    name, change, words = CASES[case]
    file, out = model / name, tmp_path / "out"
    state = json.loads(file.read_text()) if file.exists() else {}
    state.update(change) if isinstance(change, dict) else change(state)
    file.write_text(json.dumps(state))
    prune = prune_command(model, out, made / "pairs.jsonl", alignment="suffix")
    for argv in (command("crows_pairs", model, made, out), prune):
        refused(capsys, argv, words, str(model))
        assert not out.exists()


def test_a_tokenizer_that_does_not_give_a_text_back_says_so(model, capsys):
    letters = {"type": "Replace", "pattern": {"Regex": "[a-z]"}, "content": ""}
    change_json(model / "tokenizer.json", normalizer=letters)
    for _ in range(2):
        load_tokenizer(model)
    assert capsys.readouterr().err.count("back for 'The quick brown fox.'") == 1


def test_an_option_of_which_no_token_is_left_is_refused(made, model, tmp_path, capsys):
    answer = {"type": "Replace", "pattern": {"Regex": "(?<=Answer:) ?[ABC]"}, "content": ""}
    change_json(model / "tokenizer.json", normalizer=answer)
    own = tmp_path / "own.csv"
    own.write_text("question,option1,option2,answer\nWho sang?,Vel,Tor,A\n")
    argv = command("multiple_choice", model, made, tmp_path / "out")
    argv[argv.index("--data") + 1] = str(own)
    refused(capsys, argv, "an answer of item", "has 0 tokens")
