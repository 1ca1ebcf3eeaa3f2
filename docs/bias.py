"""The numbers of bias.md: bias.csv, and the tables, printed.

From runs of config/bias.yaml and config/smollm2.yaml:

python docs/bias.py results/bias results/smollm2
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
    "control: shared tokens × −1": "lora.shared.x-1",
    "control: preference × −1": "lora.pref.x-1",
}

ALL = (0, 1, 2)
ALONE = {
    "magnitude": "magnitude",
    "Wanda": "wanda",
    "SparseGPT": "sparsegpt",
    "Debias-SparseGPT, b = 1": "debias-sparsegpt",
}
GRID = (
    ("SparseGPT, 256 texts", "sparsegpt", "ss-b256", ALL),
    ("Debias-SparseGPT, b = 1, 256 texts", "debias-sparsegpt", "ss-b256", ALL),
    ("SparseGPT, 256 texts", "sparsegpt", "ss-b256", (0,)),
    ("Debias-SparseGPT, b = 0.5, 256 texts", "debias.b0.5", "ss-b256", (0,)),
    ("Debias-SparseGPT, b = 1, 256 texts", "debias-sparsegpt", "ss-b256", (0,)),
    ("Debias-SparseGPT, b = 16, 256 texts", "debias.b16", "ss-b256", (0,)),
)


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


def lowering(results: Path) -> dict[str, dict]:
    """Return the rows of config/bias.yaml by label: what lowers bias."""
    found, paired = read(results)
    rows = {"dense": row(found, paired, "dense", "dense", "none")}
    for name, regime in (("50 %", "u50"), ("2:4", "2of4")):
        rows[f"SparseGPT, {name}"] = row(found, paired, "sparsegpt", regime, seeds=ALL)
        for label, method in SEEDS.items():
            rows[f"{label}, {name}"] = row(found, paired, method, regime, seeds=ALL)
        for label, method in {"SparseGPT": "sparsegpt", **FRONTIER}.items():
            rows[f"{label}, {name}, seed 0"] = row(found, paired, method, regime)
        label = f"control: foreign counterfactuals, {name}, seed 0"
        rows[label] = row(found, paired, "debias-lora", regime, f"{CALIBRATION}-shuffled")
    return rows


def paper(results: Path) -> dict[str, dict]:
    """Return the rows of config/smollm2.yaml by label: the paper's experiments."""
    found, paired = read(results)
    rows = {"dense": row(found, paired, "dense", "dense", "none")}
    for name, regime in (("50 %", "u50"), ("2:4", "2of4")):
        for label, method, calibration, seeds in GRID:
            label = f"{label}, {name}" + ("" if len(seeds) > 1 else ", seed 0")
            rows[label] = row(found, paired, method, regime, calibration, seeds)
    for label, kind in (("shuffled partners", "shuffled"), ("random differences", "random")):
        calibration = f"ss-b256-{kind}"
        label = f"control: {label}, 256 texts, 2:4, seed 0"
        rows[label] = row(found, paired, "debias-sparsegpt", "2of4", calibration)
    for name, regime in (("25 %", "u25"), ("50 %", "u50"), ("1:4", "1of4"), ("2:4", "2of4")):
        for label, method in ALONE.items():
            calibration = "none" if method == "magnitude" else "ss"
            label = f"{label}, pairs alone, {name}, seed 0"
            rows[label] = row(found, paired, method, regime, calibration)
    return rows


def read(results: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the values of a run over all categories, and its paired differences."""
    found = pd.read_csv(results / "results.csv")
    paired = pd.read_csv(results / "significance.csv", dtype={"seed": str})
    return found[found.category.isna()], paired


def main(bias: Path, grid: Path) -> None:
    """Write bias.csv and print the two tables."""
    tables = {"config/bias.yaml": lowering(bias), "config/smollm2.yaml": paper(grid)}
    lines = [{"run": name} | one for name, rows in tables.items() for one in rows.values()]
    pd.DataFrame(lines).to_csv(FOLDER / "bias.csv", index=False, lineterminator="\n")
    for rows in tables.values():
        for label, one in rows.items():
            cells = [one["ppl"]]
            for metric in BENCHMARKS:
                low, high = one[f"{metric}_low"], one[f"{metric}_high"]
                cells.append(one[metric] + (f" [{low}, {high}]" if low else ""))
            print(f"| {' | '.join([label, *(cell.replace('-', '−') for cell in cells)])} |")
        print()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
