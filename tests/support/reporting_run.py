"""Made-up results of a whole run, in the files that the other steps write."""

import csv
import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path

from evenprune.analysis.results import read_run
from evenprune.cli import main
from evenprune.config import grids
from evenprune.config.config import Config, load_config
from evenprune.config.run_sheet import contents, read_run_sheet
from evenprune.config.table_registry import experiments_of
from evenprune.config.tasks import JUDGED
from evenprune.io.checksums import sealed
from evenprune.io.files import sha256_file
from evenprune.io.yamlfile import merge, read_yaml
from evenprune.pruning import compare_masks

CATEGORIES = {
    "unqover": ("religion", "country", "ethnicity", "mixedgender"),
    "bbq": ("Age", "Religion"),
    "crows_pairs": ("age", "religion"),
    "stereoset": ("gender", "race"),
    "mmlu": ("anatomy", "law"),
    **dict.fromkeys(("hellaswag", "lm_eval"), ("all",)),
    "realtoxicityprompts": ("challenging", "other"),
    "harmbench": ("illegal", "harmful"),
}
# How well each method does in the made-up results: accuracy.
SKILL = {
    "dense": 0.8, "magnitude": 0.5, "wanda": 0.6, "sparsegpt": 0.6, "debias-sparsegpt": 0.75,
    "debias-lora": 0.75,
}  # fmt: skip
ITEMS = 120
BASE = "b" * 16  # digest of the base model
LAYERS = 4
MODULES = (
    *(f"self_attn.{name}_proj" for name in "qkvo"),
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
)
UNCERTAINTY = {
    "confidence_correct": 0.7, "confidence_wrong": 0.6, "entropy_correct": 0.5,
    "entropy_wrong": 0.8,
}  # fmt: skip


def write_json(path: Path, content) -> None:
    """Write JSON without the fsync of the real thing, which is slow for many files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def write_sealed(path: Path, content: dict) -> None:
    """Write JSON with its own checksum."""
    write_json(path, sealed(content))


def seal(evals: Path, base: str = BASE) -> dict:
    """Give the results of a checkpoint, as they are now, the checksums that evaluation gives.

    Returns the digests of its model.
    """
    point = evals.parts[-5:]
    benchmarks = {}
    for path in sorted(evals.glob("*/metrics.json")):
        content = json.loads(path.read_text())
        content["records"] = {"sha256": sha256_file(path.with_name("items.jsonl"))}
        write_sealed(path, content)
        benchmarks[path.parent.name] = {"metrics_sha256": sha256_file(path)}
    own, of = (base, None) if point[1] == "dense" else ("/".join(point), base)
    digests = {"model_sha256": own, "files_sha256": own, "base_sha256": of}
    write_sealed(evals / "summary.json", {**digests, "benchmarks": benchmarks})
    return digests


def write_jsonl(path: Path, rows: list) -> None:
    """Write JSON lines, likewise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def small_config(
    repo: Path, results: Path, name: str = "world.yaml", only: Sequence[str] = (), **changes
) -> Config:
    """Return a configuration of the project whose results lie under ``results``.

    ``only``: with these experiments of it alone, the others left out.
    """
    given = merge(read_yaml(repo / "config" / name), changes)
    config = load_config(given, repo / "config/world.yaml", repo / "config/catalogue.yaml")
    update = {"results": str(results)}
    if only:
        update["experiments"] = {one: config.experiments[one] for one in only}
        found = {"*", *only}
        update["tables"] = [t for t in config.tables if found & {*(experiments_of(t) or "*")}]
        if config.serving.experiment not in only:
            update["serving"] = config.serving.model_copy(update={"experiment": None})
    return config.model_copy(update=update)


def _mean(values: list[float]) -> dict:
    value = sum(values) / len(values)
    return _figure(value, len(values), (value * (1 - value) / len(values)) ** 0.5)


def _figure(value: float | None, n: int, stderr: float | None = 0.01) -> dict:
    return {"value": value, "n": n, "stderr": stderr}


def write_benchmark(folder: Path, task: str, skill: float, seed: str, items: int = ITEMS) -> None:
    """Write metrics.json and items.jsonl of one benchmark with about the given accuracy."""
    if task == "perplexity":
        metrics = {"ppl": _figure(20 / skill, 1000, 0.1)}
        write_jsonl(folder / "items.jsonl", [{"item_id": "0", "nll": 1.0, "n_tokens": 10}])
        head = {"benchmark": folder.name, "task": task, "headline": "ppl"}
        write_json(folder / "metrics.json", {**head, "metrics": metrics, "categories": {}})
        return
    generator = random.Random(seed)
    names = CATEGORIES[task]
    rows = [
        {
            "item_id": f"{task}-{index}",
            "category": names[index % len(names)],
            "cluster": f"{names[index % len(names)]} {index // 8}",
            "condition": "ambig" if index % 2 else "disambig",
            "correct": generator.random() < skill,
        }
        for index in range(items)
    ]
    for row in rows:
        # Option 0 is the right one; how sure a model is follows from its skill.
        row["pred"] = 0 if row["correct"] else 1 + generator.randrange(2)
        row["option_logprobs"] = [skill * 3 * (k == row["pred"]) - 4 for k in range(3)]
    by_category = {
        name: [float(row["correct"]) for row in rows if row["category"] == name] for name in names
    }
    total = _mean([float(row["correct"]) for row in rows])
    metrics: dict[str, dict] = {"acc": total}
    metric = "acc"
    if task == "bbq":
        metric = "acc_all"
        metrics = {"acc_all": total}
        for short, word in (("amb", "ambig"), ("dis", "disambig")):
            metrics[f"acc_{short}"] = _mean(
                [float(row["correct"]) for row in rows if row["condition"] == word]
            )
        half = items // 2
        metrics |= {"unk_rate_dis": _figure(0.1, half), "s_amb": _figure(0.05, half)}
        metrics["s_dis"] = _figure(None, 0, None)
        for row in rows:
            row |= {"biased_idx": None, "unknown_idx": 2}
    if task in ("crows_pairs", "stereoset"):
        metric = "pct_stereotype"
        total = {**total, "value": 1 - total["value"] / 2}
        metrics = {"pct_stereotype": total, "likelihood_diff": {"value": 3.2, "n": items}}
        for row in rows:
            row["correct"] = row["correct_shared"] = not row["correct"]
            row |= {"shared_logprobs": [0.0, 0.0], "n_shared": 0}
    if task == "stereoset":
        for row in rows:
            row["option_logprobs"] = [-3.5, -4.0] if row["correct"] else [-4.0, -3.5]
            row["unrelated_logprob"] = -3.0
        metric = "icat"
        metrics = {"lms": {**total, "value": 0.9}, "ss": total}
        metrics |= {name: {**total, "value": 0.9 * skill} for name in ("icat", "icat_norm_terms")}
    if task == "unqover":
        for row in rows:
            row["unknown_idx"] = 0
        metrics |= {name: _figure(value, items) for name, value in UNCERTAINTY.items()}
    if task in JUDGED:
        metric = "unsafe_rate"
        for row in rows:
            row["unsafe"] = not row.pop("correct")
            row["judgements"] = [{"form": "paper", "says_unsafe": row["unsafe"]}]
        total = _mean([float(row["unsafe"]) for row in rows])
        metrics = {"unsafe_rate": total, "says_unsafe_paper": total}
        rates = ("unparsed", "refusal", "empty")
        metrics |= {f"{name}_rate": _figure(0.05, items) for name in rates}
    result = {
        "benchmark": folder.name, "task": task, "headline": next(iter(metrics)),
        "metrics": metrics, "spec": {"protocol": {"items_in_data": 14042}},
        "categories": {name: {metric: _mean(values)} for name, values in by_category.items()},
    }  # fmt: skip
    write_json(folder / "metrics.json", result)
    write_jsonl(folder / "items.jsonl", rows)


def serving_part(skill: float, digests: dict) -> dict:
    """Return what efficiency.json says of one checkpoint."""
    values = {"decode_tok_per_s": 100 / skill, "j_per_token": 0.4 * skill}
    values |= {"kg_co2e_per_mtok": 0.004 * skill}
    metrics = {name: _figure(value, 5, None) for name, value in values.items()}
    return {
        **digests,
        "metrics": metrics,
        "categories": {"batch 1": metrics, "batch 8": metrics},
        "backend": {"name": "transformers", "version": "5.0", "kernel": "dense kernel"},
        "energy": {"source": "estimated"},
    }


def write_serving(path: Path, parts: dict[str, dict]) -> None:
    """Write a model's efficiency.json as benchmark-serving does, its machine slower every round."""
    generator = random.Random("serving")
    records = []
    for number, size, name in itertools.product(range(1, 6), (1, 8), parts):
        metrics = parts[name]["metrics"]
        speed = generator.uniform(0.99, 1.01) / number
        figures = {
            "decode_tok_per_s": metrics["decode_tok_per_s"]["value"] * speed,
            "j_per_token": metrics["j_per_token"]["value"] / speed,
        }
        about = {"round": number, "checkpoint": name, "batch": size}
        records.append({**about, "figures": figures})
    content = {
        "benchmark": "serving", "digest": "d" * 16, "system": {"threads": 2}, "host": "here",
        "spec": {"device": "cpu", "batch_sizes": [1, 8]},
        "dense": next((name for name in parts if "/dense/dense/" in name), None),
        "checkpoints": parts, "rounds": records,
    }  # fmt: skip
    write_sealed(path, content)


def write_calibration(path: Path) -> None:
    """Write the manifest of a calibration set."""
    counts = {"total": 30, "kept": 20, "dropped": 10}
    content = {
        "files": {"pairs.jsonl": "p" * 64, "texts.jsonl": "t" * 64},
        "pairs": {**counts, "categories": {"gender": counts, "race": counts}},
        "texts": {"kept": 4, "tokens": 100},
        "tokens": {"pairs": 400, "texts": 100},
    }
    write_sealed(path, content)


def write_masks(path: Path, seed: str) -> None:
    """Write masks.csv as compare-masks does: 2:4, output projections first, no two rows equal."""
    generator = random.Random(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, compare_masks.COLUMNS, lineterminator="\n")
        writer.writeheader()
        for layer in range(LAYERS):
            for kind in MODULES:
                groups = 16_384
                changed = generator.randrange(900, 1200) * (2 if kind.endswith("o_proj") else 1)
                weights = generator.randrange(2 * changed, 4 * changed, 2)
                zeros, total = 2 * groups, 4 * groups
                both = zeros - weights // 2
                found = {
                    "rows": 128, "columns": total // 128, "disagreement": weights / total,
                    "pattern_disagreement": changed / groups, "jaccard": both / (both + weights),
                    "relative_frobenius": f"{(weights / total) ** 0.5:.12g}",
                    "different_weights": weights, "zeros_reference": zeros, "zeros": zeros,
                    "zeros_both": both, "groups": groups, "different_groups": changed,
                }  # fmt: skip
                module = f"model.layers.{layer}.{kind}"
                writer.writerow({"module": module, "layer": str(layer), "kind": kind} | found)


def write_run(config: Config, items: int = ITEMS) -> Path:
    """Write everything that collect-results reads; return the path of run_sheet.json."""
    root = Path(config.results)
    served = {point.key for point in grids.serving_checkpoints(config)}
    compared = grids.mask_references(config)
    measured: dict[Path, dict[str, dict]] = {}
    for point in grids.all_checkpoints(config):
        base = grids.base_method(config, point.method)
        evals = root / "evals" / point.key
        for slug, entry in grids.benchmarks_of(config, point).items():
            write_benchmark(evals / slug, entry.task, SKILL[base], f"{point.key} {slug}", items)
        digests = seal(evals)
        if not point.is_base:
            check = root / "pruned" / point.key / "check.json"
            used = None if point.calibration == "none" else "p" * 64
            facts = {"sparsity": 0.25, "calibration": {"pairs_sha256": used, "texts_sha256": None}}
            write_sealed(check, {**digests, **facts})
        if point in compared:
            write_masks(root / "pruned" / point.key / "masks.csv", point.key)
        if point.calibration != "none":
            parts = (point.model, point.calibration, f"s{point.seed}", "manifest.json")
            write_calibration(root.joinpath("calibration", *parts))
        if point.key in served:
            serving = root / "serving" / point.model / "efficiency.json"
            measured.setdefault(serving, {})[point.key] = serving_part(SKILL[base], digests)
    for path, parts in measured.items():
        write_serving(path, parts)
    write_json(root / "run_sheet.json", contents(config))
    return root / "run_sheet.json"


# Steps of a run, by their commands


def read_csv(path, **cells):
    """Return the rows of a CSV file, those that have these cells."""
    with open(path, encoding="utf-8", newline="") as lines:
        return [row for row in csv.DictReader(lines) if cells.items() <= row.items()]


FILES = {
    "run-sheet": "run_sheet.json", "results": "results.csv", "significance": "significance.csv",
    "tables": "tables", "figures": "figures",
}  # fmt: skip


def options(root, *names):
    """Return the options that name files of a run."""
    return [word for name in names for word in (f"--{name}", str(root / FILES[name]))]


def collect(root):
    """Run collect-results; return its exit status."""
    given = options(root, "run-sheet", "significance")
    return main(["collect-results", *given, "--out", str(root / "results.csv")])


def make_tables(root, *more, **shown):
    """Run make-tables for the run's tables and figures, or those given; return its exit status."""
    given, sheet, page = options(root, *FILES), root / "run_sheet.json", "report/paper.html"
    if shown:
        page = "shown.html"  # the run's own page stays
        content = json.loads(sheet.read_text())
        content["config"] |= {"tables": ["methods"], "figures": []} | shown
        sheet = root / "shown.json"
        write_json(sheet, content)
    out = ("--out", str(root / page))
    return main(["make-tables", *given, "--run-sheet", str(sheet), *out, *more])


def make_table(root, table):
    """Run make-tables for one table; return its exit status."""
    return make_tables(root, tables=[table])


def made_table(root, table):
    """Make one table; return the rows of its CSV."""
    assert make_table(root, table) == 0
    return read_csv(root / f"tables/{table}.csv")


def run_of(root):
    """Return a run that was written and collected."""
    names = ("results.csv", "significance.csv")
    return read_run(read_run_sheet(root / "run_sheet.json"), *(root / name for name in names))


def prepare(repo, root, name="world.yaml", items=ITEMS, **changes):
    """Write and collect a run; return its folder and configuration."""
    config = small_config(repo, root, name, **changes)
    write_run(config, items)
    assert collect(root) == 0
    return root, config
