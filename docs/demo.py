"""Write README.md's table and figure from a finished run of the default configuration.

python docs/demo.py results

Writes docs/demo.csv (what the run says of each measure of each pruned model), the table of README.md
from it, and docs/pictures/answer.svg.
"""

import shutil
import sys
from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parent
README, ROWS = FOLDER.parent / "README.md", FOLDER / "demo.csv"
PICTURE = FOLDER / "pictures/answer.svg"
BEGIN, END = "<!-- demo -->\n", "<!-- end of demo -->\n"
POINT = ["method", "regime"]
KEPT = [
    *POINT, "benchmark", "metric", "n", "dense", "pruned", "form", "diff", "family_low",
    "family_high", "p_holm", "detectable", "detectable_better", "kind", "verdict", "reason",
]  # fmt: skip
METHODS = {"sparsegpt": "SparseGPT", "debias-sparsegpt": "Debias-SparseGPT"}
REGIMES = {"u50": "50 %", "2of4": "2:4"}
MEASURES = {
    ("prose", "ppl"): ("perplexity", 1, 1),
    ("stereoset", "lms"): ("LMS", 100, 1),
    ("stereoset", "association"): ("association (nats)", 1, 2),
    ("stereoset", "ss"): ("StereoSet SS", 100, 1),
    ("crows_pairs", "pct_stereotype"): ("CrowS-Pairs", 100, 1),
}


def read_run(results: Path) -> pd.DataFrame:
    """Return a row for each compared measure of each pruned model, with both values."""
    values = pd.read_csv(results / "results.csv", keep_default_na=False)
    values = values[values.category == ""].set_index([*POINT, "benchmark", "metric"]).value
    tests = pd.read_csv(results / "significance.csv", keep_default_na=False)
    rows = tests[(tests.against == "dense") & (tests.verdict != "")].copy()
    keys = list(zip(rows.method, rows.regime, rows.benchmark, rows.metric, strict=True))
    rows["pruned"] = [values[key] for key in keys]
    rows["dense"] = [values["dense", "dense", *key[2:]] for key in keys]
    return rows[KEPT]


def read_rows() -> pd.DataFrame:
    """Return demo.csv, all as text."""
    return pd.read_csv(ROWS, dtype=str, keep_default_na=False)


def table(rows: pd.DataFrame) -> str:
    """Return the table: values of the dense model, differences with intervals and verdicts."""
    heads = [name for name, *_ in MEASURES.values()]
    lines = [f"| | {' | '.join(heads)} |", "| --- |" + " ---: |" * len(heads)]
    found = rows.set_index([*POINT, "benchmark", "metric"])
    dense = []
    for key, (_, scale, digits) in MEASURES.items():
        value = float(rows[(rows.benchmark == key[0]) & (rows.metric == key[1])].dense.iloc[0])
        dense.append(f"{scale * value:.{digits}f}")
    lines.append(f"| dense | {' | '.join(dense)} |")
    for regime, sparsity in REGIMES.items():
        for method, label in METHODS.items():
            cells = [
                cell(found.loc[(method, regime, *key)], scale, digits)
                for key, (_, scale, digits) in MEASURES.items()
            ]
            lines.append(f"| {label}, {sparsity} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def cell(row: pd.Series, scale: float, digits: int) -> str:
    """Return a difference with its interval and verdict; what it could have seen if undecided."""
    names = ("diff", "family_low", "family_high")
    if row.form == "ratio":
        value, low, high = (f"{float(row[name]):.2f}" for name in names)
        value = f"× {value}"
    else:
        value, low, high = (f"{scale * float(row[name]):+.{digits}f}" for name in names)
    verdict = row.verdict
    if verdict == "no change shown":
        verdict += f" (could have seen {scale * float(row.detectable):.{digits}f})"
    return f"{value} [{low}, {high}] {verdict}".replace("-", "−")


def filled(page: str, rows: pd.DataFrame) -> str:
    """Return README.md with the table of these rows."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table(rows)}\n{END}{after}"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    read_run(folder).to_csv(ROWS, index=False, lineterminator="\n")
    shutil.copy(folder / "figures/answer.svg", PICTURE)
    README.write_text(filled(README.read_text(encoding="utf-8"), read_rows()), encoding="utf-8")
