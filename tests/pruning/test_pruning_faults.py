"""Bad input, damaged checkpoints, killed runs."""

import json
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from both import refused
from pruning_models import prune_command, random_pairs, save_model, write_rows
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from evenprune.cli import main
from evenprune.io.checksums import sealed
from evenprune.pruning import check, engine


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("base"), "llama2", num_hidden_layers=3)


@pytest.fixture
def base(model, tmp_path):
    """A copy of the model that a test may damage."""
    return Path(shutil.copytree(model, tmp_path / "base"))


@pytest.fixture
def pairs(tmp_path):
    return write_rows(tmp_path / "pairs.jsonl", random_pairs(12))


@pytest.fixture(scope="module")
def checkpoint(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checked")
    pairs = write_rows(folder / "pairs.jsonl", random_pairs(12))
    assert main(prune_command(model, folder / "out", pairs)) == 0
    return folder / "out"


def fails(capsys, tmp_path, argv, *words):
    """Run a command that must fail with one sentence and leave nothing behind."""
    before = sorted(path.name for path in tmp_path.iterdir())
    refused(capsys, argv, *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def rewrite(folder, name, change):
    """Replace one tensor of a single-file checkpoint."""
    file = folder / "model.safetensors"
    stored = load_file(file)
    stored[name] = change(stored[name])
    save_file(stored, file, metadata={"format": "pt"})


# --- bad input ------------------------------------------------------------------------------


def unequal(base, pairs):
    row = {"id": "a", "category": "c", "stereotype": "a b c", "anti_stereotype": "a b"}
    write_rows(pairs, [row])


def pickled(base, pairs):
    (base / "model.safetensors").rename(base / "pytorch_model.bin")


def few_positions(base, pairs):
    config = json.loads((base / "config.json").read_text()) | {"max_position_embeddings": 2}
    (base / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (unequal, ("unequal", "suffix")),
        (pickled, ("safetensors",)),
        (few_positions, ("more tokens than the 2",)),
    ],
)
def test_bad_input(base, pairs, tmp_path, capsys, change, words):
    change(base, pairs)
    fails(capsys, tmp_path, prune_command(base, tmp_path / "out", pairs), *words)


@pytest.mark.parametrize(
    ("packing", "value", "words"),
    [
        ("shared-prefix", 3e38, ("NaN or infinity",)),
        ("sentences", 1e30, ("overflow float32",)),
    ],
)
def test_overflow_names_layer_and_item(base, tmp_path, capsys, packing, value, words):
    """One word alone has an embedding that v_proj blows up, so one pair alone overflows."""
    rows = [
        row for row in random_pairs(12) if "a" not in row["stereotype"] + row["anti_stereotype"]
    ]
    rows.insert(2, {"id": "bad", "category": "c", "stereotype": "c a", "anti_stereotype": "d a"})
    pairs = write_rows(tmp_path / "pairs.jsonl", rows)
    word = AutoTokenizer.from_pretrained(base)("c a")["input_ids"][-1]

    def spoil(table):
        table[:, 0] = 0.0
        table[word] = 0.0
        table[word, 0] = 1000.0
        return table

    def blow_up(weight):
        weight[:, 0] = value
        return weight

    rewrite(base, "model.embed_tokens.weight", spoil)
    rewrite(base, "model.layers.0.self_attn.v_proj.weight", blow_up)
    argv = prune_command(base, tmp_path / "out", pairs, packing=packing)
    fails(capsys, tmp_path, argv, "model.layers.0.self_attn.o_proj", "item bad", *words)


def contents(folder):
    """Return all files of a result but the one that tells times."""
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if path.name != "provenance.json"
    }


def interrupt(monkeypatch, argv, shard):
    """Run a command in this process that dies when it is about to write a shard."""
    write = engine.write_tensors

    def dying(path, content):
        if path.name.startswith(f"model-{shard:05d}"):
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
        ({"method": "debias-lora", "regime": "dense", "lora_steps": 2}, None),
        # A finished shard, or its record, that was changed is made again.
        ({}, "model/model-00002*"),
        ({}, "state/model-00002*"),
    ],
    ids=str,
)
def test_an_interrupted_run_continues(
    model, checkpoint, pairs, tmp_path, capsys, monkeypatch, options, damaged
):
    argv = prune_command(model, tmp_path / "out", pairs, **options)
    interrupt(monkeypatch, argv, 3)
    assert not (tmp_path / "out").exists()
    if damaged:
        (file,) = tmp_path.glob(f".out.partial/*/{damaged}")
        flip(file)
    capsys.readouterr()
    assert main(argv) == 0
    text = capsys.readouterr().err
    assert f"continuing: {1 if damaged else 2} of 4 shards" in text
    assert ("block 1/3" in text) == bool(damaged)
    whole = tmp_path / "whole" if options else checkpoint
    assert whole == checkpoint or main(prune_command(model, whole, pairs, **options)) == 0
    assert contents(tmp_path / "out") == contents(whole)


def test_other_inputs_do_not_continue_and_clear_the_remains(
    model, pairs, tmp_path, capsys, monkeypatch
):
    interrupt(monkeypatch, prune_command(model, tmp_path / "out", pairs), 3)
    capsys.readouterr()
    assert main(prune_command(model, tmp_path / "out", pairs, damping=0.02)) == 0
    assert "continuing" not in capsys.readouterr().err
    assert not list(tmp_path.glob(".*"))


def test_bias_weight_zero_is_sparsegpt_bit_for_bit(model, pairs, tmp_path):
    def weights(name, **options):
        assert main(prune_command(model, tmp_path / name, pairs, alignment="pad", **options)) == 0
        return {k: v for k, v in contents(tmp_path / name).items() if k.endswith("safetensors")}

    plain = weights("sp", method="sparsegpt")
    for scaling in ("equation", "released-2025", "released-2026"):
        assert weights(scaling, bias_weight=0, bias_scaling=scaling) == plain


def test_dtype_and_sharding_of_the_base_are_read(pairs, tmp_path):
    """Several shards with an index; the result has the base's dtype."""
    base = save_model(tmp_path / "base", "qwen2", dtype=torch.bfloat16, max_shard_size="20KB")
    assert (base / "model.safetensors.index.json").is_file()
    assert main(prune_command(base, tmp_path / "out", pairs)) == 0
    check = ["check", "--model", str(tmp_path / "out"), "--base", str(base)]
    assert main([*check, "--out", str(tmp_path / "check.json")]) == 0
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert loaded.dtype == torch.bfloat16
    assert json.loads((tmp_path / "check.json").read_text())["sparsity"] >= 0.5


# --- check ----------------------------------------------------------------------------------


def negative_zero(weight):
    return torch.where(weight == 0, -0.0, weight)


def too_dense(weight):
    weight[0, :4] = 1.0
    return weight


@pytest.mark.parametrize(
    ("tensor", "change", "word"),
    [
        ("model.layers.1.mlp.up_proj.weight", negative_zero, "-0.0"),
        ("model.layers.1.mlp.up_proj.weight", too_dense, "group of 4 with 0 zeros"),
        ("model.layers.1.mlp.up_proj.weight", lambda w: w / 0.0, "NaN or infinite"),
        ("model.layers.1.input_layernorm.weight", lambda w: w + 1, "not to be pruned"),
        ("model.layers.1.mlp.up_proj.weight", lambda w: w.double(), "another dtype"),
    ],
)
def test_check_finds_violations(
    model, checkpoint, tmp_path, capsys, monkeypatch, tensor, change, word
):
    out = Path(shutil.copytree(checkpoint, tmp_path / "out"))
    file = out / "model-00003-of-00004.safetensors"
    stored = load_file(file)
    stored[tensor] = change(stored[tensor])
    save_file(stored, file, metadata={"format": "pt"})
    argv = ["check", "--model", str(out), "--base", str(model), "--out", str(tmp_path / "c.json")]
    fails(capsys, tmp_path, argv, "has changed since", file.name)

    from evenprune.io import files

    manifest = json.loads((out / "manifest.json").read_text())
    manifest["files"][file.name] = files.sha256_file(file)
    (out / "manifest.json").write_text(json.dumps(sealed(manifest)))
    fails(capsys, tmp_path, argv, word, tensor)


def test_manifest_and_layers(checkpoint):
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    assert sum(facts.get("pruned", False) for facts in manifest["tensors"].values()) == 21
    assert (manifest["sparsity"], manifest["calibration"]["pairs_kept"]) == (0.5, 12)
    assert len((checkpoint / "layers.csv").read_text().splitlines()) == 22
    provenance = json.loads((checkpoint / "provenance.json").read_text())
    assert len(provenance["blocks"]) == 3
    for block in provenance["blocks"]:
        assert 0 < sum(block["phases"].values()) <= block["seconds"] + 0.01
    assert "seconds" not in (checkpoint / "manifest.json").read_text()


def test_prune_checks_its_result_where_asked(base, pairs, tmp_path, capsys, monkeypatch):
    out, report = tmp_path / "out", tmp_path / "report.json"
    inside = prune_command(base, out, pairs, check=out / "report.json")
    fails(capsys, tmp_path, inside, "--check", "report.json")
    report.write_text("[1]")
    fails(capsys, tmp_path, prune_command(base, out, pairs, check=report), "--check", "report.json")
    assert report.read_text() == "[1]"
    report.unlink()
    # Killed while it checks: no block is pruned again.
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(check, "check_model", Mock(side_effect=KeyboardInterrupt))
        main(prune_command(base, out, pairs, check=report))
    assert not out.exists()
    capsys.readouterr()
    assert main(prune_command(base, out, pairs, check=report)) == 0
    said = capsys.readouterr().err
    assert "continuing: 4 of 4 shards are finished" in said
    assert "block 3/3" not in said
    alone = tmp_path / "alone.json"
    assert main(["check", "--model", str(out), "--base", str(base), "--out", str(alone)]) == 0
    assert alone.read_bytes() == report.read_bytes()
