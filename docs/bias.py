"""bias.csv, the paper's experiments on a real model, from a run of config/smollm2.yaml.

python docs/bias.py results/smollm2
"""

import sys
from pathlib import Path

import pandas as pd
from pages import write

FOLDER = Path(__file__).resolve().parent
ROWS = FOLDER / "bias.csv"
REGIMES = {"50 %": "u50", "2:4": "2of4"}
MEASURES = {  # metric: its benchmark
    "ss": "stereoset",
    "pct_stereotype_shared": "crows_pairs",
    "pct_stereotype": "crows_pairs",
    "lms": "stereoset",
}
THREE = (0, 1, 2)
STRENGTHS = {
    "SparseGPT": "sparsegpt",
    "Debias-SparseGPT, b = 0.5": "debias.b0.5",
    "Debias-SparseGPT, b = 16": "debias.b16",
}
ALONE = {
    "magnitude": "magnitude",
    "Wanda": "wanda",
    "SparseGPT": "sparsegpt",
    "Debias-SparseGPT, b = 1": "debias-sparsegpt",
}


class Found:
    """The values of a run over all categories, and its paired differences."""

    def __init__(self, results: Path) -> None:
        values = pd.read_csv(results / "results.csv")
        self.values = values[values.category.isna()]
        self.paired = pd.read_csv(results / "significance.csv", dtype={"seed": str})

    def row(self, method, regime, calibration, seeds=(0,)) -> dict[str, str]:
        """Return a row of bias.csv; differences from SparseGPT where the run has paired ones."""
        at = {"method": method, "regime": regime, "calibration": calibration}
        mine = self.values[(self.values[list(at)] == pd.Series(at)).all(axis=1)]
        mine = mine[mine.seed.isin(seeds)]
        result = at | {"seeds": " ".join(map(str, seeds))}

        def mean(benchmark, metric):
            values = mine[(mine.benchmark == benchmark) & (mine.metric == metric)].value
            assert len(values) == len(seeds), (at, metric)
            return values.mean()

        result["ppl"] = f"{mean('prose', 'ppl'):.1f}"
        at |= {"seed": "mean" if len(seeds) > 1 else str(seeds[0]), "baseline": "sparsegpt"}
        for metric, benchmark in MEASURES.items():
            one = self.paired[(self.paired[list(at)] == pd.Series(at)).all(axis=1)]
            one = one[(one.benchmark == benchmark) & (one.metric == metric)]
            result[metric] = f"{100 * mean(benchmark, metric):.1f}"
            for end in ("low", "high"):
                there = method != "sparsegpt" and len(one)
                result[f"{metric}_{end}"] = f"{100 * one[end].iloc[0]:+.1f}" if there else ""
        return result


def paper(found: Found) -> dict[str, dict[str, dict]]:
    """Return the rows of each table by their labels."""
    of, tables = "ss-b256", {}
    for name, regime in REGIMES.items():
        rows = tables[f"256 texts {name}"] = {"dense": found.row("dense", "dense", "none")}
        for label in ("SparseGPT", "Debias-SparseGPT, b = 1"):
            rows[f"{label}, three seeds"] = found.row(ALONE[label], regime, of, THREE)
        rows |= {label: found.row(method, regime, of) for label, method in STRENGTHS.items()}
    for label, kind in (("shuffled partners", "shuffled"), ("random differences", "random")):
        rows[f"control: {label}"] = found.row("debias-sparsegpt", "2of4", f"{of}-{kind}")
    tables["pairs alone"] = {
        f"{label}, {name}": found.row(method, regime, "none" if method == "magnitude" else "ss")
        for name, regime in {"25 %": "u25", "50 %": "u50", "1:4": "1of4", "2:4": "2of4"}.items()
        for label, method in ALONE.items()
    }
    return tables


def main(results: Path) -> None:
    """Write bias.csv."""
    rows = pd.DataFrame(
        {"table": table, "label": label, **row}
        for table, labelled in paper(Found(results)).items()
        for label, row in labelled.items()
    )
    write(ROWS, rows.to_csv(index=False, lineterminator="\n"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
