"""The numbers of bias.md from a run of config/bias.yaml: bias.csv, and the table, printed.

python docs/bias.py results/bias
"""

import sys
from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parent
CALIBRATION = "ss-b64-cf4"
BENCHMARKS = {
    "ss": "stereoset",
    "pct_stereotype_shared": "crows_pairs",
    "pct_stereotype": "crows_pairs",
    "lms": "stereoset",
}
SEEDS = {"Debias-SparseGPT, b = 1": "debias-sparsegpt", "Debias-LoRA, association": "debias-lora"}
FRONTIER = {
    "Debias-SparseGPT, b = 16": "debias.b16",
    "Debias-Erase, λ = 1": "erase.l1",
    "Debias-Erase, λ = 4": "erase.l4",
    "association": "debias-lora",
    "association × 2": "lora.x2",
    "shared tokens": "lora.shared",
    "shared tokens × 2": "lora.shared.x2",
    "preference": "lora.pref",
    "preference × 2": "lora.pref.x2",
    "control: association × −1": "lora.x-1",
}


def row(found, paired, method, regime, calibration=CALIBRATION, seeds=(0,), base="sparsegpt"):
    """Return a row of bias.csv; differences from ``base`` where the run has paired ones."""
    at = {"method": method, "regime": regime, "calibration": calibration}
    mine = found[(found[list(at)] == pd.Series(at)).all(axis=1) & found.seed.isin(seeds)]
    result = at | {"seeds": " ".join(map(str, seeds))}

    def mean(benchmark, metric):
        values = mine[(mine.benchmark == benchmark) & (mine.metric == metric)].value
        assert len(values) == len(seeds), (at, metric)
        return values.mean()

    result["ppl"] = f"{mean('prose', 'ppl'):.1f}"
    at |= {"seed": "mean" if len(seeds) > 1 else str(seeds[0]), "baseline": base}
    for metric, benchmark in BENCHMARKS.items():
        one = paired[(paired[list(at)] == pd.Series(at)).all(axis=1)]
        one = one[(one.benchmark == benchmark) & (one.metric == metric)]
        result[metric] = f"{100 * mean(benchmark, metric):.1f}"
        for end in ("low", "high"):
            there = method != base and len(one)
            result[f"{metric}_{end}"] = f"{100 * one[end].iloc[0]:+.1f}" if there else ""
    return result


def main(results: Path) -> None:
    """Write bias.csv and print the table."""
    found = pd.read_csv(results / "results.csv")
    found = found[found.category.isna()]
    paired = pd.read_csv(results / "significance.csv", dtype={"seed": str})
    rows = {"dense": row(found, paired, "dense", "dense", "none")}
    for name, regime in (("50 %", "u50"), ("2:4", "2of4")):
        rows[f"SparseGPT, {name}"] = row(found, paired, "sparsegpt", regime, seeds=(0, 1, 2))
        for label, method in SEEDS.items():
            rows[f"{label}, {name}"] = row(found, paired, method, regime, seeds=(0, 1, 2))
        for label, method in {"SparseGPT": "sparsegpt", **FRONTIER}.items():
            rows[f"{label}, {name}, seed 0"] = row(found, paired, method, regime)
        label = f"control: foreign counterfactuals, {name}, seed 0"
        rows[label] = row(found, paired, "debias-lora", regime, f"{CALIBRATION}-shuffled")
    pd.DataFrame(rows.values()).to_csv(FOLDER / "bias.csv", index=False, lineterminator="\n")
    for label, one in rows.items():
        cells = [label, one["ppl"]]
        for metric in BENCHMARKS:
            low, high = one[f"{metric}_low"], one[f"{metric}_high"]
            cells.append(one[metric] + (f" [{low}, {high}]" if low else ""))
        print(f"| {' | '.join([cells[0], *(cell.replace('-', '−') for cell in cells[1:])])} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
