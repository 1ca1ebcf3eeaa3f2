"""Commands with small good input, and which of their files are attacked."""

import contextlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from both import main
from evaluation_fixtures import save_model, write_datasets, write_jsonl
from pruning_models import prune_command, random_pairs, write_rows
from pruning_models import save_model as save_prunable
from reporting_run import small_config, write_run

from evenprune.io import checksums
from evenprune.io.files import write_json
from evenprune.language_models.journal import Journal
from evenprune.pruning.workspace import Workspace

REPO = Path(__file__).parents[2]
CPU = ("--device", "cpu")


@dataclass
class Scene:
    """A command, run in ``work`` of a copy of ``root``.

    ``attacked`` are patterns of its files by family; files that match ``sealed`` have a checksum,
    so that a change must be refused or make no difference to ``outputs``.
    """

    name: str
    root: Path
    argv: list[str]
    outputs: tuple[str, ...]
    attacked: dict[str, tuple[str, ...]]
    sealed: tuple[str, ...] = ()


def _interrupted(place, argv, target, method, after):
    """Run a command up to the given call of a method: what a kill leaves."""
    whole, calls = getattr(target, method), []

    def stop(*args, **options):
        calls.append(1)
        if len(calls) > after:
            raise KeyboardInterrupt
        return whole(*args, **options)

    with mock.patch.object(target, method, stop), inside(place):
        try:
            main(argv)
        except KeyboardInterrupt:
            return
    raise AssertionError(f"{argv[0]} was not interrupted")


def inside(place):
    (place / "work").mkdir(exist_ok=True)
    return contextlib.chdir(place / "work")


def pruning(made):
    """prune, one that goes on, check and export-sparse24."""
    root = made / "prune"
    save_prunable(root / "in/base", "llama2", hidden_size=16, intermediate_size=16,
                  num_attention_heads=2, max_shard_size="14KB")  # fmt: skip
    write_rows(root / "in/pairs.jsonl", random_pairs(6))
    write_rows(root / "in/texts.jsonl", [{"id": f"t{k}", "text": "a b c d e f"} for k in range(2)])
    given = {"pairs": "../in/pairs.jsonl", "texts": "../in/texts.jsonl", "work": "../out-work"}
    words = prune_command("../in/base", "../out", **given, check="../check.json")
    made_here = ("out", "out-work", "check.json")
    own = {"model folders": ("in/base/*",), "own files": ("in/*.jsonl",)}
    yield Scene("prune", root, words, made_here, own)
    resumed = shutil.copytree(root, made / "resumed")
    _interrupted(resumed, words, Workspace, "finish", 2)
    left = {"records": ("out-work/**/*",)}
    yield Scene("prune, resumed", resumed, words, made_here, left, ("out-work/**/*",))
    pruned = made / "pruned"
    shutil.copytree(root / "in/base", pruned / "in/base")
    with inside(root):
        assert main(prune_command("../in/base", pruned / "in/pruned", **given)) == 0
    both = ["--model", "../in/pruned", "--base", "../in/base", "--out", "../out.json"]
    own = {"model folders": ("in/pruned/*",)}
    sealed = ("in/pruned/*.safetensors", "in/pruned/config.json")
    yield Scene("check", pruned, ["check", *both], ("out.json",), own, sealed)
    both = ["--model", "../in/pruned", "--reference", "../in/pruned", "--out", "../out.csv"]
    yield Scene("compare-masks", pruned, ["compare-masks", *both], ("out.csv",), own)
    words = ["export-sparse24", "--model", "../in/pruned", "--out", "../out"]
    yield Scene("export-sparse24", pruned, words, ("out",), own, sealed[:1])


def evaluation(made):
    """evaluate on published and own data, one that goes on, and with a foreign task."""
    root = made / "evaluate"
    save_model(root / "in/base")
    write_datasets(root / "in/data")
    words = ["evaluate", "--model", "../in/base", "--out", "../out", *CPU, "--benchmark"]
    shown = {"model folders": ("in/base/*",), "own files": ("in/data/stereoset/*",)}
    argv = [*words, "stereoset", "--data", "../in/data/stereoset"]
    yield Scene("evaluate stereoset", root, argv, ("out",), shown)
    argv = [*words, "stereoset", "--data", "../in/data/stereoset", "--batch-size", "2"]
    left = shutil.copytree(root, made / "journal")
    _interrupted(left, argv, Journal, "put", 3)
    lines = {"records": ("out/partial.jsonl",)}
    yield Scene("evaluate, resumed", left, argv, ("out",), lines, ("out/partial.jsonl",))
    questions = made / "questions"
    shutil.copytree(root / "in/base", questions / "in/base")
    rows = ["question,option1,option2,option3,answer,stereotype,category"]
    rows += [f"Who sang {k}?,Vel,Tor,nobody,C,{'AB'[k % 2]},tribe" for k in range(4)]
    (questions / "in/own.csv").write_text("\n".join(rows) + "\n")
    argv = [*words, "multiple_choice", "--data", "../in/own.csv"]
    yield Scene("own questions", questions, argv, ("out",), {"own files": ("in/own.csv",)})
    task = {
        "task": "mine", "dataset_path": "json", "dataset_kwargs": {"data_files": "x.jsonl"},
        "doc_to_text": "{{question}}", "doc_to_target": "answer", "output_type": "generate_until",
    }  # fmt: skip
    foreign = made / "tasks"
    shutil.copytree(root / "in/base", foreign / "in/base")
    write_json(foreign / "in/tasks/mine.yaml", task)
    argv = [*words, "lm_eval", "--name", "mine", "--data", "../in/tasks"]
    yield Scene("a foreign task", foreign, argv, ("out",), {"YAML": ("in/tasks/*",)})
    lines = [",sent_more,sent_less,stereo_antistereo,bias_type"]
    pairs = [("Vel men lie.", "Tor men lie."), ("Kesh sing.", "Lumo sing.")] * 3
    lines += [f"{k},{a} {k},{b} {k},stereo,tribe" for k, (a, b) in enumerate(pairs)]
    calibration = made / "calibration"
    shutil.copytree(root / "in/base", calibration / "in/base")
    (calibration / "in/crows").mkdir()
    (calibration / "in/crows/crows_pairs_anonymized.csv").write_text("\n".join(lines) + "\n")
    argv = ["build-calibration", "--pairs", "crows_pairs", "--pairs-data", "../in/crows"]
    argv += ["--model", "../in/base", "--out", "../out", "--seed", "0", "--name", "c"]
    yield Scene("build-calibration", calibration, argv, ("out",), {"own files": ("in/crows/*",)})


def configuration(made):
    """prefetch and plan with a configuration and a catalogue."""
    root = made / "prefetch"
    save_model(root / "in/mirror/models/m")
    rows = [{"id": k, "text": f"A girl had {k} cats."} for k in range(4)]
    write_jsonl(root / "in/mirror/data/tinystories/stories_1000.jsonl", rows)
    write_jsonl(root / "in/mirror/data/stereoset/intrasentence.jsonl", [{"id": "x"}])
    grid = {"models": ["m"], "methods": ["dense", "magnitude"], "regimes": ["2of4"]}
    config = {
        "source": "external", "mirror": "../in/mirror", "lock": "../lock.json",
        "results": "../results", "tables": ["main"],
        "benchmarks": {"t": {"task": "perplexity", "dataset": "tinystories"}},
        "experiments": {"main": {**grid, "calibrations": ["ss"]}},
    }  # fmt: skip
    catalogue = {
        "models": {"m": {"label": "M"}}, "datasets": {"tinystories": {}, "stereoset": {}},
        "calibrations": {"ss": {"pairs": "stereoset"}},
    }  # fmt: skip
    write_json(root / "in/config.yaml", config)
    write_json(root / "in/catalogue.yaml", catalogue)
    own = {"YAML": ("in/*.yaml",)}
    files = ["--catalogue", "../in/catalogue.yaml"]
    argv = ["prefetch", "--configfile", "../in/config.yaml", *files]
    yield Scene("prefetch", root, argv, ("lock.json",), own)
    yield Scene("plan", root, ["plan", "--configfile", "../in/config.yaml", *files], (), own)


def reporting(made):
    """What reads the results of a run: its own, and someone else's."""
    root = made / "collect"
    grid = {"main": {"methods": ["dense", "sparsegpt", "debias-sparsegpt"], "regimes": ["2of4"]}}
    shown = {"tables": ["main"], "figures": ["unqover_heatmap"], "serving": {"experiment": "main"}}
    write_run(small_config(REPO, root / "in/run", only=["main"], experiments=grid, **shown), 12)
    sheet = root / "in/run/run_sheet.json"
    content = json.loads(sheet.read_text().replace(str(root / "in"), "../in"))
    write_json(sheet, checksums.sealed(content))
    words = ["collect-results", "--run-sheet", "../in/run/run_sheet.json"]
    names = ("results.csv", "significance.csv")
    argv = [*words, "--out", "../results.csv", "--significance", "../significance.csv"]
    own = {"records": ("in/run/**/*.json", "in/run/**/*.jsonl")}
    sealed = ("in/run/evals/**/*.json*",)
    yield Scene("collect-results", root, argv, names, own, sealed)
    tables = made / "tables"
    tables.mkdir()
    shutil.copytree(root / "in", tables / "in")
    with inside(tables):
        assert main([word.replace("../res", "../in/res").replace("../sig", "../in/sig")
                     for word in argv]) == 0  # fmt: skip
    argv = ["make-tables", "--run-sheet", "../in/run/run_sheet.json"]
    argv += ["--results", "../in/results.csv", "--significance", "../in/significance.csv"]
    argv += ["--tables", "../tables", "--figures", "../figures", "--out", "../page.html"]
    files, own = ("tables", "figures", "page.html"), {"records": ("in/*.csv",)}
    yield Scene("make-tables", tables, argv, files, own, ("in/*.csv",))
    yield from _foreign(made, sheet)


def _foreign(made, sheet):
    """Compare with someone else's results: two evaluations, and two in a run of theirs."""
    shared, whole = made / "shared", made / "whole"
    data = str(made / "evaluate/in/data")
    wanted = {name: {"task": name, "data": f"{data}/{name}"} for name in ("stereoset", "unqover")}
    points = ("dense/dense/none", "sparsegpt/2of4/ss")
    for seed, (name, point) in enumerate(zip(("dense", "pruned"), points, strict=True)):
        model = save_model(made / f"model{seed}", seed)
        argv = ["evaluate-checkpoint", "--model", str(model), "--out", str(shared / "in" / name)]
        assert main([*argv, "--benchmarks", json.dumps(wanted), *CPU]) == 0
        shutil.copytree(shared / "in" / name, whole / f"in/evals/world/{point}/s0")
    argv = ["compare", "../in/dense", "../in/pruned", "--out", "../out", "--evals", "../evals"]
    own = {"foreign results": ("in/pruned/**/*.json*", "in/dense/**/*.json*")}
    sealed = ("in/*/*/items.jsonl", "in/*/*/metrics.json")
    yield Scene("compare", shared, argv, ("out", "evals"), own, sealed)
    shutil.copyfile(sheet, whole / "in/run_sheet.json")
    argv = ["compare", *(f"../in/evals/world/{point}/s0" for point in points)]
    argv += ["--out", "../out", "--evals", "../evals"]
    own = {"foreign results": ("in/run_sheet.json",)}
    yield Scene("compare in a run", whole, argv, ("out", "evals"), own)


def scenes(made: Path) -> list[Scene]:
    """Write the input of all commands."""
    return [one for part in (pruning, evaluation, configuration, reporting) for one in part(made)]
