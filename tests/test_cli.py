"""Every command: bad files and arguments are one sentence and exit status 2, nothing is written."""

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from both import COMMANDS, main
from evaluation_fixtures import save_model, write_datasets
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pruning_models import random_pairs, write_rows
from reporting_run import seal, write_json, write_run, write_sealed

from evenprune import cli
from evenprune.base.errors import UserError
from evenprune.base.yamlfile import read_yaml
from evenprune.plan import grids
from evenprune.plan.config import Config, load_config
from evenprune_world import shipped_world_model, train_world
from reliability.attacks import CANARY, attack
from reliability.test_attacks import call, run_in_child

COUNT = int(os.environ.get("EVENPRUNE_ATTACKS", 4))  # of each file and command


def write_results(repo, folder: Path, seed: int) -> Config:
    """Write the results of a small run with everything that tables and reports read."""
    grid = {
        "models": ["world"],
        "methods": ["dense", "sparsegpt", "debias-sparsegpt"],
        "regimes": ["2of4"],
        "calibrations": ["ss"],
    }
    given = read_yaml(repo / "config/world.yaml") | {
        "experiments": {name: grid for name in ("main", "regimes", "efficiency", "masks")},
        "tables": ["main", "efficiency", "claims"],
        "figures": ["regimes"],
        "world": {"seed": seed, "retrain": True},
    }
    config = load_config(given, "", repo / "config/catalogue.yaml")
    config = config.model_copy(update={"results": str(folder)})
    write_run(config, 16)
    for path in folder.glob("evals/**/bbq/items.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        write_rows(path, [row | {"biased_idx": 0, "unknown_idx": 2} for row in rows])
        seal(path.parents[1])
    return config


@pytest.fixture(scope="module")
def ground(tmp_path_factory, repo):
    """Good inputs of every command in one folder."""
    root = tmp_path_factory.mktemp("ground")
    save_model(root / "model")
    write_datasets(root / "data")
    write_rows(root / "pairs.jsonl", random_pairs(4))
    write_rows(root / "texts.jsonl", [{"id": "a", "text": "a b c d e f g"}] * 1)
    (root / "data/wikitext2").rename(root / "data/perplexity")
    talk = {"messages": [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}]}
    (root / "data/ultrachat").mkdir()
    write_rows(root / "data/ultrachat/talk.jsonl", [talk] * 3)
    (root / "world/train").mkdir(parents=True)
    write_rows(root / "world/train/facts.jsonl", [{"kind": "facts", "parts": ["a", "b"]}] * 4)
    (root / "world/world.json").write_text(json.dumps({"files": {"a": "0"}}))
    for name in ("data", "models"):
        (root / "mirror" / name).mkdir(parents=True)
    shutil.copytree(root / "data/stereoset", root / "mirror/data/stereoset")
    shutil.copytree(root / "model", root / "mirror/models/tiny")
    record = {"folder": str(root / "data/stereoset"), "files": {"a": {"sha256": "0" * 64}}}
    (root / "record.json").write_text(json.dumps(record))
    (root / "lock.json").write_text(
        json.dumps({"org/name": {"type": "model", "revision": "0" * 40, "files": {}}})
    )
    (root / "config.yaml").write_text("source: external\n")
    options = {"mine": {"task": "unqover", "data": str(root / "data/unqover"), "limit": 2}}
    (root / "benchmarks.json").write_text(json.dumps(options))
    for number, name in enumerate(("run", "run2")):
        config = write_results(repo, root / name, number)
    point = next(p for p in grids.all_checkpoints(config) if p.method == "debias-sparsegpt")
    (root / "point").symlink_to(root / "run/evals" / point.key)
    (root / "pruned").symlink_to(root / "run/pruned" / point.key)
    for name, found in (("calibration", "calibration"), ("speed", "serving")):
        (root / f"{name}.json").symlink_to(next((root / "run" / found).rglob("*.json")))
    (root / "catalogue.yaml").write_bytes((repo / "config/catalogue.yaml").read_bytes())
    assert cli.main(words(root, "prune")) == 0
    (root / "out").rename(root / "good")
    shutil.copytree(root / "good", root / "other")
    assert cli.main(words(root, "collect-results")) == 0
    for path in list((root / "out").iterdir()):
        path.rename(root / path.name)
    (root / "out").rmdir()
    write_origins(root, config, point)
    return root


def write_origins(root: Path, config: Config, point: grids.Checkpoint) -> None:
    """Put beside a run what `explain` reads of it: tables, sources, a manifest."""
    for path in root.glob("*.csv*"):
        shutil.copy(path, root / "run" / path.name)
    assert cli.main(words(root, "make-tables")) == 0
    (root / "out/tables").rename(root / "run/tables")
    shutil.rmtree(root / "out")
    record = {"origin": "hub", "revision": "1", "files": {"a": {"sha256": "0" * 64}}}
    for kind, name in (("models", "world"), ("data", "bbq"), ("data", "stereoset")):
        write_json(root / f"run/sources/{kind}/{name}.json", record)
    content = {"method": point.method, "options": {"seed": 0}}
    write_sealed(root / "run/pruned" / point.key / "model/manifest.json", content)


MODEL = '{"entry": {"hub": "org/name"}}'
DATASET = '{"entry": {"hub": {"repo": "org/name", "parts": {"validation": {"files": ["*"]}}}}}'


# What a command writes, where that is no folder.
FILES = {
    "fetch-dataset": "out.json", "fetch-model": "out.json", "check": "check.json",
    "compare-masks": "masks.csv", "benchmark-serving": "speed.json",
    "collect-results": "results.csv", "make-items": "items.json", "make-tables": "paper.html",
    "make-paper": "paper.pdf",
}  # fmt: skip


def words(root: Path, command: str) -> list[str]:
    """Return the arguments of a command that succeeds, or would but for the network or time."""
    command, _, choice = command.partition(" ")
    model, sheet = f"--model={root}/model", f"--run-sheet={root}/run/run_sheet.json"
    results = [f"--results={root}/results.csv", f"--significance={root}/significance.csv"]
    given = {
        "train-world": [f"--world={root}/world", "--steps=1"],
        "shipped-world-model": [f"--world={root}/world"],
        "fetch-dataset": ["--name=stereoset", f"--lock={root}/lock.json", f"--spec={DATASET}"],
        "fetch-model": ["--name=tiny", f"--lock={root}/lock.json", f"--spec={MODEL}"],
        "prefetch": [f"--configfile={root}/config.yaml", f"--catalogue={root}/catalogue.yaml",
                     f"--lock={root}/lock.json", f"--mirror={root}/mirror"],
        "build-calibration": ["--pairs-source=stereoset", f"--pairs-data={root}/record.json", model,
                              f"--texts-data={root}/data/ultrachat", "--n-texts=1",
                              "--alignment=suffix"],
        "prune": [model, f"--pairs={root}/pairs.jsonl", f"--texts={root}/texts.jsonl",
                  "--method=debias-sparsegpt", "--regime=2of4", "--device=cpu",
                  "--alignment=suffix"],
        "check": [f"--model={root}/good", f"--base={root}/model"],
        "compare-masks": [f"--model={root}/good", f"--reference={root}/other"],
        "evaluate": [model, f"--benchmark={choice}", f"--data={root}/data/{choice}", "--limit=2",
                     "--device=cpu"],
        "evaluate-checkpoint": [model, f"--benchmarks={choice}", "--device=cpu"],
        "benchmark-serving": [model, f"--prompts={root}/{choice}", "--backend=transformers",
                              "--device=cpu", "--batch-sizes=1", "--new-tokens=2",
                              "--prompt-tokens=4", "--rounds=1", "--min-seconds=0"],
        "export-sparse24": [f"--model={root}/good"],
        "collect-results": [sheet, f"--significance={root}/out/significance.csv"],
        "explain": ["main", "--cell=world/debias-sparsegpt/2of4/ss/bbq", f"--results={root}/run"],
        "make-items": [sheet],
        "make-tables": [*results, sheet, f"--tables={root}/out/tables",
                        f"--figures={root}/out/figures"],
        "make-paper": [*results, sheet, f"--tables={root}/tables", f"--figures={root}/figures"],
        "report-controls": [f"--run={root}/run", f"--run={root}/run2"],
    }  # fmt: skip
    file = FILES.get(command)
    out = [f"--out={root}/out/{file}" if file else f"--out={root}/out"]
    if command in ("prefetch", "explain"):
        out = []
    return [command, *given[command], *out]


# Each kind of file with the commands that read it; weights have tests of their own.
READ_BY = {
    "world/train/facts.jsonl": ("train-world",),
    "world/world.json": ("train-world", "shipped-world-model"),
    "lock.json": ("fetch-dataset", "fetch-model", "prefetch"),
    "config.yaml": ("prefetch",),
    "record.json": ("build-calibration", "benchmark-serving record.json"),
    "data/stereoset/intrasentence.jsonl": ("build-calibration", "evaluate stereoset"),
    "data/ultrachat/talk.jsonl": ("build-calibration", "benchmark-serving data/ultrachat"),
    "pairs.jsonl": ("prune",),
    "texts.jsonl": ("prune", "benchmark-serving texts.jsonl"),
    "good/manifest.json": ("check", "compare-masks", "export-sparse24"),
    "data/unqover/datas_rebuilt.jsonl": ("evaluate unqover",),
    "data/bbq/Tribe.jsonl": ("evaluate bbq",),
    "data/mmlu/test.jsonl": ("evaluate mmlu",),
    "data/hellaswag/validation_lm_eval.jsonl": ("evaluate hellaswag",),
    "data/crows_pairs/crows_pairs_revised.csv": ("evaluate crows_pairs",),
    "data/perplexity/wiki.test.raw": ("evaluate perplexity",),
    "data/realtoxicityprompts/train.jsonl": ("evaluate realtoxicityprompts",),
    "data/harmbench/harmbench_behaviors_text_all.csv": ("evaluate harmbench",),
    "run/run_sheet.json": (
        *("collect-results", "make-tables", "explain"),
        *("make-items", "make-paper", "report-controls"),
    ),
    "point/bbq/metrics.json": ("collect-results", "explain", "make-items"),
    "point/bbq/items.jsonl": ("collect-results", "explain", "make-items", "report-controls"),
    "pruned/check.json": ("collect-results",),
    "pruned/masks.csv": ("collect-results",),
    "calibration.json": ("collect-results",),
    "speed.json": ("collect-results", "make-tables"),
    "results.csv": ("make-tables",),
    "significance.csv": ("make-tables",),
    "run/tables/main.csv": ("explain",),
    "run/sources/data/bbq.json": ("explain",),
    "pruned/model/manifest.json": ("explain",),
}
CASES = [(command, file) for file, commands in READ_BY.items() for command in commands]
FIRST = dict(reversed(CASES))  # of each command's files


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@functools.cache
def played(root: Path, command: str) -> None:
    """Run a command once without an attack: its children need not load what it loads."""
    call(words(root, command), root)
    shutil.rmtree(root / "out", ignore_errors=True)


def attacked(ground: Path, command: str, file: str, draw, answer: Path) -> tuple[int | None, str]:
    """Attack a file, run the command, put all back; return its status and what it did wrong."""
    out, target = ground / "out", (ground / file).resolve()
    good, beside = target.read_bytes(), set(target.parent.iterdir())
    done = attack(draw, target)
    outcome = run_in_child(words(ground, command), ground, answer)
    errors = outcome.said.partition("error: ")[2]
    # A configuration's errors are a list, a line each.
    lines = 1 if "the configuration" in errors else errors.count("\n")
    wrong = ""
    if outcome.status not in (0, 2):
        wrong = f"{outcome.status}, {outcome.raised}"
    elif outcome.status and (lines != 1 or len(errors) > 1500):
        wrong = f"not one sentence: {errors[:300]}"
    elif outcome.status and any(path.is_file() for path in out.rglob("*")):
        wrong = f"left {sorted(out.rglob('*'))}"
    for path in {*target.parent.iterdir()} - beside | {target, out}:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    target.write_bytes(good)
    return outcome.status, wrong and f"{done}: {wrong}"


@pytest.mark.parametrize(
    ("command", "file"),
    [
        pytest.param(*case, marks=() if FIRST[case[0]] == case[1] else pytest.mark.slow)
        for case in CASES
    ],
)
def test_an_attacked_file_is_one_sentence(command, file, ground, tmp_path, monkeypatch):
    """Of each drawn series at least one is refused; EVENPRUNE_ATTACKS asks for longer ones."""
    # An input that is good after all must not train anything.
    monkeypatch.setattr(train_world, "train", lambda *_: [])
    monkeypatch.setenv(CANARY, str(tmp_path / "canary"))
    played(ground, command)
    before, found = contents(ground), []

    @seed(f"{command} {file}")
    @settings(
        max_examples=COUNT, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data())
    def play(data):
        found.append(attacked(ground, command, file, data.draw, tmp_path / "answer"))

    play()
    assert [wrong for _, wrong in found if wrong] == []
    assert file.endswith(".raw") or 2 in [status for status, _ in found]  # WikiText is any text
    assert contents(ground) == before
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    ("command", "file"),
    [
        (command, file) for command, file in CASES
        if command.split()[0] in FILES and not file.startswith(("point", "record"))
    ],
)  # fmt: skip
def test_no_command_writes_over_its_input(command, file, ground, capsys):
    path, before = ground / file, contents(ground)
    argv = words(ground, command)
    argv = [f"--out={path}" if word.startswith("--out=") else word for word in argv]
    assert main(argv) == 2
    error = capsys.readouterr().err.partition("error: ")[2]
    assert error.startswith("--out")
    assert error.count("\n") == 1
    assert contents(ground) == before


def test_every_command_that_reads_files_is_tried():
    tried = {command.split()[0] for command, _ in CASES}
    # Elsewhere: tests/evenprune_world/test_report_world.py,
    # tests/hardware/test_gpu_check.py, tests/comparison/test_compare.py
    others = {
        "generate-world", "evaluate-checkpoint", "report-world", "gpu-check",
        "plan", "compare", "completion", "say-results",
    }  # fmt: skip
    assert set(COMMANDS) - tried == others


# Arguments, signals, streams


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("\udcff", "arguments in UTF-8"),
        ("[]", "must be a JSON object"),
    ],
)
def test_json_and_text_in_arguments(argument, message, ground, capsys):
    found = words(ground, f"evaluate-checkpoint {argument}")
    found = [f"--benchmarks={argument}" if "--benchmarks" in word else word for word in found]
    assert cli.main(found) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error
    assert not (ground / "out").exists()


def test_a_path_of_the_user_that_cannot_be_used_is_one_sentence(ground, tmp_path, capsys):
    long = tmp_path / ("x" * 300)
    assert cli.main(["prune", f"--model={ground}/model", f"--pairs={long}", "--out=x",
                     "--method=sparsegpt", "--regime=2of4"]) == 2  # fmt: skip
    assert "file name too long" in capsys.readouterr().err
    assert cli.main(["check", f"--model={long}", f"--base={long}", f"--out={tmp_path}/a"]) == 2
    assert "file name too long" in capsys.readouterr().err


def test_a_fault_of_ours_keeps_its_traceback(tmp_path, monkeypatch):
    def fault(*_):
        raise FileNotFoundError(2, "No such file", "/our/own/file")

    monkeypatch.setattr(shipped_world_model, "unpack", fault)
    with pytest.raises(FileNotFoundError):
        main(["shipped-world-model", f"--world={tmp_path}/w", f"--out={tmp_path}/o"])


def test_interrupted_is_one_line_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    from evenprune.base import marks, outputs

    def stopped(*_):
        with outputs.atomic_folder(tmp_path / "out", marks.WORLD_MODEL) as folder:
            (folder / "half").write_text("half")
            raise KeyboardInterrupt

    monkeypatch.setattr(shipped_world_model, "unpack", stopped)
    argv = ["shipped-world-model", f"--world={tmp_path}/w", f"--out={tmp_path}/out"]
    assert cli.entry(argv, COMMANDS) == 130
    assert capsys.readouterr().err == "interrupted; run the same command again to resume\n"
    assert list(tmp_path.iterdir()) == []


# A process of its own, in which the line takes the place of a command.
STAND_IN = """
import os, signal, sys
from evenprune import cli
from evenprune_world import shipped_world_model as step
from evenprune_world.__main__ import COMMANDS
# A shell's background jobs start with this signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
step.run = lambda args: {line}
sys.exit(cli.entry(['shipped-world-model', '--world=a', '--out=b'], COMMANDS))
"""
KILLED = "(os.kill(os.getpid(), signal.SIGINT), signal.pause())"


@pytest.mark.parametrize(
    ("line", "redirect", "status", "out", "message"),
    [
        (KILLED, "", 130, b"", b"interrupted; run the same command again to resume\n"),
        ("print('0.5 ± 0.1 →')", "", 0, b"0.5 \\xb1 0.1 \\u2192\n", b""),
        (
            *("print('x' * 200000)", "> /dev/full", 2, b""),
            b"error: could not write the output: No space left on device\n",
        ),
        ("print('x' * 200000)", "| true", 141, b"", b""),
        ("print('x' * 200000)", ">&-", 0, b"", b""),
        ("print('x')", "2>&-", 0, b"x\n", b""),
    ],
    ids=["ctrl_c", "ascii", "full", "closed_pipe", "no_output", "no_errors"],
)
def test_signals_and_streams(line, redirect, status, out, message, tmp_path):
    """On a terminal that takes ASCII only."""
    (tmp_path / "step.py").write_text(STAND_IN.format(line=line))
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; '{sys.executable}' '{tmp_path}/step.py' {redirect}"],
        capture_output=True, timeout=60, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (status, out, message)


@pytest.mark.parametrize("value", ["1,2", " 1 ", "1", ""])
def test_threads_as_openmp_takes_them(value, monkeypatch):
    from evenprune.models.loading import limit_threads

    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert limit_threads() >= 1


@pytest.mark.parametrize("value", ["two", "-1", "1.5", "9" * 30, "²"])
def test_threads_that_are_no_number(value, monkeypatch):
    from evenprune.models.loading import limit_threads

    monkeypatch.setenv("OMP_NUM_THREADS", value)
    with pytest.raises(UserError, match="expected OMP_NUM_THREADS to be a number"):
        limit_threads()


@pytest.mark.parametrize("value", ["1e38", "1e13", "nan", "-1"])
def test_a_bias_weight_beyond_float32_is_named(value, ground, capsys):
    assert cli.main([*words(ground, "prune"), f"--bias-weight={value}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: --bias-weight: got")
    assert not (ground / "out").exists()
