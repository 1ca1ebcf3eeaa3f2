"""Every command with small good input, and what makes its output right."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .mutations import copy_tree
from .oracles import (
    calibration_fault,
    check_fault,
    collected_fault,
    evaluation_fault,
    export_fault,
    prune_fault,
    record_fault,
    table_fault,
)


@dataclass
class Scenario:
    """A command: arguments (working directory ``work``, input in ``../in``) and its rule.

    ``outputs`` are paths below the sandbox; ``fault(folder)`` says in "kind: words" what is
    wrong with output that differs from the undamaged input's, "" where nothing is.
    """

    name: str
    inputs: Path
    argv: list[str]
    outputs: tuple[str, ...]
    fault: Callable[["Scenario", Path], str]
    weight: float = 1.0
    flags: tuple[str, ...] = ("--out",)
    numbers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    good: Path | None = None
    names: list[str] = field(default_factory=list)

    def damageable(self, folder: Path) -> list[Path]:
        """The input files, model files as often as the others."""
        return [folder / "in" / name for name in self.names]

    def folders(self, folder: Path) -> list[str]:
        """Input folders and files as arguments that must not be taken as output."""
        found = sorted((folder / "in").iterdir())
        files = [path for path in self.damageable(folder) if path.is_file()][:2]
        return [f"../{path.relative_to(folder)}" for path in [*found, *files]]

    def keep(self, folder: Path) -> None:
        """Keep the undamaged output, and list what can be damaged."""
        self.good = self.inputs.parent / f"good-{self.name}"
        self.good.mkdir()
        for name in self.outputs:
            source = folder / name
            if source.is_dir():
                copy_tree(source, self.good / name)
            elif source.exists():
                shutil.copyfile(source, self.good / name)
        files = sorted(p for p in self.inputs.rglob("*") if p.is_file() and not p.is_symlink())
        self.names = [
            str(path.relative_to(self.inputs)) for path in files if path.name not in self.skip
        ]
        words = self.fault(self, folder)
        if words:
            raise AssertionError(f"{self.name}: the rule refuses undamaged output: {words}")

    def wrong(self, folder: Path) -> str:
        """Say what is wrong with the output of a success, "" where nothing is."""
        for name in self.outputs:
            if (self.good / name).exists() and not (folder / name).exists():
                return f"missing output: {name}"
        return self.fault(self, folder)


def prune(made: Path) -> list[Scenario]:
    from pruning_models import random_pairs, save_model, write_rows

    from evenprune.cli import main

    inputs = made / "prune" / "in"
    save_model(inputs / "base", "llama2", hidden_size=16, intermediate_size=16,
               num_attention_heads=2, max_shard_size="14KB")  # fmt: skip
    write_rows(inputs / "pairs.jsonl", random_pairs(6))
    texts = [{"id": f"t{k}", "text": "a b c d e f"} for k in range(2)]
    write_rows(inputs / "texts.jsonl", texts)
    words = [
        "prune", "--model", "../in/base", "--pairs", "../in/pairs.jsonl", "--texts",
        "../in/texts.jsonl", "--out", "../out", "--method", "debias-sparsegpt", "--regime", "2of4",
        "--device", "cpu", "--bias-weight", "1", "--block-size", "128", "--damping", "0.01",
        "--seed", "0", "--work", "../out-work",
    ]  # fmt: skip
    found = [
        Scenario(
            "prune", inputs, words, ("out", "out-work"), prune_fault, 10, ("--out", "--work"),
            ("--bias-weight", "--block-size", "--damping", "--seed"),
            skip=("generation_config.json",),
        )
    ]  # fmt: skip
    pruned = made / "check" / "in"
    copy_tree(inputs / "base", pruned / "base")
    changed = [word.replace("../in", str(inputs)) for word in words[:-2]]
    for method, name in (("debias-sparsegpt", "pruned"), ("magnitude", "other")):
        words = list(changed)
        words[words.index("--out") + 1] = str(pruned / name)
        words[words.index("--method") + 1] = method
        words[words.index("--model") + 1] = str(pruned / "base")
        assert main(words) == 0
    both = ["--model", "../in/pruned", "--base", "../in/base", "--out", "../out.json"]
    found.append(Scenario("check", pruned, ["check", *both], ("out.json",), check_fault, 8))
    both = ["--model", "../in/pruned", "--reference", "../in/other", "--out", "../out.csv"]
    found.append(
        Scenario("compare-masks", pruned, ["compare-masks", *both], ("out.csv",), table_fault, 4)
    )
    words = ["export-sparse24", "--model", "../in/pruned", "--out", "../out"]
    found.append(Scenario("export-sparse24", pruned, words, ("out",), export_fault, 4))
    return found


def evaluate(made: Path) -> list[Scenario]:
    from evaluation_fixtures import save_model, write_datasets

    inputs = made / "evaluate" / "in"
    save_model(inputs / "base")
    write_datasets(inputs / "data")
    found = []
    tasks = ("unqover", "bbq", "mmlu", "hellaswag", "crows_pairs", "stereoset")
    folders = {"perplexity": "wikitext2", **{task: task for task in tasks}}
    for task, data in folders.items():
        mine = made / f"evaluate-{task}" / "in"
        copy_tree(inputs / "base", mine / "base")
        copy_tree(inputs / "data" / data, mine / data)
        words = [
            "evaluate",
            "--model",
            "../in/base",
            "--benchmark",
            task,
            "--data",
            f"../in/{data}",
        ]
        words += ["--out", "../out", "--device", "cpu", "--batch-size", "8", "--seed", "0"]
        if task != "perplexity":
            words += ["--limit", "4"]
        found.append(
            Scenario(f"evaluate {task}", mine, words, ("out",), evaluation_fault, 2,
                     numbers=("--batch-size", "--limit", "--seed"))
        )  # fmt: skip
    wanted = {
        name: {"task": name, "data": f"../in/data/{name}", "batch_size": 4, "limit": 4}
        for name in ("bbq", "unqover")
    }
    few = made / "checkpoint" / "in"
    copy_tree(inputs / "base", few / "base")
    for name in wanted:
        copy_tree(inputs / "data" / name, few / "data" / name)
    words = ["evaluate-checkpoint", "--model", "../in/base", "--benchmarks", json.dumps(wanted)]
    found.append(
        Scenario("evaluate-checkpoint", few, [*words, "--out", "../out"], ("out",),
                 evaluation_fault, 5, texts=("--benchmarks",))
    )  # fmt: skip
    serving = made / "serving" / "in"
    copy_tree(inputs / "base", serving / "base")
    (serving / "prompts.jsonl").write_text(
        "".join(json.dumps({"id": f"p{k}", "text": "a b c d " * 9}) + "\n" for k in range(3))
    )
    words = ["benchmark-serving", "--model", "../in/base", "--prompts", "../in/prompts.jsonl"]
    words += ["--out", "../out/efficiency.json", "--batch-sizes", "1", "--new-tokens", "24"]
    words += ["--prompt-tokens", "4", "--rounds", "1", "--warmup", "1", "--min-seconds", "0"]
    words += ["--device", "cpu", "--backend", "transformers", "--carbon-intensity", "0.05"]
    found.append(
        Scenario("benchmark-serving", serving, words, ("out",), table_fault, 0.15,
                 numbers=("--new-tokens", "--prompt-tokens", "--rounds", "--carbon-intensity"))
    )  # fmt: skip
    return found


def calibrate(made: Path) -> list[Scenario]:
    from evaluation_fixtures import save_model, write_jsonl

    inputs = made / "calibration" / "in"
    model = save_model(made / "calibration" / "model")
    inputs.mkdir(parents=True)
    copy_tree(model, inputs / "base")
    lines = [",sent_more,sent_less,stereo_antistereo,bias_type"]
    pairs = [("Vel men lie.", "Tor men lie."), ("Kesh sing.", "Lumo sing.")] * 3
    lines += [f"{k},{a} {k},{b} {k},stereo,tribe" for k, (a, b) in enumerate(pairs)]
    (inputs / "crows").mkdir()
    (inputs / "crows/crows_pairs_anonymized.csv").write_text("\n".join(lines) + "\n")
    talks = [
        {"prompt_id": f"p{k}", "prompt": "Hi", "messages": [
            {"role": "user", "content": f"Hi {k}"},
            {"role": "assistant", "content": "Hello there."}]}
        for k in range(4)
    ]  # fmt: skip
    write_jsonl(inputs / "chat/test_sft.jsonl", talks)
    words = ["build-calibration", "--pairs-source", "crows_pairs", "--pairs-data", "../in/crows"]
    words += ["--model", "../in/base", "--out", "../out", "--seed", "0", "--name", "c"]
    words += ["--categories", "", "--texts-data", "../in/chat", "--n-texts", "2"]
    return [
        Scenario("build-calibration", inputs, words, ("out",), calibration_fault, 5,
                 numbers=("--seed", "--n-texts"))
    ]  # fmt: skip


def fetch(made: Path) -> list[Scenario]:
    from evaluation_fixtures import save_model, write_jsonl

    inputs = made / "mirror" / "in"
    save_model(inputs / "mirror/models/m")
    rows = [{"id": k, "text": f"A girl had {k} cats."} for k in range(4)]
    write_jsonl(inputs / "mirror/data/tinystories/stories_1000.jsonl", rows)
    config = {
        "source": "external",
        "mirror": "../in/mirror",
        "lock": "../lock.json",
        "benchmarks": {"t": {"task": "perplexity", "dataset": "tinystories"}},
        "experiments": {
            "e": {"models": ["m"], "methods": ["dense", "magnitude"], "regimes": ["2of4"],
                  "calibrations": ["ss"]}
        },
        "tables": ["main"],
    }  # fmt: skip
    catalogue = {
        "models": {"m": {"label": "M"}},
        "datasets": {"tinystories": {}, "stereoset": {}},
        "calibrations": {"ss": {"pairs": "stereoset"}},
    }
    write_jsonl(inputs / "mirror/data/stereoset/intrasentence.jsonl", [{"id": "x"}])
    whole = made / "prefetch" / "in"
    copy_tree(inputs, whole)
    (whole / "config.yaml").write_text(json.dumps(config))
    (whole / "catalogue.yaml").write_text(json.dumps(catalogue))
    spec = ["--spec", json.dumps({"entry": {"mirror": "m", "label": "M"}, "fingerprint": "x"})]
    rest = ["--mirror", "../in/mirror", "--lock", "../lock.json", "--out", "../record.json"]
    outputs = ("record.json", "lock.json", "hub")
    model = ["fetch-model", "--name", "m", *spec, *rest]
    spec = ["--spec", json.dumps({"entry": {"mirror": "tinystories"}, "fingerprint": "x"})]
    data = ["fetch-dataset", "--name", "tinystories", *spec, *rest, "--cache", "../hub"]
    into = ["prefetch", "--config", "../in/config.yaml", "--catalogue", "../in/catalogue.yaml"]
    into += ["--into", "../out"]
    return [
        Scenario("fetch-model", inputs, model, outputs, record_fault, 5, texts=("--spec",)),
        Scenario("fetch-dataset", inputs, data, outputs, record_fault, 3, texts=("--spec",)),
        Scenario("prefetch", whole, into, ("out", "lock.json", "hub"), record_fault, 10,
                 flags=("--into",)),
    ]  # fmt: skip


def one_experiment(config, name: str):
    """Return a configuration with one experiment, its table and the first figure."""
    changed = {
        "experiments": {name: config.experiments[name]},
        "serving": config.serving.model_copy(update={"experiment": name}),
        "tables": ["main"],
        "figures": ["unqover_heatmap"],
    }
    return config.model_copy(update=changed)


def report(made: Path) -> list[Scenario]:
    from reporting_run import small_config, write_run

    from evenprune.cli import main

    repo = Path(__file__).resolve().parents[2]

    def run_of(root: Path, name: str, shown: str, items: int, only="", **changes) -> None:
        config = small_config(repo, root, name, **changes)
        config = one_experiment(config, only) if only else config
        write_run(config, items)
        file = root / "run_sheet.json"
        file.write_text(file.read_text().replace(str(root), shown))

    grid = {"main": {"methods": ["dense", "sparsegpt", "debias-sparsegpt"], "regimes": ["2of4"]}}
    inputs = made / "collect" / "in"
    run_of(inputs / "run", "world.yaml", "../in/run", 12, only="main", experiments=grid)
    words = [
        "collect-results",
        "--run-sheet",
        "../in/run/run_sheet.json",
        "--out",
        "../results.csv",
    ]
    words += ["--significance", "../significance.csv"]
    names = ("results.csv", "significance.csv")
    flags = ("--out", "--significance")
    found = [Scenario("collect-results", inputs, words, names, collected_fault, 8, flags)]
    tables = made / "tables" / "in"
    tables.mkdir(parents=True)
    shutil.copyfile(inputs / "run/run_sheet.json", tables / "run_sheet.json")
    here = Path.cwd()
    (inputs.parent / "work").mkdir()
    import os

    try:
        os.chdir(inputs.parent / "work")
        wanted = [word for word in words]
        for name in names:
            wanted = [str(tables / name) if word == f"../{name}" else word for word in wanted]
        assert main(wanted) == 0
    finally:
        os.chdir(here)
    shutil.rmtree(inputs.parent / "work")
    both = ["--results", "../in/results.csv", "--run-sheet", "../in/run_sheet.json"]
    words = ["make-table", "--table", "main", *both, "--significance", "../in/significance.csv"]
    suffixes = tuple(f"out{end}" for end in (".tex", ".csv", ".md", ".html"))
    flag = ("--out-prefix",)
    found.append(
        Scenario("make-table", tables, [*words, *flag, "../out"], suffixes, table_fault, 8, flag)
    )
    config = json.loads((tables / "run_sheet.json").read_text())["config"]
    figure = config["figures"][0]
    suffixes = tuple(f"out{end}" for end in (".pdf", ".svg", ".png", ".csv"))
    words = ["make-figure", "--figure", figure, *both, *flag, "../out"]
    found.append(Scenario("make-figure", tables, words, suffixes, table_fault, 0.4, flag))
    from test_reporting_controls import GRID, helpful, planted_of, write_records

    from evenprune.base.files import write_json
    from evenprune.plan import grids

    controls = made / "controls" / "in"
    words = ["report-controls"]
    for seed in (0, 1):
        root = controls / f"w{seed}"
        changes = {"world": {"seed": seed, "retrain": seed > 0}, "experiments": GRID}
        config = small_config(repo, root, "controls.yaml", **changes)
        run_of(root, "controls.yaml", f"../in/w{seed}", 4, **changes)
        for point in grids.all_checkpoints(config):
            write_records(root / "evals" / point.key, seed, point, helpful(point), items=12)
        planted = {"leans": [], "items": planted_of(seed, 12)}
        write_json(root / "world/planted.json", planted)
        words += ["--run", f"../in/w{seed}"]
    words += ["--out", "../out"]
    found.append(Scenario("report-controls", controls, words, ("out",), table_fault, 0.25))
    return found


def world(made: Path) -> list[Scenario]:
    from both import main

    empty = made / "generate" / "in"
    empty.mkdir(parents=True)
    words = ["generate-world", "--seed", "0", "--out", "../out"]
    inputs = made / "shipped" / "in"
    assert main(["generate-world", "--seed", "0", "--out", str(inputs / "world")]) == 0
    take = ["shipped-world-model", "--world", "../in/world", "--out", "../out"]
    return [
        Scenario("generate-world", empty, words, ("out",), lambda *_: "", 0.1, numbers=("--seed",)),
        Scenario("shipped-world-model", inputs, take, ("out",), export_fault, 0.5),
    ]


PARTS = (prune, evaluate, calibrate, fetch, report, world)


def build_scenarios(made: Path) -> list[Scenario]:
    """Write the input of all commands."""
    return [scenario for part in PARTS for scenario in part(made)]
