"""The commands of README.md as they stand, in a fresh copy: run, planned, or not run for a reason.

Those of the other pages are accepted by the program's parsers, and planned where they are
Snakemake's: the paths of somebody who prunes a model, reproduces the paper, or reviews it.
"""

import csv
import importlib
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
from page_commands import START, called, commands, fresh_copy

from evenprune.cli import parsers

# What takes long is planned (`-n`) instead: all names in it must be right, nothing is computed.
PLANNED = {
    "make demo": "installs, then computes for minutes",
    "make test": "installs, then runs this",
    "make world": "minutes",
    "snakemake --cores all": "minutes",
    "snakemake prefetch --cores 1 --configfile config/paper.yaml": "the network",
    "snakemake --cores 16 --resources gpu=2 --configfile config/paper.yaml": "GPUs, days",
    "snakemake --workflow-profile profiles/slurm --profile profiles/site --configfile "
    "config/paper.yaml": "a cluster, days",
    "snakemake --cores all --configfile config/real-small.yaml --config mirror=PATH": "hours",
    "snakemake --cores all results/tables/answer.tex": "minutes",
}
TUTORIAL = "docs/tutorial.md has it, whose commands run"
NOT_RUN = {
    "snakemake --cores 1 all --report report.html": "shows a finished run",
    "evenprune explain answer --cell "
    "smollm2-135m/debias-sparsegpt/2of4/ss.groups-b64/stereoset": "shows a finished run; "
    "tests/workflow and tests/reporting run it",
    "evenprune prune --model smollm2-135m --method debias-sparsegpt --regime 2of4 --out "
    "pruned/debias": TUTORIAL,
    "evenprune check --model pruned/debias --base smollm2-135m --out pruned/debias-check.json": (
        TUTORIAL
    ),
    "evenprune evaluate --model pruned/debias --benchmark crows_pairs --limit 200 --out "
    "evals/debias": TUTORIAL,
    "evenprune compare smollm2-135m pruned/debias --benchmark stereoset --benchmark crows_pairs "
    "--limit 200": TUTORIAL,
    "evenprune gpu-check --out REPORT": "needs a GPU; tests/hardware runs it on a CPU",
}


PAGES = Path(__file__).parents[1] / "docs"
# What the other pages have of Snakemake, besides README's commands.
ELSEWHERE = [
    "snakemake --cores all --configfile config/smollm2.yaml config/smollm2-hub.yaml --config "
    "mirror=PATH",
    "snakemake --cores all serving --configfile config/real-small.yaml --config mirror=PATH",
    "snakemake -n",
]
# Of a finished run, or of a configuration that the reader writes.
NOT_PLANNED = [
    "snakemake finished --report report.html",
    "snakemake -n --configfile my.yaml",
    "snakemake --cores all --configfile my.yaml",
]


def of_other_pages():
    """Return the commands of all pages in docs/, with lines that go on joined."""
    texts = [page.read_text().replace("\\\n", " ") for page in sorted(PAGES.glob("*.md"))]
    return list(dict.fromkeys(line for text in texts for line in commands(text)))


def all_commands():
    return commands((Path(__file__).parents[1] / "README.md").read_text())


@pytest.fixture(scope="module")
def copy(repo, tmp_path_factory):
    return fresh_copy(repo, tmp_path_factory.mktemp("readme") / "evenprune")


def test_the_lists_name_commands_of_the_page_only():
    page = all_commands()
    assert len(page) == len(set(page)) >= 15
    assert sorted((set(PLANNED) | set(NOT_RUN)) - set(page)) == []
    assert not set(PLANNED) & set(NOT_RUN)
    assert [line for line in page if not START.match(line)] == []


def test_every_command_of_every_page_is_accepted(repo):
    taken, targets = parsers(), re.findall(r"^([\w-]+):", (repo / "Makefile").read_text(), re.M)
    count = 0
    for line in of_other_pages():
        program, *words = shlex.split(line)
        if program == "evenprune":
            taken[words[0]].parse_args(words[1:])
            count += 1
        elif program == "make":
            assert set(words) <= set(targets), line
    assert count >= 18


def test_every_snakemake_command_of_other_pages_is_planned_or_has_a_reason():
    lines = {line for line in of_other_pages() if line.startswith("snakemake")}
    assert lines - set(all_commands()) == {*ELSEWHERE, *NOT_PLANNED}


def test_the_first_screen_is_short_and_has_both_pictures(repo):
    first = (repo / "README.md").read_text().split("\n## ")[0].splitlines()
    assert len(first) < 60
    assert sum("docs/pictures/" in line for line in first) >= 1


def test_the_numbers_of_the_tour_are_those_of_its_run(repo):
    """docs/tour.csv is the run's tables/main.csv."""
    with open(repo / "docs/tour.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == "world"]
    names = ("wikitext2", "hellaswag", "mmlu", "unqover", "bbq", "crows_pairs", "dto")
    page = (repo / "docs/tour.md").read_text()
    shown = [re.findall(r"(?<=\| )[\d.]+", line.replace("**", "")) for line in page.splitlines()]
    assert [line for line in shown if line] == [[row[name] for name in names] for row in rows]


@pytest.mark.slow
@pytest.mark.workflow
@pytest.mark.parametrize("command", [*PLANNED, *ELSEWHERE])
def test_what_takes_long_is_planned(copy, command):
    words = shlex.split(command)
    words.insert(1, "-n")
    if "mirror=PATH" in words:
        (copy / "mirror").mkdir(exist_ok=True)
        words[words.index("mirror=PATH")] = "mirror=mirror"
    assert called(words, copy)


@pytest.mark.slow
@pytest.mark.workflow
@pytest.mark.parametrize("target", ["demo", "world", "bias"])
def test_what_make_calls_is_a_command_that_snakemake_takes(copy, target):
    lines = called(["make", "-n", target], copy).splitlines()
    words = next(line.split(" snakemake ")[1] for line in lines if " snakemake " in line)
    called(["snakemake", *shlex.split(words), "-n"], copy)


@pytest.mark.slow
def test_the_others_run(copy):
    left = [line for line in all_commands() if line not in PLANNED and line not in NOT_RUN]
    assert len(left) >= 3
    for line in left:
        called(shlex.split(line), copy)


def test_the_numbers_of_the_faq_are_those_of_its_run(repo):
    """docs/faq.csv has rows of the run's results.csv."""
    with open(repo / "docs/faq.csv", newline="") as file:
        values = [float(row["value"]) for row in csv.DictReader(file)]
    expected = [
        [f"{loss:.2f}", f"{100 * mmlu:.2f}", f"{100 * unqover:.2f}"]
        for loss, mmlu, unqover in zip(*[iter(values)] * 3, strict=True)
    ]
    page = (repo / "docs/faq.md").read_text()
    shown = [re.findall(r"(?<=\| )\d+\.\d\d(?= \|)", line) for line in page.splitlines()]
    assert [line for line in shown if line] == expected
    assert len(page.split()) <= 900


@pytest.mark.parametrize(
    ("name", "words"),
    [("demo", ()), ("bias", ()), ("seeds", ()), ("seeds", ("adapters",)), ("controls", ()),
     ("prune_or_round", ())],
)  # fmt: skip
def test_the_tables_of_a_page_are_those_of_its_file(name, words):
    """docs/NAME.csv has rows of a run's results.csv and significance.csv."""
    module = importlib.import_module(name)
    page = (module.README if name == "demo" else module.PAGE).read_text(encoding="utf-8")
    given = words if name == "seeds" else (module.read_rows(),)
    assert module.filled(page, *given) == page


def test_what_the_readme_says_of_a_real_model_is_what_its_run_found(repo):
    demo = importlib.import_module("demo")
    rows, words = demo.read_rows(), " ".join(demo.README.read_text(encoding="utf-8").split())
    assert len(rows) == len(demo.METHODS) * len(demo.MEASURES)
    assert "On no measure is a pruned model shown to be less fair" in words
    assert "less fair" not in set(rows.verdict)
    assert "nearer to no preference on three of four measures of bias, but both lost" in words
    for _, mine in rows.groupby("method"):
        bias = mine[mine.kind == "bias"]
        assert len(bias) == 4
        assert (bias.verdict == "fairer, ability lost").sum() == 3
        assert (mine[mine.kind == "ability"].verdict == "worse").all()
        # At least half of a model's rows are decided, and each other one says what it would see.
        open_rows = mine[mine.verdict.str.contains("no change|moved")]
        assert len(open_rows) <= len(mine) / 2
        assert (open_rows.detectable != "").all()


def test_the_verdict_on_the_papers_term_is_that_of_its_run(repo):
    """docs/seeds.csv has the means and paired differences over five seeds."""
    rows = importlib.import_module("seeds").read_rows()
    assert all(len(one.split()) == 5 for one in rows.seeds[rows.method != "dense"])
    found = rows[rows.metric == "association"].set_index(["method", "regime"])
    readme = " ".join((repo / "README.md").read_text(encoding="utf-8").split())
    dense, half, pattern = (
        float(found.loc[point, "mean"])
        for point in (("dense", "dense"), ("sparsegpt", "u50"), ("sparsegpt", "2of4"))
    )
    told = f"from {dense:.2f} nats to {half:.2f} at 50 % and to {pattern:.2f} at 2:4"
    assert told in readme
    terms = [found.loc["debias-sparsegpt", regime] for regime in ("u50", "2of4")]
    words = [
        "{:+.2f} [{:+.2f}, {:+.2f}]".format(
            *(float(term[f"method_{name}"]) for name in ("diff", "low", "high"))
        ).replace("-", "−")
        for term in terms
    ]
    assert f"{words[0]} and {words[1]} nats" in readme
    for term in terms:
        assert term.method_verdict == "no change shown"
        assert f"{float(term.method_detectable):.2f}" == "0.03"
    rise = rows[(rows.metric == "ss") & (rows.method == "debias-sparsegpt")].set_index("regime")
    assert rise.loc["u50", "method_verdict"] == "equally fair within margin"
    assert float(rise.loc["u50", "method_low"]) > 0


def test_the_verdict_on_adapters_is_that_of_its_run(repo):
    """docs/adapters.csv has what Debias-LoRA changes."""
    seeds = importlib.import_module("seeds")
    rows, page = seeds.read_rows("adapters"), seeds.PAGE.read_text(encoding="utf-8")
    found = rows.set_index(["method", "regime", "metric"])
    shares, words, parts = [], [], []
    for regime in ("u50", "2of4"):
        one = found.loc["debias-lora", regime]
        plain = float(found.loc[("sparsegpt", regime, "association"), "mean"])
        shares.append(-100 * float(one.loc["association", "method_diff"]) / plain)
        words.append(-100 * float(one.loc["ss", "method_diff"]))
        excess = float(found.loc[("sparsegpt", regime, "ss"), "mean"]) - 0.5
        parts.append(words[-1] / excess)
        assert float(one.loc["association", "method_p_holm"]) < 0.05
        assert float(one.loc["ss", "method_p_holm"]) < 0.05
        assert one.loc["ppl", "method_verdict"] == "no change shown"
        assert all(len(seeds.split()) == 5 for seeds in one.seeds)
    text = " ".join(page.split())
    assert "takes {:.0f} % (50 %) and {:.0f} % (2:4) off".format(*shares) in text
    assert "SS falls by {:.1f} and {:.1f} points".format(*words) in text
    assert "{:.0f} and {:.0f} % of what it is above 50".format(*parts) in text
    assert (found.loc["debias-lora"].xs("lms", level="metric").method_low.astype(float) > 0).all()
    others = [
        f"{100 * float(found.loc[(method, regime, 'ss_others'), 'mean']):.1f}"
        for method in ("sparsegpt", "debias-lora")
        for regime in ("u50", "2of4")
    ]
    told = "have {} (50 %) and {} (2:4) with SparseGPT, {} and {} here"
    assert told.format(*others) in text
    readme = " ".join((repo / "README.md").read_text(encoding="utf-8").split())
    assert "({:.0f} and {:.0f} %; five seeds, all items)".format(*shares) in readme


def test_what_the_controls_show_is_in_their_rows():
    """docs/controls.csv has paired differences from SparseGPT."""
    controls = importlib.import_module("controls")
    rows, page = controls.read_rows(), controls.PAGE.read_text(encoding="utf-8")
    found = rows[rows.metric == "association"].set_index(["method", "calibration", "category"])
    here = found.xs((controls.CALIBRATION, ""), level=("calibration", "category"))
    plain = here.loc["sparsegpt", "pruned"]
    assert abs(here.loc["lora.none", "difference"]) < 0.2 * plain
    assert here.loc["lora.none", "p"] > 0.05
    turned = here.loc["lora.x-1"]
    z = turned.difference / ((turned.high - turned.low) / (2 * 1.96))
    text = " ".join(page.split())
    assert f"(z = {z:.1f})" in text
    assert turned.difference > 0.5 * plain
    assert f"association, {-100 * here.loc['lora.after', 'difference'] / plain:.0f} %" in text
    assert here.loc["debias-sparsegpt", "low"] > 0
    types = found.xs(controls.TYPES, level="calibration").loc["debias-lora"]
    shares = [
        -100 * types.loc[name].difference / types.loc[name].dense for name in ("race", "gender")
    ]
    assert "{:.0f} % for race and by {:.0f} % for gender".format(*shares) in text
    assert (types.loc[["race", "gender"], "p_holm"] < 0.05).all()


def test_the_other_machines_numbers_are_those_of_its_run(repo):
    """docs/demo-xeon.csv is the same command on the other machine that README names."""
    demo = importlib.import_module("demo")
    key = ["method", "metric"]
    here = demo.read_rows().set_index(key)
    there = pd.read_csv(repo / "docs/demo-xeon.csv").set_index(key)
    apart = (there["diff"] - here["diff"].astype(float)).abs()
    readme = " ".join((repo / "README.md").read_text(encoding="utf-8").split())
    points = 100 * apart[apart.index.isin([(m, s) for m in demo.METHODS for s in
        ("lms", "ss", "pct_stereotype")])].max()  # fmt: skip
    nats = apart[apart.index.isin([(m, s) for m in demo.METHODS for s in
        ("association", "signed_diff_shared")])].max()  # fmt: skip
    assert f"differences were up to {points:.1f} points and {nats:.2f} nats apart" in readme
    undecided = there.index[there.verdict == "no change shown"].tolist()
    assert [one for one in undecided if one[1] != "ss"] == [("sparsegpt", "association")]
