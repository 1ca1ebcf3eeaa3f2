"""Bad input, damaged checkpoints, killed runs."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from both import refused
from folders import change_tensors, contents, tensors
from pruning_models import prune_command, random_pairs, save_model, write_rows
from transformers import AutoTokenizer

from evenprune.cli import main
from evenprune.io.checksums import sealed
from evenprune.io.files import sha256_file
from evenprune.pruning import engine
from evenprune.pruning.check import check_model
from evenprune.pruning.prune import hub_datasets


def fails(capsys, tmp_path, argv, *words):
    """Run a command that must fail with one sentence and leave nothing behind."""
    before = sorted(path.name for path in tmp_path.iterdir())
    refused(capsys, argv, *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# --- bad input ------------------------------------------------------------------------------


def test_pairs_that_are_unequal_and_a_pickle_are_refused(base, tmp_path, capsys):
    row = {"id": "a", "category": "c", "stereotype": "a b c", "anti_stereotype": "a b"}
    argv = prune_command(base, tmp_path / "out", write_rows(tmp_path / "pairs.jsonl", [row]))
    fails(capsys, tmp_path, argv, "unequal", "suffix")
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.add_tokens([f"w{k}" for k in range(99)])
    tokenizer.pad_token = "w98"
    tokenizer.save_pretrained(base)
    fails(capsys, tmp_path, [*argv, "--alignment", "pad"], "but the model has only")
    (tmp_path / "manifest.json").write_text('{"hub": "org/x"}')  # of something else
    assert hub_datasets([tmp_path / "pairs.jsonl"]) == ()
    (base / "model.safetensors").rename(base / "pytorch_model.bin")
    fails(capsys, tmp_path, argv, "safetensors")


def test_longer_pairs_than_the_model_takes_are_refused(base, pairs, tmp_path, capsys):
    config = json.loads((base / "config.json").read_text()) | {"max_position_embeddings": 2}
    (base / "config.json").write_text(json.dumps(config))
    argv = prune_command(base, tmp_path / "out", pairs)
    fails(capsys, tmp_path, argv, "more tokens than the 2")


@pytest.mark.parametrize(
    ("packing", "value", "words"),
    [("shared-prefix", 3e38, ("NaN or infinity",)), ("sentences", 1e30, ("overflow float32",))],
)
def test_overflow_names_layer_and_item(base, tmp_path, capsys, packing, value, words):
    """One word alone has an embedding that v_proj blows up, so one pair alone overflows."""
    rows = [
        row for row in random_pairs(12) if "a" not in row["stereotype"] + row["anti_stereotype"]
    ]
    rows.insert(2, {"id": "bad", "category": "c", "stereotype": "c a", "anti_stereotype": "d a"})
    pairs = write_rows(tmp_path / "pairs.jsonl", rows)
    word = AutoTokenizer.from_pretrained(base)("c a")["input_ids"][-1]

    def spoil(stored):
        table = stored["model.embed_tokens.weight"]
        table[:, 0] = 0.0
        table[word] = 0.0
        table[word, 0] = 1000.0
        stored["model.layers.0.self_attn.v_proj.weight"][:, 0] = value

    change_tensors(base / "model.safetensors", spoil)
    argv = prune_command(base, tmp_path / "out", pairs, packing=packing)
    fails(capsys, tmp_path, argv, "model.layers.0.self_attn.o_proj", "item bad", *words)


def interrupt(monkeypatch, argv, shard):
    """Run a command in this process that dies when it is about to write a shard of the result."""
    write = engine.write_tensors

    def dying(path, content):
        if path.parent.name == "model" and path.name.startswith(f"model-{shard:05d}"):
            raise KeyboardInterrupt
        return write(path, content)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(engine, "write_tensors", dying)
        main(argv)


def flip(file):
    """Turn one bit in the middle of a file round."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("options", "damaged"),
    [
        ({"method": "magnitude", "refit_steps": 5}, None),
        ({"method": "debias-lora", "lora_steps": 2}, None),
        # A finished shard, or its record, that was changed is made again.
        ({}, "model/model-00002*"),
        ({}, "state/model-00002*"),
    ],
    ids=str,
)
def test_an_interrupted_run_continues(
    prunable, checkpoint, pairs, tmp_path, capsys, monkeypatch, options, damaged
):
    argv = prune_command(prunable, tmp_path / "out", pairs, **options)
    interrupt(monkeypatch, argv, 3)
    assert not (tmp_path / "out").exists()
    if damaged:
        (file,) = tmp_path.glob(f".out.partial/*/{damaged}")
        flip(file)
    capsys.readouterr()
    assert main(argv) == 0
    text = capsys.readouterr().err
    assert f"continuing: {1 if damaged else 4 if 'lora_steps' in options else 2} of 4" in text
    assert ("block 1/3" in text) == bool(damaged)
    whole = tmp_path / "whole" if options else checkpoint
    assert whole == checkpoint or main(prune_command(prunable, whole, pairs, **options)) == 0
    assert contents(tmp_path / "out") == contents(whole)


def test_other_inputs_do_not_continue_and_clear_the_remains(
    prunable, pairs, tmp_path, capsys, monkeypatch
):
    interrupt(monkeypatch, prune_command(prunable, tmp_path / "out", pairs), 3)
    capsys.readouterr()
    assert main(prune_command(prunable, tmp_path / "out", pairs, damping=0.02)) == 0
    assert "continuing" not in capsys.readouterr().err
    assert not list(tmp_path.glob(".*"))


def test_bias_weight_zero_is_sparsegpt_bit_for_bit(prunable, pairs, tmp_path):
    def weights(name, **options):
        assert (
            main(prune_command(prunable, tmp_path / name, pairs, alignment="pad", **options)) == 0
        )
        return {k: v for k, v in contents(tmp_path / name).items() if k.endswith("safetensors")}

    plain = weights("sp", method="sparsegpt")
    for scaling in ("equation", "released-2025", "released-2026"):
        assert weights(scaling, bias_weight=0, bias_scaling=scaling) == plain


def test_dtype_and_sharding_of_the_base_are_read(pairs, tmp_path, capsys):
    """Several shards with an index; the result has the base's dtype."""
    base = save_model(tmp_path / "base", "qwen2", dtype=torch.bfloat16, max_shard_size="20KB")
    assert (base / "model.safetensors.index.json").is_file()
    out, report = tmp_path / "out", tmp_path / "report.json"
    report.write_text("[1]")
    for place in (report, out / "report.json"):
        argv = prune_command(base, out, pairs, check=place)
        fails(capsys, tmp_path, argv, "--check", "report.json")
    assert report.read_text() == "[1]"
    report.unlink()
    assert main(prune_command(base, out, pairs, check=report)) == 0
    found = sealed(check_model(out, base))
    assert json.loads(report.read_text()) == found
    assert found["sparsity"] >= 0.5
    assert {one.dtype for one in tensors(tmp_path / "out").values()} == {torch.bfloat16}


# --- check ----------------------------------------------------------------------------------


def negative_zero(weight):
    return torch.where(weight == 0, -0.0, weight)


def too_dense(weight):
    weight[0, :4] = 1.0
    return weight


@pytest.mark.parametrize(
    ("tensor", "change", "word"),
    [
        ("mlp.up_proj", negative_zero, "-0.0"),
        ("mlp.up_proj", too_dense, "group of 4 with 0 zeros"),
        ("mlp.up_proj", lambda w: w / 0.0, "NaN or infinite"),
        ("mlp.up_proj", torch.zeros_like, "all zeros"),
        ("mlp.up_proj", lambda w: w.abs() * 1e25, "float32"),
        ("mlp.up_proj", lambda w: w.double(), "another dtype"),
        ("input_layernorm", lambda w: w + 1, "not to be pruned"),
    ],
)
def test_check_finds_violations(
    prunable, checkpoint, tmp_path, capsys, monkeypatch, tensor, change, word
):
    out = Path(shutil.copytree(checkpoint, tmp_path / "out"))
    file = out / "model-00003-of-00004.safetensors"
    tensor = f"model.layers.1.{tensor}.weight"
    change_tensors(file, lambda stored: stored.update({tensor: change(stored[tensor])}))
    argv = ["check", "--model", out, "--base", prunable, "--out", tmp_path / "c.json"]
    fails(capsys, tmp_path, argv, "has changed since", file.name)

    manifest = json.loads((out / "manifest.json").read_text())
    manifest["files"][file.name] = sha256_file(file)
    (out / "manifest.json").write_text(json.dumps(sealed(manifest)))
    fails(capsys, tmp_path, argv, word, tensor)
