"""Every table of the paper, rendered from its printed numbers, is the printed one.

The other copy of the numbers, ``paper/tables.json`` of a mirror, was read from the paper apart from
``printed.csv`` and is no part of the project.
"""

import json

import pytest
from printed_run import PAPER_TABLES, printed_run

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
# Tables whose cells are numbers, but for that of speed, which needs files of measurements.
NUMERIC = [
    slug
    for slug in PAPER_TABLES
    if slug not in ("confidence", "efficiency", "models", "licences", "benchmarks", "methods")
]
# (label, row, column, what) -> why the printed table does not follow from its own numbers.
EXPECTED = {
    ("tab:debias-sparsegpt", "Vicuna-1.5-7B + Debias-SparseGPT (ours)", "BBQ", "bold"): (
        "the only bold score without a dagger in the three tables that have daggers: 37.90 is the "
        "best pruned value, by 0.10, but nothing says that it is significant"
    )
}


@pytest.fixture(scope="module")
def paper(shared):
    path = shared / "paper" / "tables.json"
    if not path.is_file():
        pytest.skip(f"no second copy of the paper's numbers at {path}")
    return json.loads(path.read_text(encoding="utf-8"))


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
    names = ("model", "method", "regime", "calibration")
    if "layer" in row.identity:
        names = ("model", "regime", "calibration", "layer", "module")
    return tuple(row.identity[name] for name in names)


def compare(table, printed, label, config, aliases):
    """Return {(label, row, column, what): (ours, printed)} of all that differs."""
    found = {}
    # One is ours, the paper leaves it out.
    columns = [one for one in table.columns if (table.slug, head(one)) != ("regimes", "DTO")]
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
    assert set(found) == {key for key in EXPECTED if key[0] == label}, found


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
