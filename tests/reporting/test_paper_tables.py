"""Every table of the paper, rendered from its printed numbers, is the printed one.

The other copy of the numbers, ``paper/tables.json`` of a mirror, was read from the paper apart from
``printed.csv`` and is no part of the project.
"""

import json
import re

import pytest
from printed_run import PAPER_TABLES, printed_run
from reporting_run import small_config

from evenprune.reporting.make_tables import build_table

REGIMES = {"dense": "dense", "0.25": "u25", "0.50": "u50", "1:4": "1of4", "2:4": "2of4"}
CALIBRATIONS = {
    None: "none",
    "StereoSet": "ss",
    **{f"StereoSet + UltraChat({n})": f"ss-uc{n}" for n in (4, 16, 64, 256, 1024)},
    **{
        f"StereoSet ({name.capitalize()}) + UltraChat(256)": f"ss.{name}-uc256"
        for name in ("gender", "race", "religion")
    },
    "CrowS-Pairs (All) + UltraChat(256)": "cp-uc256",
    "StereoSet (All) + UltraChat(256)": "ss-uc256",
    "StereoSet + UltraChat(256) (inferred from DTO)": "ss-uc256",
}
HEADS = {
    "UnQover.Avg": "UnQover.Avg.",
    "CO2 (kg/Mtok)": "CO₂ (kg/Mtok)",
    "RealToxicityPrompts unsafe rate": "RealToxicityPrompts",
    "HarmBench unsafe rate": "HarmBench",
    "2:4 Pattern Disagreement": "Pattern disagreement",
}
# Tables whose cells are numbers; the others are words and have tests of their own.
NUMERIC = [
    slug
    for slug in PAPER_TABLES
    if slug not in ("confidence", "models", "licences", "benchmarks", "methods")
]
# (label, row, column, what) -> why the printed table does not follow from its own numbers.
EXPECTED = {
    ("tab:debias-sparsegpt", "Vicuna-1.5-7B + Debias-SparseGPT (ours)", "BBQ", "bold"): (
        "the only bold score without a dagger in the three tables that have daggers: 37.90 is the "
        "best pruned value, by 0.10, but nothing says that it is significant"
    ),
}
# Columns of ours that the paper leaves out.
ADDED = {"regimes": ["DTO"]}


@pytest.fixture(scope="module")
def paper(shared):
    path = shared / "paper" / "tables.json"
    if not path.is_file():
        pytest.skip(f"no second copy of the paper's numbers at {path}")
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def source(shared):
    path = shared / "paper" / "paper.tex"
    if not path.is_file():
        pytest.skip(f"no text of the paper at {path}")
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def config(repo, tmp_path_factory):
    return small_config(repo, tmp_path_factory.mktemp("paper"), "paper.yaml")


def render(config, slug):
    return build_table(printed_run(config, slug), slug)


def head(column):
    return f"{column.span}.{column.head}" if column.span else column.head


def place(row, config, aliases):
    """What names a printed row, in our words."""
    if "layer" in row:
        return ("qwen2.5-7b-it", "2of4", "ss-uc256", str(row["layer"]), row["module"])
    hubs = {entry.hub: name for name, entry in config.models.items()}
    model, method = hubs[aliases[row["model"]]], row["method"].lower()
    if row["printed_name"] == "Diff.":
        return (model, method, "2of4", "ss-uc256 - ss")
    return (model, method, REGIMES[row["regime"]], CALIBRATIONS[row["calibration"]])


def our_place(row):
    identity = row.identity
    names = ("model", "regime", "calibration", "layer", "module")
    if "layer" not in identity:
        names = ("model", "method", "regime", "calibration")
    return tuple(identity[name] for name in names)


def compare(table, printed, label, config, aliases):
    """Return {(label, row, column, what): (ours, printed)} of all that differs."""
    found = {}
    columns = [column for column in table.columns if head(column) not in ADDED.get(table.slug, ())]
    heads = [HEADS.get(name, name) for name in printed["columns"]]
    if [head(column).lower() for column in columns] != [name.lower() for name in heads]:
        found[label, "", "", "columns"] = ([head(column) for column in columns], heads)
        return found
    rows = [row for row in table.rows if row.kind != "heading"]
    places = [our_place(row) for row in rows]
    wanted = [place(row, config, aliases) for row in printed["rows"]]
    if places != wanted:
        found[label, "", "", "rows"] = (places, wanted)
        return found
    for row, one in zip(rows, printed["rows"], strict=True):
        name = one["printed_name"].removeprefix("+ ")
        if one["printed_name"].startswith("+ "):
            name = f"{one['model']} + {name}"
        for column, key in zip(columns, printed["columns"], strict=True):
            ours, theirs = row.cells[column.key], one["values"][key]
            for what, mine, other in (
                ("value", ours.display.replace("−", "-"), theirs["s"]),
                ("bold", ours.bold, theirs["bold"]),
                ("dagger", ours.dagger, theirs["dagger"]),
            ):
                if mine != other:
                    found[label, name, key, what] = (mine, other)
    return found


@pytest.mark.parametrize("slug", NUMERIC)
def test_each_cell_bold_and_dagger_is_the_printed_one(config, paper, slug):
    label = PAPER_TABLES[slug]
    printed = paper["tables"][label]
    found = compare(render(config, slug), printed, label, config, paper["model_aliases"])
    expected = {key for key in EXPECTED if key[0] == label}
    assert set(found) == expected, found


def test_every_table_of_the_paper_is_one_of_ours(config, paper):
    assert set(paper["tables"]) <= set(PAPER_TABLES.values())
    assert set(PAPER_TABLES) <= set(config.tables)


def test_confidence_is_the_printed_one(config, paper):
    table = render(config, "confidence")
    names = ("Accuracy", *(f"{kind} ({part})" for kind in ("Confidence", "Entropy")
                           for part in ("Correct", "Wrong")))  # fmt: skip
    found = {
        (name, config.models[row.identity["model"]].hub): row.cells[column.key].display
        for row in table.rows
        for name, column in zip(names, table.columns, strict=True)
    }
    wanted = {}
    for row in paper["tables"]["tab:qwen_confidence"]["rows"]:
        (cell,) = row["values"].values()
        wanted[row["printed_name"], paper["model_aliases"][row["model"]]] = cell["s"]
        assert not cell["bold"]
        assert not cell["dagger"]
    assert found == wanted
    assert not any(cell.bold or cell.dagger for row in table.rows for cell in row.cells.values())


def test_models_have_the_printed_facts_under_their_kind(config, paper):
    rows = render(config, "models").rows
    yes = {"yes": "✓", "no": "×"}
    wanted = {
        row["values"]["Link"]["s"]: (
            row["values"]["Params"]["s"],
            yes[row["values"]["IT"]["s"]],
            yes[row["values"]["Multilingual"]["s"]],
        )
        for row in paper["tables"]["tab:models-overview-app"]["rows"]
    }
    assert {row.labels[4].removeprefix("hf.co/"): row.labels[1:4] for row in rows} == wanted
    # Instruction-tuned ones first, a line above the base models.
    tuned = [row.labels[2] for row in rows]
    assert tuned == sorted(tuned, reverse=True, key="×✓".index)
    assert [row.rule for row in rows] == [""] * 7 + ["full", ""]


def body(source, label):
    """The lines of a table of the paper's source, as lists of cells."""
    text = source[: source.index(rf"\label{{{label}}}")]
    text = text[text.rindex(r"\toprule") : text.rindex(r"\bottomrule")]
    lines = text.replace(r"\midrule", "").split(r"\\")
    return [[cell.strip() for cell in line.split("&")] for line in lines if "&" in line]


def test_licences_are_the_printed_ones(config, source):
    names = {
        "LLaMA-3.1-8B-IT": "llama3.1-8b-it", "Qwen-2.5-7B-IT": "qwen2.5-7b-it",
        "Vicuna-7B-v1.5-IT": "vicuna1.5-7b", "Aya-Expanse-8B": "aya-8b",
        "Gemma-2-9B-IT": "gemma2-9b-it", "Mistral-7B-v0.3-IT": "mistral0.3-7b-it",
        "Phi-4-Mini-IT": "phi4-mini-it", "Deepseek-LLM-7B (Base)": "deepseek-7b",
        "Qwen-3-8B (Base)": "qwen3-8b",
    }  # fmt: skip
    wanted = {names[model]: licence for model, licence in body(source, "tab:model-licenses")[1:]}
    rows = render(config, "licences").rows
    models = [row for row in rows if "model" in row.identity]
    assert {row.identity["model"]: row.labels[1] for row in models} == wanted


def test_methods_are_compared_as_printed(config, source):
    signs = {r"\tick": "✓", r"\cross": "×"}
    lines = body(source, "tab:pruning-comparison")
    wanted = {}
    for line in lines:
        name = re.sub(r".*\\textbf\{(.*)\}", r"\1", line[0], flags=re.DOTALL).split()[-1]
        if line[1] in signs:
            order = int(re.search(r"\{(\d)\}", line[5])[1]) if "^" in line[5] else 1
            wanted[name] = (*(signs[cell] for cell in line[1:4]), order)
    powers = {"O(1)": 1, "O(d²)": 2, "O(d³)": 3}
    rows = render(config, "methods").rows
    assert {row.labels[0]: (*row.labels[1:4], powers[row.labels[5]]) for row in rows} == wanted
    assert len(wanted) == 4


def test_benchmarks_have_the_printed_sizes_and_groups(config, paper):
    wanted = {
        row["printed_name"]: (row["values"]["Size"]["s"], row["values"]["Attributes"]["s"])
        for row in paper["tables"]["tab:fairness_benchmarks"]["rows"]
    }
    rows = render(config, "benchmarks").rows
    assert {row.labels[0]: row.labels[1:3] for row in rows} == wanted
