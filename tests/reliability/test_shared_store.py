"""Two clones with one store: what one has finished the other takes over, and nothing else."""

import json
import shutil

import pytest
from evaluation_fixtures import save_model, write_datasets

from evenprune.cli import main
from evenprune.evaluation import evaluate_checkpoint
from evenprune.pruning.engine import PruningRun

METHODS = {"sparsegpt": "0.01", "wanda": None, "debias-sparsegpt": "0.01"}


@pytest.fixture
def computed(monkeypatch):
    """The checkpoints and benchmarks that were really computed."""
    found = []
    finish, run = PruningRun.finish, evaluate_checkpoint.run_benchmark

    def counted_finish(self, *given):
        found.append(self.options.method)
        return finish(self, *given)

    def counted_run(lm, slug, *rest):
        found.append(slug)
        return run(lm, slug, *rest)

    monkeypatch.setattr(PruningRun, "finish", counted_finish)
    monkeypatch.setattr(evaluate_checkpoint, "run_benchmark", counted_run)

    def taken():
        these = sorted(found)
        found.clear()
        return these

    return taken


def make_clone(folder):
    folder.mkdir()
    save_model(folder / "base")
    write_datasets(folder / "data")
    rows = [
        {"id": f"p{k}", "category": "tribe", "stereotype": f"A Vel man is b{end}",
         "anti_stereotype": f"A Vel man is m{end}"}
        for k, end in enumerate(("ad", "at", "ed", "et"))
    ]  # fmt: skip
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def run(clone, store, dampings):
    """Prune by each method and evaluate all; return all files of the results."""
    shared = ["--store", str(store)] if store else []
    for method, damping in dampings.items():
        out = clone / "pruned" / method
        words = ["prune", "--model", str(clone / "base"), "--method", method, "--regime", "2of4"]
        words += ["--pairs", str(clone / "pairs.jsonl"), "--device", "cpu", "--out", str(out)]
        assert main([*words, *(["--damping", damping] if damping else []), *shared]) == 0
        benchmarks = {
            "unqover": {"task": "unqover", "data": str(clone / "data/unqover")},
            "stereoset": {"task": "stereoset", "data": str(clone / "data/stereoset")},
        }
        words = ["evaluate-checkpoint", "--model", str(out), "--device", "cpu"]
        words += ["--benchmarks", json.dumps(benchmarks), "--out", str(clone / "evals" / method)]
        assert main([*words, *shared]) == 0
    return {
        str(file.relative_to(clone)): file.read_bytes()
        for place in ("pruned", "evals")
        for file in (clone / place).rglob("*")
        if file.is_file() and file.name != "provenance.json"
    }


@pytest.mark.slow
def test_a_second_clone_computes_only_what_is_new_or_damaged(tmp_path, computed, capsys):
    store = tmp_path / "store"
    first = run(make_clone(tmp_path / "one"), store, METHODS)
    everything = sorted([*METHODS, *["unqover", "stereoset"] * len(METHODS)])
    assert computed() == everything

    clone = make_clone(tmp_path / "two")
    assert run(clone, store, METHODS) == first
    assert computed() == []
    capsys.readouterr()

    # One changed damping: exactly its own checkpoint and what was measured on it.
    shutil.rmtree(clone / "pruned")
    shutil.rmtree(clone / "evals")
    changed = run(clone, store, {**METHODS, "sparsegpt": "0.5"})
    assert computed() == ["sparsegpt", "stereoset", "unqover"]
    assert {name for name in first if changed[name] != first[name]} <= {
        name for name in first if "/sparsegpt/" in name
    }

    # A damaged checkpoint is noticed and made again; evaluations of the same bytes are not.
    entries = sorted((store / "pruned model").iterdir())
    assert len(entries) == 4
    for entry in entries:
        shard = max(entry.glob("*.safetensors"), key=lambda file: file.stat().st_size)
        content = bytearray(shard.read_bytes())
        content[-1] ^= 1
        shard.unlink()
        shard.write_bytes(content)
    third = make_clone(tmp_path / "three")
    assert run(third, store, METHODS) == first
    assert computed() == sorted(METHODS)
    assert capsys.readouterr().err.count("is damaged and not used") == len(METHODS)
    assert run(make_clone(tmp_path / "four"), store, METHODS) == first
    assert computed() == []

    # Positive control: without a store everything is computed.
    assert run(make_clone(tmp_path / "five"), None, METHODS) == first
    assert computed() == everything
