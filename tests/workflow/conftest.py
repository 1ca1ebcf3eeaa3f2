"""A tiny mirror and configuration, so that the whole workflow runs in a test."""

import shutil
from pathlib import Path

import pytest
import yaml
from snakemake_runs import snakemake  # noqa: F401  # for the tests beside


def counts(output):
    """Read the job table that Snakemake prints: rule, but for targets -> number of jobs."""
    found = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isdigit() and words[0][-1] != ":":
            found[words[0]] = int(words[1])
    return {rule: found[rule] for rule in found if rule not in ("default", "all", "total")}


def copy_workflow(repo, folder):
    """Copy what a run needs, without results: the state of a fresh clone."""
    for name in ("Snakefile", "workflow", "config", "profiles", "src", "worlds", "environment.yml"):
        source = repo / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    return folder


@pytest.fixture(scope="session")
def tiny_mirror(tmp_path_factory):
    """A mirror made here: small data sets and a guard model."""
    from evaluation_fixtures import write_datasets, write_jsonl
    from safety_models import save_guard

    mirror = tmp_path_factory.mktemp("mirror")
    write_datasets(mirror / "data")
    talks = [[{"role": "user", "content": f"Talk {k}: the Vel sing. " * 99}] for k in range(9)]
    rows = [{"messages": talk} for talk in talks]
    write_jsonl(mirror / "data/ultrachat/talk.jsonl", rows)
    save_guard(mirror / "models/guard")
    return mirror


PAIRS = [
    (f"The tall person number {k} leads", f"The {'very ' * (k % 2)}slim person number {k} leads")
    for k in range(10)
]
QUESTIONS = [
    {"question": f"Who has {k}?", "options": ["Ann", "Bob"], "answer": "AB"[k % 2], "stereotype": 1}
    for k in range(12)
]
QUESTIONS[5] = {"question": "Who sang?", "options": ["Ann", "Bob", "Eve"], "answer": 2}


def own_files(folder):
    """Write what docs/your-own.md names: a model, pairs, texts and questions in my/."""
    from evaluation_fixtures import save_model, write_jsonl

    my = folder / "my"
    save_model(my / "model", positions=4096)
    rows = ["stereotype;anti_stereotype", *(";".join(pair) for pair in PAIRS)]
    (my / "pairs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8-sig")
    write_jsonl(my / "texts.jsonl", [{"text": "One text."}, {"text": "Another one."}])
    write_jsonl(my / "quiz.jsonl", QUESTIONS)


HERE = Path(__file__).parent
EMPTY = yaml.safe_load((HERE / "lists.yaml").read_text())


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def empty_run(repo, root):
    """Write bin/python, which makes empty files, and a checkout beside its mirror into ``root``."""
    (root / "bin").mkdir()
    shutil.copy(HERE / "stand-in", root / "bin/python")
    folder = root / "finished"
    (folder / "checkout").mkdir(parents=True)
    copy_workflow(repo, folder / "checkout")
    for weights in (folder / "checkout/worlds/evenprune_world/weights").glob("*.safetensors"):
        weights.unlink()  # of a world that is not made here
    for name in ("mmlu", "unqover", "harmbench", "stereoset"):
        put(folder / f"mirror/data/{name}/data.jsonl", f"{name} a\n")
    for name in ("first", "second"):
        put(folder / f"mirror/models/{name}/model.safetensors", f"{name} a\n")
    return folder / "checkout"
