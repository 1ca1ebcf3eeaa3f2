"""A small run with data, so that its items have texts: a model, dense and pruned, hostile words."""

import csv
import json
from pathlib import Path

from reporting_run import seal, write_jsonl, write_run

from evenprune.cli import main
from evenprune.config import grids
from evenprune.config.config import load_config

# Text that would end a script, begin an element, or run, wherever a page took it for markup.
HOSTILE = "</script><img src=x onerror=alert(1)><!--<script> & \"'{{x}} \u2028"
ITEMS = 60
WIDTH = {"unqover": 3, "bbq": 3, "crows_pairs": 2, "stereoset": 2}
TASKS = tuple(WIDTH)
ASKED = {
    "unqover": {"split": "datas_rebuilt", "style": "cal0"},
    "bbq": {"split": "full", "style": "helm"},
    "crows_pairs": {"split": "revised"},
    "stereoset": {"split": "intrasentence"},
}
METHODS = ["dense", "sparsegpt", "debias-sparsegpt"]
GRID = {"models": ["tiny"], "methods": METHODS, "regimes": ["2of4"], "calibrations": ["ss"]}
CONFIG = {
    "source": "external", "mirror": "mirror", "experiments": {"main": GRID},
    "models": {"tiny": {"mirror": "tiny", "label": "Tiny & <co>"}},
    "benchmarks": {task: {"task": task, "dataset": task} for task in TASKS},
    "tables": ["main", "bbq"], "figures": ["unqover_heatmap"],
}  # fmt: skip


def _row(task: str, k: int) -> dict:
    """Return one row of a task's data, whose first one is hostile."""
    words = f"{task} {k} {HOSTILE}" if k == 0 else f"{task} word{k}"
    if task == "crows_pairs":
        words = words.replace("\u2028", "")
        row = {"sent_more": f"more {words}", "sent_less": f"less {words}"}
        return {**row, "stereo_antistereo": "stereo", "bias_type": "age"}
    if task == "stereoset":
        labels = ("stereotype", "anti-stereotype", "unrelated")
        said = [{"gold_label": label, "sentence": f"{label} {words}"} for label in labels]
        row = {"id": f"s{k}", "target": "t", "context": "BLANK", "sentences": said}
        return {**row, "bias_type": "gender" if k % 2 else "race"}
    answers = {f"ans{j}": f"answer {j} of {k}" for j in range(3)}
    row = {"example_id": str(k), "question": f"Who of {k}?", **answers, "label": 2}
    if task == "unqover":
        return {**row, "category": "religion", "context": words, "unknown_num": 2}
    return {
        **{**row, "context": words, "question_index": "1", "question_polarity": "neg"},
        "context_condition": "ambig",
        "answer_info": {f"ans{j}": [f"n{j}", "unknown" if j == 2 else f"g{j}"] for j in range(3)},
        "additional_metadata": {"stereotyped_groups": ["g0"]},
    }


def write_data(data: Path) -> None:
    """Write the data of all tasks in the form of a mirror."""
    rows = {task: [_row(task, k) for k in range(ITEMS)] for task in TASKS}
    for name in ("unqover/datas_rebuilt", "stereoset/intrasentence", "bbq/Age"):
        write_jsonl(data / f"{name}.jsonl", rows[name.partition("/")[0]])
    (data / "crows_pairs").mkdir()
    with open(data / "crows_pairs/crows_pairs_revised.csv", "w", encoding="utf-8") as out:
        writer = csv.DictWriter(out, rows["crows_pairs"][0], delimiter="\t")
        writer.writeheader()
        writer.writerows(rows["crows_pairs"])


def item_id(task: str, k: int) -> str:
    """Return the id that the readers give to an item."""
    return {"bbq": f"Age-{k}", "stereoset": f"s{k}"}.get(task, str(k))


def record(task: str, method: str, k: int) -> dict:
    """Return the record of one item as an evaluation writes it, in the fields that pages read.

    The dense model answers the last option of every item, SparseGPT the first one of each third
    item, Debias-SparseGPT of each tenth.
    """
    step = {"sparsegpt": 3, "debias-sparsegpt": 10}.get(method)
    pred = 0 if step and k % step == 0 else WIDTH[task] - 1
    found = {
        "item_id": item_id(task, k), "cluster": str(k // 4), "pred": pred, "tie": False,
        "category": {"unqover": "religion", "bbq": "Age"}.get(task, "age"),
        "gold": {"unqover": 2, "bbq": 2}.get(task, 0),
        "option_logprobs": [-1.0 - j - k / 1000 + 5 * (j == pred) - 5 for j in range(WIDTH[task])],
    }  # fmt: skip
    if k == 7:  # near ties
        found["option_logprobs"] = [-1.0 - 0.05 * (j != pred) for j in range(WIDTH[task])]
    found["correct"] = found["correct_shared"] = pred == found["gold"]
    if task in ("unqover", "bbq"):
        found |= {"perm": "012", "unknown_idx": 2}
    if task == "bbq":
        condition = "disambig" if k % 2 else "ambig"
        found |= {"biased_idx": 0 if k != 30 else None, "condition": condition}
    if task == "crows_pairs":
        found |= {"shared_logprobs": [0.0, 0.0], "n_shared": 0}
    if task == "stereoset":
        found |= {"unrelated_logprob": -30.0, "category": "gender" if k % 2 else "race"}
    return found


def write_item_run(repo: Path, root: Path) -> Path:
    """Write the run below ``root``/results with its mirror; return run_sheet.json.

    Commands on it are run in ``root``, as the workflow's are.
    """
    write_data(root / "mirror/data")
    config = load_config(CONFIG, repo / "config/world.yaml", repo / "config/catalogue.yaml")
    config = config.model_copy(update={"results": str(root / "results")})
    sheet = write_run(config)
    for point in grids.all_checkpoints(config):
        evals = root / "results/evals" / point.key
        for task in TASKS:
            path = evals / task / "metrics.json"
            content = json.loads(path.read_text())
            protocol = {**ASKED[task], "items_in_data": ITEMS}
            content["spec"] = {"protocol": protocol, "chat_template": False}
            path.write_text(json.dumps(content))
            rows = [record(task, point.method, k) for k in range(ITEMS)]
            write_jsonl(evals / task / "items.jsonl", rows)
        seal(evals)
    for task in TASKS:
        out = root / f"results/sources/data/{task}.json"
        words = ["--name", task, "--mirror", str(root / "mirror"), "--lock", str(root / "lock")]
        assert main(["fetch-source", "--kind", "data", *words, "--out", str(out)]) == 0
    return sheet
