"""The commands of README.md as they stand, in a fresh copy: run, planned, or not run for a reason.

Those of the other pages are accepted by the program's parsers, and planned where they are
Snakemake's: the paths of somebody who prunes a model, reproduces the paper, or reviews it.
"""

import contextlib
import json
import re
import shlex
import shutil
from pathlib import Path

import controls
import demo
import pandas as pd
import prune_or_round
import pytest
import seeds
import yaml
from page_commands import START, called, commands, fresh_copy
from real_model import shortened, smollm2_folder

from evenprune.cli import main, parsers

PAGES = Path(__file__).parents[1] / "docs"
REGIMES = ("u50", "2of4")


def commands_of(pages):
    """Return the commands of pages, with lines that go on joined."""
    texts = [page.read_text(encoding="utf-8").replace("\\\n", " ") for page in pages]
    return list(dict.fromkeys(line for text in texts for line in commands(text)))


ALL = commands_of([PAGES.parent / "README.md"])
OF_OTHER_PAGES = commands_of(sorted(PAGES.glob("*.md")))
TUTORIAL = [line for line in commands_of([PAGES / "tutorial.md"]) if START.match(line)]
TUTORIAL = [line for line in TUTORIAL if line not in ("make env", "source .venv/bin/activate")]
NOT_RUN = {
    "snakemake --cores 1 all --report report.html": "shows a finished run",
    "snakemake finished --report report.html": "shows a finished run",
    "snakemake -n --configfile my.yaml": "of a configuration that the reader writes",
    "snakemake --cores all --configfile my.yaml": "of a configuration that the reader writes",
    "evenprune explain answer --cell "
    "smollm2-135m/debias-sparsegpt/2of4/ss.groups-b64-cf4/stereoset": "tests/workflow runs it",
    "evenprune evaluate --model pruned/debias --benchmark crows_pairs --limit 200 --out "
    "evals/debias": "the tutorial runs it",
    "evenprune compare smollm2-135m pruned/debias --benchmark stereoset --benchmark crows_pairs "
    "--limit 200": "the tutorial runs it with one model more",
    "evenprune gpu-check --out REPORT": "needs a GPU; tests/hardware runs it on a CPU",
}
# What takes long is planned (`-n`) instead: all names in it must be right, nothing is computed.
PLANNED = [line for line in dict.fromkeys([*ALL, *OF_OTHER_PAGES])
           if line.startswith(("make ", "snakemake ")) and line not in NOT_RUN]  # fmt: skip


def said(page):
    """The words of a page, however its lines break."""
    return " ".join(page.read_text(encoding="utf-8").split())


README = said(PAGES.parent / "README.md")


@pytest.fixture(scope="module")
def copy(repo, tmp_path_factory):
    return fresh_copy(repo, tmp_path_factory.mktemp("readme") / "evenprune")


def test_the_list_names_commands_of_the_pages_only():
    assert len(ALL) >= 15
    assert not {*NOT_RUN} - {*ALL, *OF_OTHER_PAGES}
    assert [line for line in ALL if not START.match(line)] == []


def test_every_command_of_every_page_is_accepted(repo):
    taken, targets = parsers(), re.findall(r"^([\w-]+):", (repo / "Makefile").read_text(), re.M)
    assert sum(line.startswith("evenprune ") for line in OF_OTHER_PAGES) >= 18
    for line in OF_OTHER_PAGES:
        program, *words = shlex.split(line)
        if program == "evenprune":
            taken[words[0]].parse_args(words[1:])
        elif program == "make":
            assert set(words) <= set(targets), line


def test_the_numbers_of_the_tour_are_those_of_its_run(repo):
    """docs/tour.csv is the run's tables/main.csv."""
    rows = pd.read_csv(repo / "docs/tour.csv", dtype=str).query("model == 'world'")
    names = ["wikitext2", "hellaswag", "mmlu", "unqover", "bbq", "crows_pairs", "dto"]
    page = (repo / "docs/tour.md").read_text()
    shown = [re.findall(r"(?<=\| )[\d.]+", line.replace("**", "")) for line in page.splitlines()]
    assert [line for line in shown if line] == rows[names].to_numpy().tolist()


@pytest.mark.slow
@pytest.mark.workflow
@pytest.mark.parametrize("command", PLANNED)
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
    left = [line for line in ALL if line not in (*PLANNED, *NOT_RUN, *TUTORIAL)]
    assert len(left) >= 2
    for line in left:
        called(shlex.split(line), copy)


def test_the_numbers_of_the_faq_are_those_of_its_run(repo):
    """docs/faq.csv has rows of the run's results.csv."""
    values = pd.read_csv(repo / "docs/faq.csv").value.to_numpy().reshape(-1, 3) * (1, 100, 100)
    expected = [[f"{value:.2f}" for value in row] for row in values]
    page = (repo / "docs/faq.md").read_text()
    shown = [re.findall(r"(?<=\| )\d+\.\d\d(?= \|)", line) for line in page.splitlines()]
    assert [line for line in shown if line] == expected


def test_the_numbers_of_the_world_are_those_of_its_run(repo):
    """docs/world.csv has the slopes and correlations of the run's report."""
    found = pd.read_csv(repo / "docs/world.csv").query("items == 'crows_pairs'").set_index("model")
    page = (repo / "docs/world.md").read_text()
    cells = {one.Index: f"{one.slope:.2f} ({one.r:.2f})" for one in found.itertuples()}
    for label, name in (("SparseGPT", "sparsegpt"), ("Debias-LoRA", "lora")):
        assert f"\n{label}|{cells[f'{name}-1of4']}|{cells[f'{name}-2of4']}|" in page
    left = (100 * found.slope[f"lora-{k}of4"] / found.slope[f"sparsegpt-{k}of4"] for k in (1, 2))
    assert "{:.0f} % (1:4) and {:.0f} % (2:4)".format(*(100 - one for one in left)) in page


@pytest.mark.parametrize(
    ("module", "words"),
    [(seeds, (name,)) for name in ("adapters", "forms")]
    + [(one, ()) for one in (demo, seeds, controls, prune_or_round)],
)
def test_the_tables_of_a_page_are_those_of_its_file(module, words):
    """docs/NAME.csv has rows of a run's results.csv and significance.csv."""
    page = (module.README if module is demo else module.PAGE).read_text(encoding="utf-8")
    given = words if module is seeds else (module.read_rows(),)
    assert module.filled(page, *given) == page


def test_what_the_readme_says_of_a_real_model_is_what_its_run_found():
    rows = demo.read_rows()
    assert len(rows) == len(demo.METHODS) * len(demo.MEASURES)
    assert "On no measure is a pruned model shown to be less fair" in README
    assert "less fair" not in set(rows.verdict)
    assert "nearer to no preference on two, two and three of four measures" in README
    for method, counted in zip(demo.METHODS, (2, 2, 3), strict=True):
        mine = rows[rows.method == method]
        bias = mine[mine.kind == "bias"]
        assert (bias.verdict == "fairer, ability lost").sum() == counted
        assert (mine[mine.kind == "ability"].verdict == "worse").all()
        # At least half of a model's rows are decided, and each other one says what it would see.
        open_rows = mine[mine.verdict.str.contains("no change|moved")]
        assert len(open_rows) <= len(mine) / 2
        assert (open_rows.detectable != "").all()


def test_the_verdict_on_the_papers_term_is_that_of_its_run():
    """docs/seeds.csv has the means and paired differences over five seeds."""
    rows = seeds.read_rows()
    assert all(len(one.split()) == 5 for one in rows.seeds[rows.method != "dense"])
    found = rows.set_index(["metric", "method", "regime"])
    points = ("dense", "dense"), ("sparsegpt", "u50"), ("sparsegpt", "2of4")
    means = [float(found.loc[("association", *point), "mean"]) for point in points]
    assert "from {:.2f} nats to {:.2f} at 50 % and to {:.2f} at 2:4".format(*means) in README
    words = []
    for regime in REGIMES:
        term = found.loc["association", "debias-sparsegpt", regime]
        three = (float(term[f"method_{name}"]) for name in ("diff", "low", "high"))
        words.append("{:+.2f} [{:+.2f}, {:+.2f}]".format(*three).replace("-", "−"))
        assert term.method_verdict == "no change shown"
        assert f"{float(term.method_detectable):.2f}" == "0.03"
    assert f"{words[0]} and {words[1]} nats" in README
    rise = found.loc["ss", "debias-sparsegpt", "u50"]
    assert rise.method_verdict == "equally fair within margin"
    assert float(rise.method_low) > 0


def adapters_of(name):
    """What Debias-LoRA changes: share of association, ratio of perplexity, SS, its part, others."""
    found = seeds.read_rows(name).set_index(["method", "regime", "metric"]).sort_index()
    for regime in REGIMES:
        one, plain = (found.loc[method, regime] for method in ("debias-lora", "sparsegpt"))
        assert all(len(values.split()) == 5 for values in one.seeds)
        tested = one.loc[["association", "ss", "lms", "ppl"]]
        assert (tested.method_p_holm.astype(float) < 0.05).all()
        assert list(tested.method_verdict[["lms", "ppl"]]) == ["better", "better"]
        tie, fall, lms, ratio = tested.method_diff.astype(float)
        share = -100 * tie / float(plain["mean"].association)
        part = -100 * fall / (float(plain["mean"].ss) - 0.5)
        others = [100 * float(row["mean"].ss_others) for row in (plain, one)]
        yield share, ratio, 100 * lms, -100 * fall, part, *others


def test_the_verdict_on_adapters_is_that_of_its_runs():
    """docs/adapters.csv, and docs/adapters-epyc.csv of the same on another processor."""
    shares, ratios, _, falls, parts, before, after = zip(*adapters_of("adapters"), strict=True)
    less, page = [100 * (1 - ratio) for ratio in ratios], said(seeds.PAGE)
    for text in (page, README):
        assert "takes {:.0f} % (50 %) and {:.0f} % (2:4) off".format(*shares) in text
        assert "perplexity is {:.0f} and {:.0f} % lower".format(*less) in text
    assert "falls by {:.1f} and {:.1f} points, {:.0f} and {:.0f} %".format(*falls, *parts) in page
    assert "{:.1f} and {:.1f} with SparseGPT, {:.1f} and {:.1f}".format(*before, *after) in page
    shares, ratios, lms, _, parts, *_ = zip(*adapters_of("adapters-epyc"), strict=True)
    assert "−{:.0f} and −{:.0f} % of association, −{:.0f} and".format(*shares, *parts) in page
    assert "LMS +{:.1f} and +{:.1f}, perplexity × {:.3f} and × {:.3f}".format(*lms, *ratios) in page

    forms = seeds.read_rows("forms").set_index(["metric", "method"]).loc["signed_diff_shared"]
    half, other = (forms[forms.regime == regime].loc["debias-lora"] for regime in REGIMES[::-1])
    assert float(half.method_p_holm) < 0.05 < float(other.method_p_holm)
    plain = float(forms[forms.regime == half.regime].loc["sparsegpt"]["mean"])
    assert -float(half.method_diff) / plain == pytest.approx(0.4, abs=0.05)
    assert "the lead of CrowS-Pairs, on which it was not trained, falls by two fifths" in README


def test_what_the_controls_show_is_in_their_rows():
    """docs/controls.csv has paired differences from SparseGPT."""
    rows, text = controls.read_rows(), said(controls.PAGE)
    unpruned = rows[(rows.regime == "dense") & (rows.method == "debias-lora")].set_index("metric")
    ratio, tie = unpruned.loc["ppl"], unpruned.loc["association"]
    cost = 100 * (ratio.difference - 1)
    assert f"takes off {-100 * tie.difference / tie.dense:.0f} % for {cost:.0f} % of" in README
    assert "(× {:.3f} [{:.3f}, {:.3f}])".format(*ratio[["difference", "low", "high"]]) in text
    keys = ["calibration", "category", "metric", "method"]
    rows = rows[rows.regime == "u50"].set_index(keys).sort_index()
    here, tie = (rows.loc[controls.CALIBRATION, ""].loc[one] for one in ("ppl", "association"))
    less, lms = 100 * (1 - here.difference), rows.loc[controls.CALIBRATION, "", "lms"].difference
    shares = tie.difference / tie.pruned["sparsegpt"]
    z = 2 * 1.96 * tie.difference / (tie.high - tie.low)
    assert f"Mending alone raises association by {100 * shares['lora.none']:.0f} %" in text
    assert 0.9 < shares["lora.x-1"] < 1
    assert f"nearly doubles it (z = {z['lora.x-1']:.1f})" in text
    assert f"takes off {less['lora.none']:.0f} % of perplexity" in text
    assert f"mending alone: {less['lora.none']:.0f} %" in README
    assert f"without it LMS falls by {-100 * lms['lora.no-keep']:.1f} points" in text
    budgets = ["lora.b01", "debias-lora", "lora.b20"]
    assert tie.difference[budgets].std() < 0.005
    assert "perplexity is {:.0f}, {:.0f} and {:.0f} % lower".format(*less[budgets]) in text
    types = rows.loc[controls.TYPES].xs("association", level="metric").loc[["race", "gender"]]
    shares = -100 * types.difference / types.dense
    assert "{:.0f} % for race and by {:.0f} % for gender".format(*shares) in text
    assert (types.p_holm < 0.05).all()
    foreign = rows.loc[f"{controls.CALIBRATION}-shuffled", ""].xs("lora.free", level="method")
    shares = -100 * foreign.difference / foreign.dense, -100 * tie.difference / tie.pruned.sparsegpt
    cost, own = 100 * (foreign.difference.ppl - 1), shares[1]["lora.free"]
    words = f"{shares[0].association:.0f} % of association for {cost:.0f} % of perplexity, the"
    assert f"take off {words} pair's own {own:.0f} % for none" in text


# The commands of docs/tutorial.md, on the first blocks of the real model


def test_no_command_of_the_tutorial_has_a_placeholder():
    assert len(TUTORIAL) >= 7
    assert not [line for line in TUTORIAL if any(word.isupper() for word in shlex.split(line))]


def in_process(words, folder, capsys):
    """Run one of this package's commands here, any other one by itself; return what it printed."""
    if words[0] != "evenprune":
        return called(words, folder)
    with contextlib.chdir(folder):
        assert main(words[1:]) == 0, words
    return capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_tutorial_runs_as_it_stands(repo, tmp_path, capsys):
    # Skips without a package index.
    short = shortened(smollm2_folder(), tmp_path / "short", blocks=2)
    folder = fresh_copy(repo, tmp_path / "evenprune")
    # The same names and commands in little time: two blocks, few texts and pairs, one in ten of
    # the questions. `make demo` has the whole model.
    catalogue = folder / "config/catalogue.yaml"
    entries = yaml.safe_load(catalogue.read_text())
    entries["models"]["smollm2-135m"] = {"path": str(short), "label": "SmolLM2"}
    entries["calibrations"]["ss.groups-b64-cf4"] |= {"n_texts": 4, "categories": ["religion"]}
    catalogue.write_text(yaml.safe_dump(entries, sort_keys=False))
    lines = [line.replace("--limit 200", "--limit 20") for line in TUTORIAL]
    said = {line: in_process(shlex.split(line), folder, capsys) for line in lines}
    pruning = [text for line, text in said.items() if line.startswith("evenprune prune ")]
    assert len(pruning) == 2
    assert all("\nnext: evenprune compare " in text for text in pruning)
    for name in ("sparsegpt", "debias"):
        manifest = json.loads((folder / f"pruned/{name}/manifest.json").read_text())
        assert manifest["base"]["weights"] == "4-bit weights (Q4_1), de-quantised"
        assert manifest["sparsity"] == pytest.approx(0.5, abs=1e-6)
        assert "4-bit weights" in (folder / f"pruned/{name}/README.md").read_text()
    assert len((folder / "evals/debias/items.jsonl").read_text().splitlines()) == 20
    found = json.loads((folder / "comparison/comparison.json").read_text())
    assert [block["pruned"] for block in found["blocks"]] == ["pruned/sparsegpt", "pruned/debias"]
    assert {row["benchmark"] for row in found["blocks"][0]["rows"]} == {"stereoset", "crows_pairs"}
    assert {one["benchmark"] for one in found["blocks"][0]["moved"]} == {"stereoset", "crows_pairs"}
    shutil.rmtree(folder)
