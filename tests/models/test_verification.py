"""What was checked stays checked: each step notices inputs that are not those that were recorded.

Everything here goes through the command line, as a user or the workflow would.
"""

import json
import shutil

import evaluation_fixtures
import pytest
from both import refused
from folders import change_json, change_tensors, contents
from pruning_models import prune_command, random_pairs, save_model, write_rows
from reporting_run import seal, small_config, write_run

from evenprune.cli import main
from evenprune.io.checksums import sealed
from evenprune.io.files import sha256_file, write_json
from evenprune.models.identity import identify


def run(*words):
    return main([str(word) for word in words])


def change_weights(file):
    """Give one tensor of a safetensors file other finite values; its size stays."""
    change_tensors(file, lambda tensors: tensors[min(tensors)].mul_(1.5))


def reader(command, model, data, tmp_path):
    """The words of a command that reads a model."""
    prompts = write_rows(tmp_path / "prompts.jsonl", [{"id": "1", "text": "a b c d " * 99}])
    own = {
        "evaluate": ("--benchmark", "unqover", "--data", data),
        "evaluate-checkpoint": (
            "--benchmarks", json.dumps({"u": {"task": "unqover", "data": str(data), "limit": 2}}),
        ),
        "prune": ("--method", "magnitude", "--regime", "u50"),
        "build-calibration": ("--pairs", "stereoset", "--pairs-data", tmp_path / "data/stereoset"),
        "compare-masks": ("--reference", model),
        "export-sparse24": (),
        "benchmark-serving": ("--prompts", prompts),
    }  # fmt: skip
    return (command, "--model", model, *own[command], "--out", tmp_path / "out")


# Recorded sources


@pytest.fixture
def mirror(tmp_path):
    """A mirror with a tiny model and data sets, and the records of both."""
    evaluation_fixtures.write_datasets(tmp_path / "data")
    evaluation_fixtures.save_model(tmp_path / "models/tiny")
    common = ("--mirror", tmp_path, "--lock", tmp_path / "lock.json")
    records = tmp_path / "records"
    for kind, name in (("data", "unqover"), ("models", "tiny")):
        words = ("--kind", kind, "--name", name, "--out", records / f"{name}.json")
        assert run("fetch-source", *words, *common) == 0
    return tmp_path


def test_altered_weights_are_noticed_by_the_next_step(mirror, tmp_path, capsys):
    model, data = mirror / "records/tiny.json", mirror / "records/unqover.json"
    weights = mirror / "models/tiny/model.safetensors"
    assert run(*reader("evaluate-checkpoint", model, data, tmp_path)) == 0
    shutil.rmtree(tmp_path / "out")
    change_weights(weights)
    steps = "evaluate-checkpoint", "evaluate", "prune", "build-calibration", "benchmark-serving"
    for command in steps:
        words = reader(command, model, data, tmp_path)
        refused(capsys, words, weights, model, f"snakemake --cores all -f {model}")
        assert not (tmp_path / "out").exists(), command


# Pruned checkpoints


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("base") / "base")


@pytest.fixture(scope="module")
def made(base, tmp_path_factory):
    """A pruned and checked checkpoint in the layout of the workflow."""
    folder = tmp_path_factory.mktemp("pruned") / "s0"
    pairs = write_rows(folder.parent / "pairs.jsonl", random_pairs(6))
    assert run(*prune_command(base, folder / "model", pairs, method="sparsegpt")) == 0
    check = ("check", "--model", folder / "model", "--base", base)
    assert run(*check, "--out", folder / "check.json") == 0
    return folder


@pytest.fixture
def pruned(made, tmp_path):
    return shutil.copytree(made, tmp_path / "s0") / "model"


@pytest.fixture
def data(tmp_path):
    return evaluation_fixtures.write_datasets(tmp_path / "data") / "unqover"


def test_a_shard_changed_after_its_check_is_noticed(pruned, data, tmp_path, capsys):
    shard = sorted(pruned.glob("*.safetensors"))[-1]
    change_weights(shard)
    steps = "evaluate-checkpoint", "compare-masks", "export-sparse24", "benchmark-serving"
    for command in steps:
        words = reader(command, pruned, data, tmp_path)
        refused(capsys, words, shard, f"snakemake --cores all -f {pruned}")
        assert not (tmp_path / "out").exists(), command
    # And where the manifest was changed with it.
    manifest = json.loads((pruned / "manifest.json").read_text())
    files = manifest["files"] | {shard.name: sha256_file(shard)}
    change_json(pruned / "manifest.json", files=files)
    words = reader("evaluate", pruned, data, tmp_path)
    refused(capsys, words, pruned / "manifest.json", "has changed")


def test_a_manifest_beside_other_weights_is_not_believed(base, pruned, data, tmp_path, capsys):
    folder = shutil.copytree(base, tmp_path / "copy")
    shutil.copy(pruned / "manifest.json", folder)
    words = reader("evaluate", folder, data, tmp_path)
    refused(capsys, words, folder / "manifest.json", "no such file")
    # A second form of the weights, which transformers would read in place of the checked one.
    shutil.copy(base / "model.safetensors", pruned)
    words = reader("evaluate", pruned, data, tmp_path)
    refused(capsys, words, pruned / "model.safetensors", "none of the")


def test_check_names_another_base_and_records_the_right_one(base, made, tmp_path, capsys):
    report = json.loads((made / "check.json").read_text())
    manifest = json.loads((made / "model/manifest.json").read_text())
    assert identify(base).files_sha256 == report["base_sha256"] == manifest["base"]["files_sha256"]
    assert report["options"] == manifest["options"]
    other = shutil.copytree(base, tmp_path / "other")
    change_weights(other / "model.safetensors")
    check = ("check", "--model", made / "model", "--base", other, "--out", tmp_path / "check.json")
    refused(capsys, check, made / "model", other, "another base model")
    assert not (tmp_path / "check.json").exists()


def test_edited_calibration_pairs_are_noticed(base, tmp_path, capsys):
    pairs = write_rows(tmp_path / "pairs.jsonl", random_pairs(6))
    write_json(tmp_path / "manifest.json", sealed({"files": {pairs.name: sha256_file(pairs)}}))
    write_rows(pairs, random_pairs(5))
    words = prune_command(base, tmp_path / "out", pairs, method="sparsegpt")
    refused(capsys, words, pairs, f"snakemake --cores all -f {tmp_path / 'manifest.json'}")


# Results of evaluation


def truncate(folder):
    text = (folder / "items.jsonl").read_text()
    (folder / "items.jsonl").write_text(text[: text[:-1].rindex("\n") + 1])


def edit(folder):
    text = (folder / "items.jsonl").read_text()
    (folder / "items.jsonl").write_text(text.replace('"correct":true', '"correct":false'))


def improve(folder):
    change_json(folder / "metrics.json", metrics={"acc": {"value": 1.0, "n": 4}})


def test_damaged_results_are_computed_again(base, data, tmp_path, capsys):
    spec = {"u": {"task": "unqover", "data": str(data), "limit": 4}}
    spec["c"] = {"task": "crows_pairs", "data": str(data.parent / "crows_pairs")}
    words = ("evaluate-checkpoint", "--model", base, "--benchmarks", json.dumps(spec))
    evals = tmp_path / "evals"
    command = (*words, "--out", evals)
    assert run(*command) == 0
    before = contents(evals)
    times = {name: (evals / name).stat().st_mtime_ns for name in before if name.startswith("c/")}
    for damage in (truncate, edit, improve):
        damage(evals / "u")
        (evals / "summary.json").unlink()  # as Snakemake does before it runs a job
        (evals / "c/partial.jsonl").write_text('{"key":"of a kill at the very end"}\n')
        capsys.readouterr()
        assert run(*command) == 0
        assert "u: computed again" in capsys.readouterr().out
        assert contents(evals) == before
        assert times == {name: (evals / name).stat().st_mtime_ns for name in times}  # kept


# Results of a run


@pytest.fixture
def root(repo, tmp_path):
    foreign = {"arc": {"task": "lm_eval", "name": "arc_easy"}}
    write_run(small_config(repo, tmp_path, tables=["main"], benchmarks=foreign), 4)
    return tmp_path


def collect(root):
    out = (root / "results.csv", "--significance", root / "significance.csv")
    return ("collect-results", "--run-sheet", root / "run_sheet.json", "--out", *out)


@pytest.mark.parametrize(
    "file",
    [
        "evals/world/sparsegpt/2of4/*/s0/summary.json",
        "pruned/world/sparsegpt/2of4/*/s0/check.json",
        "serving/world/efficiency.json",
    ],
)
def test_no_row_has_two_base_models(root, file, capsys):
    path = next(root.glob(file))
    content = json.loads(path.read_text())

    def changed(**names):
        """The content with other names of one checkpoint's models."""
        if "checkpoints" not in content:
            return content | names
        key = next(key for key in content["checkpoints"] if key.startswith("world/sparsegpt/2of4"))
        part = content["checkpoints"][key] | names
        return content | {"checkpoints": content["checkpoints"] | {key: part}}

    path.write_text(json.dumps(changed(base_sha256="c" * 16)))
    refused(capsys, collect(root), path, "has changed")
    path.write_text(json.dumps(sealed(changed(base_sha256="c" * 16))))
    dense = root / "evals/world/dense/dense/none/s0/summary.json"
    refused(capsys, collect(root), path, dense, "bbbbbbbbbbbb", "cccccccccccc", "fetch_source")
    path.write_text(json.dumps(sealed(changed(model_sha256="d" * 16))))
    refused(capsys, collect(root), "is of other weights than")
    if path.name == "check.json":
        path.write_text(json.dumps(sealed(changed(options={"damping": 0.5}))))
        refused(capsys, collect(root), "was pruned with damping 0.5", "the configuration has 0.01")


def test_results_of_other_options_are_refused(root, capsys):
    evals = next(root.glob("evals/world/sparsegpt/2of4/*/s0"))
    change_json(evals / "bbq/metrics.json", spec={"task": "bbq", "limit": 4})
    seal(evals)
    refused(capsys, collect(root), "was evaluated with limit 4, but the configuration has null")
    change_json(evals / "bbq/metrics.json", spec={"task": "bbq", "split": "full"})
    change_json(evals / "arc/metrics.json", spec={"task": "lm_eval"})
    seal(evals)
    refused(capsys, collect(root), 'evaluated with name null, but the configuration has "arc_easy"')
