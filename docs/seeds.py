"""seeds.csv, adapters.csv or forms.csv and its table in bias.md, from a finished run.

python docs/seeds.py results/bias             # the paper's term over five seeds
python docs/seeds.py results/bias adapters    # Debias-LoRA
python docs/seeds.py results/bias forms       # Debias-LoRA on other forms of questions
"""

import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import demo
import pandas as pd
from pages import between, write

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER / "bias.md"
BEGIN = "<!-- {} of docs/seeds.py -->\n"
POINT, MEASURE = ["method", "regime"], ["benchmark", "metric"]
TESTED = [
    "diff", "low", "high", "p", "p_holm", "low_fixed", "high_fixed", "p_fixed", "detectable",
    "form", "verdict",
]  # fmt: skip
Measures = Mapping[tuple[str, str], tuple[str, int, int]]
MEASURES: Measures = demo.MEASURES | {
    ("stereoset", "association"): ("StereoSet association, nats", 1, 3),
    ("mmlu-cloze", "acc"): ("MMLU by text, %", 100, 1),
    ("bbq-letter", "acc_all"): ("BBQ by letter, % right", 100, 1),
}
FORMS: Measures = {
    **{key: value for key, value in demo.MEASURES.items() if key[0] in ("prose", "crows_pairs")},
    ("bbq-text", "margin_dis_text"): ("BBQ by text: lead of the right person, nats", 1, 3),
    ("bbq-text", "lean_amb_text"): ("BBQ by text: lead of the stereotyped person, nats", 1, 3),
    ("unqover-names", "bias_names"): ("UnQover by names: bias", 1, 3),
}
ADAPTERS: Measures = {key: value for key, value in MEASURES.items() if key[0] != "crows_pairs"}
# Name of a table -> the method, what it is called, and the measures
TABLES = {
    "seeds": ("debias-sparsegpt", "Debias-SparseGPT", MEASURES),
    "adapters": ("debias-lora", "Debias-LoRA", ADAPTERS),
    "forms": ("debias-lora", "Debias-LoRA", FORMS),
}
CALIBRATIONS = ("none", "ss-b64-cf4")
REGIMES = {"u50": "50 %", "2of4": "2:4"}


def read_run(results: Path, name: str) -> pd.DataFrame:
    """Return a row for each regime and measure of dense, SparseGPT and a table's method.

    Values of all seeds, their mean, and the paired differences from the dense model and from
    SparseGPT, with intervals and p-values in which the seeds are random (and, ``_fixed``, not).
    """
    method, _, measures = TABLES[name]
    values = pd.read_csv(results / "results.csv", keep_default_na=False)
    values = values[(values.category == "") & values.metric.isin({one for _, one in measures})]
    methods = ("dense", "sparsegpt", method)
    values = values[values.calibration.isin(CALIBRATIONS) & values.method.isin(methods)]
    values = values.assign(value=values.value.astype(float))
    # What has fewer seeds is of another experiment.
    count = values.groupby(POINT).seed.transform("nunique")
    values = values[(count == count.max()) | (values.method == "dense")]
    tests = pd.read_csv(results / "significance.csv", keep_default_na=False, dtype=str)
    tests = tests[tests.calibration.isin(CALIBRATIONS)]
    tests = tests[tests.seed == ("mean" if "mean" in set(tests.seed) else "0")]
    rows = []
    for point, mine in values.groupby(POINT, sort=True):
        for key in measures:
            one = mine[(mine[MEASURE] == list(key)).all(axis=1)].sort_values("seed")
            if one.empty:
                continue
            row = dict(zip([*POINT, *MEASURE], [*point, *key], strict=True))
            row |= {"seeds": " ".join(map(str, one.value)), "mean": one.value.mean()}
            for against in ("dense", "method"):
                at = pd.Series({**{k: row[k] for k in [*POINT, *MEASURE]}, "against": against})
                found = tests[(tests[list(at.index)] == at).all(axis=1)]
                row |= {
                    f"{against}_{name}": found[name].iloc[0] if len(found) else ""
                    for name in TESTED
                }
            rows.append(row)
    others = [] if name == "forms" else about_others(results, methods)
    return pd.DataFrame([*rows, *others])


def about_others(results: Path, methods: Collection[str]) -> list[dict[str, object]]:
    """Return a row a method and regime: StereoSet's SS of the sentences about other groups.

    What it has above one half is how common the words are, as these are not the group's.
    """
    found: dict[tuple[str, str], dict[int, float]] = {}
    for file in sorted(results.glob("evals/*/*/*/*/s*/stereoset/items.jsonl")):
        method, regime, calibration, seed = file.parts[-6:-2]
        if calibration not in CALIBRATIONS or method not in methods:
            continue
        pairs = [
            pair
            for line in file.read_text(encoding="utf-8").splitlines()
            for pair in json.loads(line).get("others_logprobs", [])
        ]
        shares = [(one > two) + 0.5 * (one == two) for one, two in pairs]
        found.setdefault((method, regime), {})[int(seed[1:])] = sum(shares) / len(shares)
    return [
        dict(zip([*POINT, *MEASURE], [*point, "stereoset", "ss_others"], strict=True))
        | {
            "seeds": " ".join(str(round(share, 6)) for _, share in sorted(seeds.items())),
            "mean": sum(seeds.values()) / len(seeds),
        }
        for point, seeds in found.items()
    ]


def read_rows(name: str = "seeds") -> pd.DataFrame:
    """Return the rows of a table, all as text."""
    return pd.read_csv(FOLDER / f"{name}.csv", dtype=str, keep_default_na=False)


def difference(row: pd.Series, against: str, factor: float, digits: int) -> str:
    """Return a difference with its 95 % interval, and what it could have seen if undecided."""
    diff, low, high = (float(row[f"{against}_{name}"]) for name in ("diff", "low", "high"))
    ratio = row[f"{against}_form"] == "ratio"
    form = "{:.3f}" if ratio else f"{{:+.{digits}f}}"
    diff, low, high = (form.format((1 if ratio else factor) * one) for one in (diff, low, high))
    words = f"{'× ' if ratio else ''}{diff} [{low},\u00a0{high}]"
    if against == "method" and float(row.method_p_holm or 1) >= 0.05:
        seen = float(row.method_detectable)
        words += f" (could have seen {seen:.3f})" if ratio else (
            f" (could have seen {factor * seen:.{digits}f})"
        )  # fmt: skip
    return words.replace("-", "−")


def table(rows: pd.DataFrame, method: str, called: str, measures: Measures) -> str:
    """Return a row a measure: dense, SparseGPT, and what a method changes."""
    found = rows.set_index(["method", "regime", "benchmark", "metric"])
    regimes = [name for name in REGIMES if name in set(rows.regime)]
    head = ["", "dense"]
    for name in regimes:
        head += [f"SparseGPT, {REGIMES[name]}", f"{called} less SparseGPT, {REGIMES[name]}"]
    lines = [f"| {' | '.join(head)} |", "| --- | ---: |" + " ---: | ---: |" * len(regimes)]
    for key, (name, factor, digits) in measures.items():
        if ("dense", "dense", *key) not in found.index:
            continue
        cells = [name, f"{factor * float(found.loc[('dense', 'dense', *key), 'mean']):.{digits}f}"]
        for regime in regimes:
            plain, debias = (found.loc[(m, regime, *key)] for m in ("sparsegpt", method))
            cells += [f"{factor * float(plain['mean']):.{digits}f}"]
            cells += [difference(debias, "method", factor, digits)]
        lines.append(f"| {' | '.join(cells)} |".replace("| -", "| −"))
    return "\n".join(lines) + "\n"


def filled(page: str, name: str = "seeds") -> str:
    """Return the page with the table of this name."""
    return between(
        page, BEGIN.format(name), demo.END, f"\n{table(read_rows(name), *TABLES[name])}\n"
    )


if __name__ == "__main__":
    chosen = sys.argv[2] if sys.argv[2:] else "seeds"
    read_run(Path(sys.argv[1]), chosen).to_csv(
        FOLDER / f"{chosen}.csv", index=False, lineterminator="\n"
    )
    write(PAGE, filled(PAGE.read_text(encoding="utf-8"), chosen))
