"""A small run with data, so that its items have texts: a model, dense and pruned, hostile words."""

import csv
import json
from pathlib import Path

from reporting_run import seal, write_jsonl, write_run

from evenprune.cli import main
from evenprune.plan import grids
from evenprune.plan.config import Config, load_config

# Text that would end a script, begin an element, or run, wherever a page took it for markup.
HOSTILE = "</script><img src=x onerror=alert(1)><!--<script> & \"'{{x}} \u2028"
ITEMS = 60
TASKS = ("unqover", "bbq", "crows_pairs", "stereoset", "mmlu")
WIDTH = {"unqover": 3, "bbq": 3, "crows_pairs": 2, "stereoset": 2, "mmlu": 4}
SPLITS = {
    **{"unqover": "datas_rebuilt", "bbq": "full", "crows_pairs": "revised"},
    **{"stereoset": "intrasentence", "mmlu": "test"},
}
STYLES = {"unqover": "cal0", "bbq": "helm"}
CONFIG = {
    "source": "external",
    "mirror": "mirror",
    "models": {"tiny": {"mirror": "tiny", "label": "Tiny & <co>"}},
    "benchmarks": {task: {"task": task, "dataset": task} for task in TASKS},
    "experiments": {
        "main": {
            "models": ["tiny"],
            "methods": ["dense", "sparsegpt", "debias-sparsegpt"],
            "regimes": ["2of4"],
            "calibrations": ["ss"],
        }
    },
    "tables": ["main", "bbq"],
    "figures": ["unqover_heatmap"],
}


def item_config(repo: Path, results: Path, **changes) -> Config:
    """Return the configuration of the run, its results under ``results``."""
    given = {**CONFIG, **changes}
    config = load_config(given, repo / "config/world.yaml", repo / "config/catalogue.yaml")
    return config.model_copy(update={"results": str(results)})


def _words(task: str, k: int) -> str:
    return f"{task} {k} {HOSTILE}" if k == 0 else f"{task} word{k}"


def write_data(mirror: Path, items: int = ITEMS) -> None:
    """Write the data of all tasks in the form of a mirror."""
    data = mirror / "data"
    rows: dict[str, list[dict]] = {task: [] for task in TASKS}
    for k in range(items):
        answers = {f"ans{j}": f"answer {j} of {k}" for j in range(3)}
        asked = {"example_id": str(k), "question": f"Who of {k}?", **answers, "label": 2}
        words = {task: _words(task, k) for task in TASKS}
        rows["unqover"].append(
            {**asked, "category": "religion", "context": words["unqover"], "unknown_num": 2}
        )
        info = {f"ans{j}": [f"n{j}", "unknown" if j == 2 else f"g{j}"] for j in range(3)}
        rows["bbq"].append(
            {
                **asked,
                "context": words["bbq"],
                "question_index": "1",
                "question_polarity": "neg",
                "context_condition": "ambig",
                "answer_info": info,
                "additional_metadata": {"stereotyped_groups": ["g0"]},
            }
        )
        labels = ("stereotype", "anti-stereotype", "unrelated")
        rows["stereoset"].append(
            {
                "id": f"s{k}",
                "target": "t",
                "bias_type": "gender" if k % 2 else "race",
                "context": "BLANK",
                "sentences": [
                    {"gold_label": label, "sentence": f"{label} {words['stereoset']}"}
                    for label in labels
                ],
            }
        )
        rows["mmlu"].append(
            {
                "question": f" {words['mmlu']} ",
                "subject": "high_school",
                "choices": list("abcd"),
                "answer": 1,
            }
        )
    for task, name in (("unqover", "datas_rebuilt"), ("stereoset", "intrasentence")):
        write_jsonl(data / task / f"{name}.jsonl", rows[task])
    write_jsonl(data / "bbq/Age.jsonl", rows["bbq"])
    write_jsonl(data / "mmlu/test.jsonl", rows["mmlu"])
    (data / "crows_pairs").mkdir()
    with open(data / "crows_pairs/crows_pairs_revised.csv", "w", encoding="utf-8") as out:
        writer = csv.writer(out, delimiter="\t")
        writer.writerow(["sent_more", "sent_less", "stereo_antistereo", "bias_type"])
        for k in range(items):
            words = f"crows {k}" if k else f"crows {HOSTILE}".replace("\u2028", "")
            writer.writerow([f"more {words}", f"less {words}", "stereo", "age"])


def item_id(task: str, k: int) -> str:
    """Return the id that the readers give to an item."""
    forms = {"bbq": f"Age-{k}", "stereoset": f"s{k}", "mmlu": f"high_school-{k}"}
    return forms.get(task, str(k))


def chosen(task: str, method: str, k: int) -> int:
    """Return what a checkpoint answers: the dense model the last option of every item.

    SparseGPT takes the first one of each third item, Debias-SparseGPT of each tenth.
    """
    step = {"sparsegpt": 3, "debias-sparsegpt": 10}.get(method)
    last = 1 if task == "mmlu" else WIDTH[task] - 1
    return 0 if step and k % step == 0 else last


def record(task: str, method: str, k: int) -> dict:
    """Return the record of one item as an evaluation writes it, in the fields that pages read."""
    pred = chosen(task, method, k)
    scores = [-1.0 - j - k / 1000 + 5 * (j == pred) - 5 for j in range(WIDTH[task])]
    found = {
        "item_id": item_id(task, k),
        "category": {"unqover": "religion", "bbq": "Age", "mmlu": "high_school"}.get(task, "age"),
        "option_logprobs": scores,
        "pred": pred,
        "gold": {"unqover": 2, "bbq": 2, "mmlu": 1}.get(task, 0),
        "tie": False,
        "cluster": str(k // 8),
    }
    found["correct"] = pred == found["gold"]
    if task in ("unqover", "bbq"):
        found |= {"perm": "012", "unknown_idx": 2}
    if task == "bbq":
        found |= {
            "biased_idx": 0 if k != 30 else None,
            "condition": "disambig" if k % 2 else "ambig",
        }
    if task == "stereoset":
        found |= {"unrelated_logprob": -30.0, "category": "gender" if k % 2 else "race"}
    return found


def write_item_run(repo: Path, root: Path, items: int = ITEMS) -> Path:
    """Write the run below ``root``/results with its mirror; return run_sheet.json.

    Commands on it are run in ``root``, as the workflow's are.
    """
    write_data(root / "mirror", items)
    config = item_config(repo, root / "results")
    sheet = write_run(config)
    for point in grids.all_checkpoints(config):
        evals = root / "results/evals" / point.key
        for task in TASKS:
            path = evals / task / "metrics.json"
            content = json.loads(path.read_text())
            protocol = {"split": SPLITS[task], "items_in_data": items}
            protocol |= {"style": STYLES[task]} if task in STYLES else {}
            content["spec"] = {"protocol": protocol, "chat_template": False}
            path.write_text(json.dumps(content))
            rows = [record(task, point.method, k) for k in range(items)]
            write_jsonl(evals / task / "items.jsonl", rows)
        seal(evals)
    for task in TASKS:
        out = root / f"results/sources/data/{task}.json"
        words = ["--name", task, "--mirror", str(root / "mirror"), "--lock", str(root / "lock")]
        assert main(["fetch-dataset", *words, "--out", str(out)]) == 0
    return sheet
