"""controls.csv, two tables of bias.md and the picture, from a finished run of config/bias.yaml.

python docs/controls.py results/bias
"""

import sys
from pathlib import Path

import demo
import pandas as pd
from matplotlib import pyplot as plt
from pages import between, write

import evenprune
from evenprune.comparison.differences import Tested, compare_results, judged
from evenprune.reporting.figures import STYLE

FOLDER = Path(__file__).resolve().parent
ROWS, PAGE = FOLDER / "controls.csv", FOLDER / "bias.md"
PICTURE = FOLDER / "pictures/bias.svg"
BENCHMARKS = ("prose", "stereoset")
CALIBRATION, PLAIN = "ss-b64-cf4", "sparsegpt"
REGIMES = {"u50": "50 %", "2of4": "2:4"}
DENSE = ("dense", "dense", "none")
TYPES = "ss.profession-b64-cf4"  # a calibration on profession alone
METHODS = {
    "SparseGPT": PLAIN,
    "Debias-LoRA": "debias-lora",
    "Debias-LoRA, budget 0.01": "lora.b01",
    "Debias-LoRA, budget 0.2": "lora.b20",
    "Debias-LoRA × 0.5": "lora.x0.5",
    "without the keep term": "lora.no-keep",
    "without it, budget 0.2": "lora.free",
    "control: mending alone": "lora.none",
    "control: the change reversed": "lora.x-1",
    "control: fine-tuning on the same sentences": "lora.language",
    "Debias-SparseGPT, b = 1": "debias-sparsegpt",
    "Debias-SparseGPT, b = 4": "debias.b4",
    "Debias-SparseGPT, b = 16": "debias.b16",
}
STRENGTHS = ("lora.x0.5", "lora.b01", "lora.b20", "debias.b4", "debias.b16")  # in the picture
FOREIGN = "control: groups of other pairs"
MEASURES = {  # of a metric: its name, factor and decimals
    "ppl": ("perplexity of prose", 1, 3),
    "lms": ("StereoSet LMS, %", 100, 1),
    "association": ("association, nats", 1, 3),
    "ss": ("StereoSet SS, %", 100, 1),
}
POINT = ["method", "regime", "calibration"]
KEPT = ["metric", "category", "n", "dense", "pruned", "difference", "low", "high", "p", "p_holm"]


def read_run(results: Path) -> pd.DataFrame:
    """Return a row a method, regime, measure and bias type: its difference from SparseGPT, or,
    where nothing is pruned, from the model itself."""
    (evals,) = results.glob("evals/*")

    def compared(label: str, method: str, regime: str, calibration: str) -> pd.DataFrame:
        two = evals / method / regime / calibration / "s0"
        plain = Path(PLAIN, regime, calibration.removesuffix("-shuffled"))
        if regime == "dense":  # the model itself shows its values beside one that is pruned
            plain = Path(PLAIN, "u50", CALIBRATION) if method == "dense" else Path(*DENSE)
        one = evals / plain / "s0"
        if calibration == TYPES:
            (block,) = evenprune.compare(one, two).blocks
            rows = pd.DataFrame(map(vars, [*block.rows, *block.categories]))
        else:
            names, tested = (plain.parts[0], method), list[Tested]()
            for task in BENCHMARKS:
                tested += compare_results(task, (one / task, two / task), names, False).tested
            rows = pd.DataFrame(map(vars, judged(tested))).assign(category="")
        found = rows[rows.metric.isin(MEASURES)][KEPT]
        return found.assign(label=label, method=method, regime=regime, calibration=calibration)

    asked = [("the model itself", *DENSE), ("Debias-LoRA", "debias-lora", "dense", CALIBRATION)]
    asked += [(*one, regime, CALIBRATION) for regime in REGIMES for one in METHODS.items()]
    foreign = {FOREIGN: "debias-lora", f"{FOREIGN}, no keep term, budget 0.2": "lora.free"}
    asked += [(*one, "u50", f"{CALIBRATION}-shuffled") for one in foreign.items()]
    asked += [("profession alone", "debias-lora", "u50", TYPES)]
    both = [
        compared(*one) for one in asked if (evals.joinpath(*one[1:]) / "s0/summary.json").is_file()
    ]
    return pd.concat(both)[["label", *POINT, *KEPT]]


def read_rows() -> pd.DataFrame:
    """Return controls.csv."""
    return pd.read_csv(ROWS).fillna({"category": ""})


def cell(row: pd.Series) -> str:
    """Return a difference with its 95 % interval; of a perplexity, a ratio."""
    _, factor, digits = MEASURES[row.metric]
    form = "{:.3f}" if row.metric == "ppl" else f"{{:+.{digits}f}}"
    value, low, high = (form.format(factor * row[name]) for name in ("difference", "low", "high"))
    sign = "× " if row.metric == "ppl" else ""
    if pd.isna(row.low):
        return f"{sign}{value}".replace("-", "−")
    return f"{sign}{value} [{low},\u00a0{high}]".replace("-", "−")


def methods(rows: pd.DataFrame) -> str:
    """Return a line for SparseGPT's values and one for each method's differences from them."""
    rows = rows[(rows.category == "") & (rows.calibration != TYPES)]
    rows = rows[~rows.method.isin(STRENGTHS)]
    lines = [
        f"| | {' | '.join(name for name, *_ in MEASURES.values())} |",
        "| --- |" + " ---: |" * 4,
    ]
    for regime, called in (REGIMES | {"dense": "nothing pruned"}).items():
        for label, own in rows[rows.regime == regime].groupby("label", sort=False):
            mine = own.set_index("metric", drop=False)
            if own.method.iloc[0] in (PLAIN, "dense"):
                cells = [
                    f"{factor * mine.loc[metric].pruned:.{min(digits, 3 - (metric == 'ppl') * 2)}f}"
                    for metric, (_, factor, digits) in MEASURES.items()
                ]
            else:
                cells = [cell(mine.loc[metric]) for metric in MEASURES]
            lines.append(f"| {label}, {called} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def types(rows: pd.DataFrame) -> str:
    """Return a line for each bias type where training saw pairs about profession alone."""
    rows = rows[(rows.category != "") & (rows.calibration == TYPES)]
    heads = ["| bias type | association, SparseGPT | change | StereoSet SS, % |"]
    lines = [*heads, "| --- | ---: | ---: | ---: |"]
    for name, own in rows.groupby("category"):
        mine = own.set_index("metric", drop=False)
        one = mine.loc["association"]
        lines.append(f"| {name} | {one.dense:.3f} | {cell(one)} | {cell(mine.loc['ss'])} |")
    return "\n".join(lines) + "\n"


LINES = {  # of the picture: its methods from weak to strong, and their sign
    "dense": (["dense"], "k*"),
    "Debias-LoRA × 0.5, 1": ([PLAIN, "lora.x0.5", "debias-lora"], "C0o-"),
    "budgets 0.01, 0.2": (["lora.b01", "lora.b20"], "C0D"),
    "Debias-SparseGPT, b = 1, 4, 16": (
        [PLAIN, "debias-sparsegpt", "debias.b4", "debias.b16"],
        "C1^-",
    ),
    "mending alone": (["lora.none"], "C2x"),
    "SparseGPT": ([PLAIN], "ks"),
}


def draw(rows: pd.DataFrame) -> None:
    """Draw association, SS and LMS over perplexity at 50 %: a line a method, over its strength."""
    rows = rows[
        (rows.regime == "u50") & (rows.calibration == CALIBRATION) | (rows.method == "dense")
    ]
    found = rows[rows.category == ""].set_index(["metric", "method"]).pruned
    plt.style.use(STYLE)
    figure, axes = plt.subplots(1, 3, figsize=(7.2, 2.8))
    for axis, metric in zip(axes, ("association", "ss", "lms"), strict=True):
        name, factor, _ = MEASURES[metric]
        for label, (chosen, sign) in LINES.items():
            axis.plot(found["ppl"][chosen], factor * found[metric][chosen], sign, label=label)
        axis.set(xlabel="perplexity of prose", title=name)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    figure.savefig(PICTURE, metadata={"Date": None})


TABLES = {"methods": methods, "types": types}


def filled(page: str, rows: pd.DataFrame) -> str:
    """Return the page with its tables anew."""
    for name, made in TABLES.items():
        begin = f"<!-- {name} of docs/controls.py -->\n"
        page = between(page, begin, demo.END, f"\n{made(rows)}\n")
    return page


if __name__ == "__main__":
    read_run(Path(sys.argv[1])).to_csv(ROWS, index=False, lineterminator="\n")
    write(PAGE, filled(PAGE.read_text(encoding="utf-8"), read_rows()))
    draw(read_rows())
