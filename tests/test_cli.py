"""Every command: bad files and arguments are one sentence and exit status 2, nothing is written."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from both import COMMANDS, main
from evaluation_fixtures import save_model, write_datasets
from pruning_models import random_pairs, write_rows
from reporting_run import seal, write_json, write_run, write_sealed

from evenprune import cli
from evenprune.base.errors import UserError
from evenprune.base.yamlfile import read_yaml
from evenprune.plan import grids
from evenprune.plan.config import Config, load_config


def deep(levels: int = 100_000) -> bytes:
    return b'{"id":' + b"[" * levels + b"]" * levels + b"}"


def edited(value):
    """Return a change that puts ``value`` in place of each value of the first object."""

    def change(old: bytes) -> bytes | None:
        head, end, rest = old.partition(b"\n")
        for text, tail in ((old, b""), (head, end + rest)):
            try:
                found = json.loads(text)
            except ValueError:
                continue
            if isinstance(found, dict):
                return json.dumps(dict.fromkeys(found, value)).encode() + tail
        if b"," in head or b"\t" in head:  # CSV: the cells of the first row
            mark = b"\t" if b"\t" in head else b","
            cells = mark.join([str(value).encode()] * (head.count(mark) + 1))
            return head + end + cells + end + rest.partition(b"\n")[2]
        return None

    return change


# What becomes of a good file's bytes; None: nothing to try for that kind of file.
DAMAGES = {
    "missing": None,
    "folder": None,
    "pipe": None,
    "empty": lambda old: b"",
    "blank": lambda old: b"\n \n",
    "binary": lambda old: random.Random(0).randbytes(3000),
    "nul": lambda old: b"\0" * 100,
    "utf-16": lambda old: old.decode().encode("utf-16"),
    "half": lambda old: old[: len(old) // 2],
    "deep": lambda old: deep(),
    "less deep": lambda old: deep(500),
    "list": lambda old: b"[1, 2]",
    "number": lambda old: b"5",
    "text": lambda old: b'"text"',
    "no fields": lambda old: b"{}",
    "huge number": lambda old: b'{"id": ' + b"9" * 5000 + b"}",
    "long line": lambda old: b'{"id": "' + b"x" * 300_000,
    "long cell": lambda old: old + b'"' + b"x" * 300_000,
    "surrogate": lambda old: re.sub(rb'": "', rb'": "\\ud800', old, count=3),
    "NaN": lambda old: re.sub(rb'": ("[^"]*"|[0-9.]+)', rb'": NaN', old, count=3),
    "infinite": lambda old: re.sub(rb'": ("[^"]*"|[0-9.]+)', rb'": 1e999', old, count=3),
    "nulls": edited(None),
    "numbers": edited(5),
    "negative": edited(-1),
    "empty texts": edited(""),
    "texts": edited("words"),
    "lists": edited([None]),
    "objects": edited({"a": None}),
}
# These are taken, or not, as the file at hand allows; the others are always refused.
MAY_PASS = {
    *("nul", "nulls", "numbers", "negative", "empty texts", "texts", "lists", "objects"),
    *("NaN", "infinite", "surrogate", "half", "no fields", "empty", "blank", "missing"),
}


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
        "tables": ["main", "regimes", "fidelity", "efficiency", "masks", "claims"],
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


# WikiText is any text.
ANY_TEXT = {"deep", "less deep", "list", "number", "text", "huge number", "long line", "long cell"}


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
    for name, seed in (("run", 0), ("run2", 1)):
        config = write_results(repo, root / name, seed)
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
    command = words(root, "make-table main")
    assert cli.main([*command[:-1], f"--out-prefix={root}/run/tables/main"]) == 0
    record = {"origin": "hub", "revision": "1", "files": {"a": {"sha256": "0" * 64}}}
    for kind, name in (("models", "world"), ("data", "bbq"), ("data", "stereoset")):
        write_json(root / f"run/sources/{kind}/{name}.json", record)
    content = {"method": point.method, "options": {"seed": 0}}
    write_sealed(root / "run/pruned" / point.key / "model/manifest.json", content)


MODEL = '{"entry": {"hub": "org/name"}}'
DATASET = '{"entry": {"hub": {"repo": "org/name", "parts": {"validation": {"files": ["*"]}}}}}'


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
        "prefetch": [f"--config={root}/config.yaml", f"--catalogue={root}/catalogue.yaml",
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
        "make-table": [f"--table={choice}", *results, sheet, f"--out-prefix={root}/out/table"],
        "make-figure": [f"--figure={choice}", results[0], sheet, f"--out-prefix={root}/out/figure"],
        "make-items": [sheet],
        "make-page": [*results, sheet, f"--tables={root}/tables", f"--figures={root}/figures"],
        "make-paper": [*results, sheet, f"--tables={root}/tables", f"--figures={root}/figures"],
        "report-controls": [f"--run={root}/run", f"--run={root}/run2"],
    }  # fmt: skip
    file = {"fetch-dataset": "out.json", "fetch-model": "out.json", "check": "check.json",
            "compare-masks": "masks.csv", "benchmark-serving": "speed.json",
            "collect-results": "results.csv", "make-items": "items.json",
            "make-page": "paper.html",
            "make-paper": "paper.pdf"}.get(command)  # fmt: skip
    out = [f"--out={root}/out/{file}" if file else f"--out={root}/out"]
    if command in ("make-table", "make-figure", "prefetch", "explain"):
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
        *("collect-results", "make-table main", "make-figure regimes", "explain"),
        *("make-items", "make-page", "make-paper", "report-controls"),
    ),
    "point/bbq/metrics.json": ("collect-results", "explain", "make-items"),
    "point/bbq/items.jsonl": ("collect-results", "explain", "make-items", "report-controls"),
    "pruned/check.json": ("collect-results",),
    "pruned/masks.csv": ("collect-results",),
    "calibration.json": ("collect-results",),
    "speed.json": ("collect-results", "make-table efficiency"),
    "results.csv": ("make-table main", "make-figure regimes"),
    "significance.csv": ("make-table main",),
    "run/tables/main.csv": ("explain",),
    "run/sources/data/bbq.json": ("explain",),
    "pruned/model/manifest.json": ("explain",),
}
CASES = [(command, file) for file, commands in READ_BY.items() for command in commands]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def nothing_long(monkeypatch):
    """An input that is good after all must not train or measure anything."""
    from evenprune_world import train_world

    def hangs(*_):
        raise TimeoutError

    monkeypatch.setattr(train_world, "train", lambda *_: [])
    signal.signal(signal.SIGALRM, hangs)


def tried(ground: Path, command: str, file: str, names: list[str], capsys) -> list[str]:
    """Put each damage in place of a file and run the command; return what was not as it must be."""
    link, out = ground / file, ground / "out"
    good, target = link.read_bytes(), link.resolve()
    before = contents(ground)
    wrong = []
    for name in names:
        target.unlink()
        if name == "folder":
            target.mkdir()
        elif name == "pipe":
            os.mkfifo(target)
        elif name != "missing":
            bad = DAMAGES[name](good)
            target.write_bytes(good if bad is None else bad)
        may_pass = name in MAY_PASS or (target.is_file() and target.read_bytes() == good)
        may_pass = may_pass or (target.suffix == ".raw" and name in ANY_TEXT)
        capsys.readouterr()
        try:
            signal.alarm(60)  # a pipe that is opened waits for ever
            status = main(words(ground, command))
            errors = capsys.readouterr().err.partition("error: ")[2]
            # A configuration's errors are a list, a line each.
            lines = 1 if "the configuration" in errors else errors.count("\n")
            if status != 0 and (status != 2 or lines != 1 or len(errors) > 1500):
                wrong.append(f"{name}: {status}, not one sentence: {errors[:300]}")
            if status != 0 and out.exists() and any(path.is_file() for path in out.rglob("*")):
                wrong.append(f"{name}: left {sorted(out.rglob('*'))}")
            if status == 0 and not may_pass:
                wrong.append(f"{name}: taken")
        except Exception as error:
            wrong.append(f"{name}: {error!r:.300}")
        finally:
            signal.alarm(0)
            shutil.rmtree(out, ignore_errors=True)
            if target.is_dir():
                target.rmdir()
            else:
                target.unlink(missing_ok=True)
            target.write_bytes(good)
    if contents(ground) != before:
        wrong.append("other inputs changed")
    return wrong


@pytest.mark.parametrize(("command", "file"), CASES)
def test_a_bad_file_is_one_sentence(command, file, ground, capsys):
    names = random.Random(f"{command} {file}").sample(sorted(DAMAGES), 4)
    assert tried(ground, command, file, names, capsys) == []


@pytest.mark.slow
@pytest.mark.parametrize(("command", "file"), CASES)
def test_every_bad_file_is_one_sentence(command, file, ground, capsys):
    assert tried(ground, command, file, list(DAMAGES), capsys) == []


def test_every_command_that_reads_files_is_tried():
    tried = {command.split()[0] for command, _ in CASES}
    # Elsewhere: tests/evenprune_world/test_report_world.py,
    # tests/hardware/test_gpu_check.py, tests/comparison/test_compare.py
    others = {
        "generate-world", "evaluate-checkpoint", "report-world", "gpu-check",
        "plan", "compare", "completion", "say-results",
    }  # fmt: skip
    assert set(COMMANDS) - tried == others


LONG = "No change shown on any of these benchmarks, " * 4
ANSWER = f"""\
| Model + Method | Against the dense model | PPL |
|---|---|---:|
| *Sparsity 50%* |  |  |
| + **Debias-SparseGPT** | Perplexity × 2. No change shown: BBQ. | 4.0 |
| *Sparsity 2:4* |  |  |
| + SparseGPT | Perplexity × 4. | 8.0 |
| + **Debias-SparseGPT** | Perplexity × 3. {LONG} | 6.0 |
"""


@pytest.mark.parametrize(
    ("table", "verdict"),
    [
        (
            ANSWER,
            f"Debias-SparseGPT, sparsity 2:4: Perplexity × 3. {LONG}".strip(),
        ),
        (ANSWER.replace("Debias-", ""), "see the first lines of the page"),
        (None, "see the first lines of the page"),
    ],
)
def test_a_run_ends_with_its_page_and_the_verdict_of_the_headline_row(
    tmp_path, capsys, table, verdict
):
    if table:
        (tmp_path / "tables").mkdir()
        (tmp_path / "tables/answer.md").write_text(table)
    assert main(["say-results", "--results", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[4:])) <= 120
    assert "report/paper.html" in lines[0]
    assert "no LaTeX here" in lines[1]
    assert " ".join(" ".join(lines[4:]).split()) == f"verdict {verdict}"


# Arguments, signals, streams


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "thousands of digits"),
        ('{"mine": {"task": "unqover", "data": "\\ud800"}}', "half of a character"),
        ('{"a": NaN}', "NaN is no number of JSON"),
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
    from evenprune_world import shipped_world_model

    def fault(*_):
        raise FileNotFoundError(2, "No such file", "/our/own/file")

    monkeypatch.setattr(shipped_world_model, "unpack", fault)
    with pytest.raises(FileNotFoundError):
        main(["shipped-world-model", f"--world={tmp_path}/w", f"--out={tmp_path}/o"])


def test_interrupted_is_one_line_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    from evenprune.base import marks, outputs
    from evenprune_world import shipped_world_model

    def stopped(*_):
        with outputs.atomic_folder(tmp_path / "out", marks.WORLD_MODEL) as folder:
            (folder / "half").write_text("half")
            raise KeyboardInterrupt

    monkeypatch.setattr(shipped_world_model, "unpack", stopped)
    argv = ["shipped-world-model", f"--world={tmp_path}/w", f"--out={tmp_path}/out"]
    assert cli.entry(argv, COMMANDS) == 130
    assert capsys.readouterr().err == "interrupted; run the same command again to resume\n"
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_the_process_with_one_line():
    code = (
        "import builtins, os, signal, sys; from evenprune import cli\n"
        "from evenprune_world.__main__ import COMMANDS\n"
        # A shell's background jobs start with this signal ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def run(args): os.kill(os.getpid(), signal.SIGINT); signal.pause()\n"
        "from evenprune_world import shipped_world_model as step; step.run = run\n"
        "sys.exit(cli.entry(['shipped-world-model', '--world=a', '--out=b'], COMMANDS))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 130
    assert done.stderr == b"interrupted; run the same command again to resume\n"


def test_a_terminal_that_takes_ascii_only():
    code = (
        "import sys; from evenprune import cli; from evenprune_world.__main__ import COMMANDS\n"
        "from evenprune_world import shipped_world_model as step\n"
        "step.run = lambda args: print('0.5 ± 0.1 →')\n"
        "sys.exit(cli.entry(['shipped-world-model', '--world=a', '--out=b'], COMMANDS))"
    )
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"0.5 \\xb1 0.1 \\u2192\n"


@pytest.mark.parametrize(
    ("redirect", "status", "message"),
    [
        ("> /dev/full", 2, b"error: could not write the output: No space left on device\n"),
        ("| true", 141, b""),
        (">&-", 0, b""),
        ("2>&-", 0, b""),
    ],
)
def test_closed_and_full_streams(redirect, status, message):
    code = (
        "import sys; from evenprune import cli; from evenprune_world.__main__ import COMMANDS; "
        "from evenprune_world import shipped_world_model as step; "
        "step.run = lambda args: print('x' * 200000); "
        "sys.exit(cli.entry(['shipped-world-model', '--world=a', '--out=b'], COMMANDS))"
    )
    command = f'set -o pipefail; {sys.executable} -c "{code}" {redirect}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (status, message)


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
