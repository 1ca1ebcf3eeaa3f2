"""The whole chain with ``keep: evals``: the page's example of one's own files, and a mirror.

Reruns are in test_job_lists.py.
"""

import json
import re

import pandas as pd
import pytest
import yaml
from browser import needs_chromium, opened

from .conftest import QUESTIONS, copy_workflow, counts, own_files, snakemake

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

# A guard model judges the checkpoints of one experiment.
SAFETY = {
    **{"task": "harmbench", "dataset": "harmbench", "experiments": ["safety"], "limit": 4},
    **{"judge": "guard", "judge_forms": ["pr", "paper"], "max_new_tokens": 6},
}
SPARSE, DEBIAS = (
    f"results/mine/pruned/mine/{method}/2of4/own/s0" for method in ("sparsegpt", "debias-sparsegpt")
)


def configuration(repo, mirror):
    """The example of docs/your-own.md without what needs a hub, and benchmarks of a mirror."""
    text = (repo / "docs/your-own.md").read_text()
    config = yaml.safe_load(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])
    del config["models"]["other"], config["calibrations"]["mixed"], config["pdf"]
    config["models"] |= {"guard": {"label": "Guard"}}
    config["models"]["mine"]["label"] = "Tiny & co_1"
    main = config["experiments"]["main"]
    config["experiments"]["safety"] = {**main, "methods": ["dense", "sparsegpt"]}
    asked = {name: {"task": name, "dataset": name, "limit": 6} for name in ("mmlu", "unqover")}
    config["benchmarks"] = {"quiz": config["benchmarks"]["quiz"], **asked, "harmbench": SAFETY}
    serving = {"experiment": "main", "batch_sizes": [1], "new_tokens": 16, "rounds": 2}
    tables = [*config["tables"], "efficiency", "masks", "safety_details"]
    config |= {"mirror": str(mirror), "keep": "evals", "serving": serving, "tables": tables}
    return config | {"figures": ["unqover_heatmap"]}


def planned(folder, *targets, config="my.yaml"):
    """Run ``snakemake -n`` and return what it says."""
    return snakemake(folder, *targets, "-n", "--cores", "2", "--configfile", config).stdout


@pytest.fixture(scope="module")
def ran(repo, tiny_mirror, tmp_path_factory):
    """A checkout in which the configuration has run to the end, and what it said."""
    folder = copy_workflow(repo, tmp_path_factory.mktemp("run"))
    own_files(folder)
    (folder / "my.yaml").write_text(yaml.safe_dump(configuration(repo, tiny_mirror)))
    quiz = (folder / "my/quiz.jsonl").rename(folder / "quiz.jsonl")
    missing = "datasets.quiz.data.path: expected a file or folder at my/quiz.jsonl"
    assert missing in planned(folder)
    quiz.rename(folder / "my/quiz.jsonl")
    done = snakemake(folder, "--cores", "2", "--configfile", "my.yaml")
    assert done.returncode == 0, done.stdout[-3000:]
    return folder, done.stdout


@pytest.fixture(scope="module")
def finished(ran):
    return ran[0]


def test_every_stage_left_its_output(finished):
    results = finished / "results/mine"
    table = pd.read_csv(results / "results.csv")
    assert {"mmlu", "unqover", "dto", "calibration"} <= set(table.benchmark)
    quiz = table[table.benchmark == "quiz"]
    assert {"dense", "sparsegpt", "debias-sparsegpt"} == set(quiz.method)
    assert {"acc", "stereotype_rate"} <= set(quiz.metric)
    lines = (results / "tables/main.md").read_text().splitlines()
    assert "quiz" in next(line for line in lines if "|" in line)
    assert (results / "figures/unqover_heatmap.pdf").read_bytes().startswith(b"%PDF")
    assert "Tiny \\& co\\_1" in (results / "tables/main.tex").read_text()
    assert not list((results / ".partial").glob("*"))
    checkpoint = results / "pruned/mine/debias-sparsegpt/2of4/own/s0"
    assert json.loads((checkpoint / "check.json").read_text())["model_sha256"]
    masks = pd.read_csv(checkpoint / "masks.csv")
    assert len(masks) == 2 * 7
    assert (masks["zeros"] * 2 == masks["rows"] * masks["columns"]).all()


def test_a_guard_model_judges_the_checkpoints_of_its_experiment(finished):
    results = finished / "results/mine"
    judged = sorted(results.glob("evals/mine/*/*/*/s0/harmbench/metrics.json"))
    assert [path.parts[-6] for path in judged] == ["dense", "sparsegpt"]
    for path in judged:
        found = json.loads(path.read_text())
        assert found["spec"]["judge"].startswith("guard@")
        assert found["spec"]["judge_forms"] == ["pr", "paper"]
    rows = pd.read_csv(results / "tables/safety_details.csv")
    assert list(rows.method) == ["dense", "sparsegpt"]
    assert "HarmBench: Guard" in (results / "tables/safety_details.md").read_text()


def test_every_step_says_one_line(ran):
    """Without any option, and all of Snakemake's own words are in a file."""
    folder, said = ran
    lines = said.splitlines()
    assert max(map(len, lines)) <= 120
    steps = [line for line in lines if re.match(r"\[ ?\d+/\d+\] ", line)]
    assert len(lines) < len(steps) + 10
    pattern = r"\[ ?\d+/\d+\] {}  \d+ s  eta (over )?\d+ (s|min)"
    for words in ("prune mine sparsegpt 2of4 own", "tables"):
        assert [line for line in steps if re.fullmatch(pattern.format(words), line)], said
    logs = (folder / ".snakemake/log").glob("*.log")
    assert any("Finished jobid: " in log.read_text() for log in logs)


def test_checkpoints_are_gone_and_the_next_run_makes_the_report_alone(finished):
    for place in (SPARSE, DEBIAS):
        assert not (finished / place / "model").exists()
        assert (finished / place / "check.json").exists()
    words = ("--configfile", "my.yaml", "--report", "report.html")
    done = snakemake(finished, "--cores", "1", "all", *words)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "Adding efficiency.html" in done.stdout


def test_new_questions_evaluate_again_and_prune_again_what_is_gone(finished):
    """By names and checksums, so that it is planned; that pruning repeats itself, others test."""
    config = yaml.safe_load((finished / "my.yaml").read_text())
    more = {"task": "crows_pairs", "dataset": "crows_pairs", "limit": 6}
    config["benchmarks"]["crows_pairs"] = more
    (finished / "more.yaml").write_text(yaml.safe_dump(config))
    target = f"{SPARSE.replace('pruned', 'evals')}/summary.json"
    jobs = counts(planned(finished, target, config="more.yaml"))
    assert (jobs["prune_model"], jobs["evaluate_checkpoint"]) == (1, 1)
    assert "build_calibration" not in jobs
    quiz = finished / "my/quiz.jsonl"
    before = quiz.read_text()
    quiz.write_text(before + json.dumps(QUESTIONS[0] | {"id": "more"}) + "\n")
    jobs = counts(planned(finished))
    quiz.write_text(before)
    assert jobs["evaluate_checkpoint"] == 3
    assert "build_calibration" not in jobs


@needs_chromium
def test_the_page_shows_ones_own_questions(finished):
    with opened(finished / "results/mine/report/paper.html") as page:
        seen = "document.getElementById('%s').innerText"
        page.run("location.hash = 'set=quiz&kind=all'")
        page.until(f"{seen % 'items-table'}.includes('Who has')")
        assert "Option" in page.run(seen % "item")
        assert page.errors == []
