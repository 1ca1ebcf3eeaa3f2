"""README.md's table and picture, and demo.csv, from a finished run of the default configuration.

python docs/demo.py results
"""

import shutil
import sys
from pathlib import Path

import pandas as pd
from pages import between, write

FOLDER = Path(__file__).resolve().parent
README, ROWS = FOLDER.parent / "README.md", FOLDER / "demo.csv"
PICTURE = FOLDER / "pictures/answer.svg"
BEGIN, END = "<!-- table of docs/demo.py -->\n", "<!-- end of table -->\n"
POINT = ["method", "regime"]
KEPT = [
    *POINT, "benchmark", "metric", "n", "dense", "pruned", "form", "diff", "family_low",
    "family_high", "p_holm", "detectable", "detectable_better", "kind", "verdict",
]  # fmt: skip
METHODS = {
    "sparsegpt": "SparseGPT, 2:4",
    "debias-sparsegpt": "Debias-SparseGPT, 2:4",
    "debias-lora": "Debias-LoRA, 2:4",
}
MEASURES = {  # its name, factor and decimals
    ("prose", "ppl"): ("perplexity of prose", 1, 1),
    ("stereoset", "lms"): ("StereoSet LMS, %", 100, 1),
    ("stereoset", "association"): ("StereoSet association, nats", 1, 2),
    ("stereoset", "ss"): ("StereoSet SS, %", 100, 1),
    ("crows_pairs", "signed_diff_shared"): ("CrowS-Pairs lead, nats", 1, 2),
    ("crows_pairs", "pct_stereotype"): ("CrowS-Pairs share, %", 100, 1),
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


def cell(row: pd.Series, factor: float, digits: int) -> str:
    """Return a difference with its interval and verdict; what it could have seen if undecided."""
    names = ("diff", "family_low", "family_high")
    if row.form == "ratio":
        value, low, high = (f"{float(row[name]):.2f}" for name in names)
        value = f"× {value}"
    else:
        value, low, high = (f"{factor * float(row[name]):+.{digits}f}" for name in names)
    words = f"{value} [{low}, {high}] {row.verdict}"
    if row.verdict == "no change shown":
        words += f" (could have seen {factor * float(row.detectable):.{digits}f})"
    return words.replace("-", "−")


def table(rows: pd.DataFrame) -> str:
    """Return a row a measure: the dense model's value, the difference of each pruned model."""
    found = rows.set_index(["method", "benchmark", "metric"])
    lines = [
        f"| | dense | {' | '.join(METHODS.values())} |",
        "| --- | ---: |" + " ---: |" * len(METHODS),
    ]
    for key, (name, factor, digits) in MEASURES.items():
        mine = [found.loc[(method, *key)] for method in METHODS]
        cells = [f"{factor * float(mine[0].dense):.{digits}f}"]
        cells += [cell(row, factor, digits) for row in mine]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def filled(page: str, rows: pd.DataFrame) -> str:
    """Return README.md with the table of these rows."""
    return between(page, BEGIN, END, f"\n{table(rows)}\n")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    read_run(folder).to_csv(ROWS, index=False, lineterminator="\n")
    shutil.copy(folder / "figures/answer.svg", PICTURE)
    write(README, filled(README.read_text(encoding="utf-8"), read_rows()))
