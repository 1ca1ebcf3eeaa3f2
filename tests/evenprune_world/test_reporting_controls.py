"""The report on the bias term and its negative controls, from records to the page."""

import dataclasses
import math
import random

import numpy as np
import pytest
import scipy.stats
from reporting_run import read_csv, seal, small_config, write_json, write_jsonl, write_run

from evenprune.config import grids
from evenprune.config.grids import Checkpoint
from evenprune.stats.inference import Estimate
from evenprune.stats.metrics import bbq_metrics
from evenprune_world.__main__ import main
from evenprune_world.controls.contrasts import Contrast, contrasts, control_of, is_control
from evenprune_world.controls.effects import Effect, adjust, effects
from evenprune_world.controls.measures import BY_NAME, TERMS, columns, read_rows
from evenprune_world.controls.runs import World


def part(regime, *methods):
    return {"methods": [*methods], "regimes": [regime]}


OF = "ss-uc256-cf4"
GRID = {
    "pruned": part("2of4", "dense", "sparsegpt", "debias-sparsegpt"),
    "unstructured": part("2of4", "sparsegpt"),
    "counterfactuals": part("2of4", "sparsegpt", "debias-lora", "lora.reversed"),
    "unpruned": part("dense", "debias-lora"),
    "controls": part("2of4", "sparsegpt"),
    "foreign": part("2of4", "debias-lora"),
}


def records(generator, items, skill, clusters=12):
    """Made-up BBQ records: three options, 2 is unknown, 0 the biased one, some without target."""
    rows = []
    for index in range(items):
        ambiguous = index % 2 == 0
        gold = 2 if ambiguous else generator.randrange(2)
        right = generator.random() < skill
        wrong = [k for k in range(3) if k != gold]
        pred = gold if right else generator.choice(wrong)
        rows.append(
            dict(item_id=f"b{index}", category="Faith", cluster=f"c{index % clusters}",
                 condition="ambig" if ambiguous else "disambig", pred=pred, gold=gold,
                 unknown_idx=2, biased_idx=None if index % 11 == 0 else 0, correct=pred == gold,
                 perm="012", option_logits=[float(k == pred) for k in range(3)],
                 option_logprobs=[float(k == pred) - 2.0 for k in range(3)], mass=1.0, tie=False)
        )  # fmt: skip
    return rows


def planted_of(world, items=240, pairs=120):
    """What is planted in a made-up world: pairs with log-odds, questions between options 0, 1."""
    generator = random.Random(f"planted {world}")
    odds = {f"p{k}": generator.gauss(1.0, 1.0) for k in range(pairs)}
    questions = {
        f"b{k}": dict(groups=[0, 1], log_odds=generator.gauss(0, 4), right=0 if k % 2 else None)
        for k in range(items)
    }
    return {"stereoset": odds, "crows_pairs": odds, "bbq": questions, "unqover": questions}


def slope_of(point):
    """Return a slope: adapters of true pairs lower it, reversed ones raise it, no control does."""
    if point.method == "lora.reversed":
        return 1.2
    return 0.2 if (point.method, point.calibration) == ("debias-lora", OF) else 0.7


def write_records(folder, world, point, items=240):
    """Write the records of one checkpoint; the same chance decides for all of one world.

    Pruned models answer worse than the dense one.
    """
    planted, slope = planted_of(world, items), slope_of(point)
    skill = 0.9 if point.regime == "dense" else 0.6
    generator = random.Random(f"items {world}")
    rows = records(generator, items, skill)
    noise = random.Random(f"noise {world} {point.key}")
    for row in rows:
        entry = planted["bbq"][row["item_id"]]
        gap = 3.0 if row["condition"] == "disambig" else 0.1 * entry["log_odds"]
        row["option_logprobs"] = [gap + noise.gauss(0, 0.05) - 4.0, -4.0, -1.0]
    write_jsonl(folder / "bbq" / "items.jsonl", rows)
    write_jsonl(folder / "unqover" / "items.jsonl", rows)
    for name in ("stereoset", "crows_pairs"):
        pairs = []
        for item, t in planted[name].items():
            gap = slope * t + noise.gauss(0, 0.3)
            scores = [gap - 20.0, -20.0]
            pairs.append({"item_id": item, "correct": gap > 0, "option_logprobs": scores})
        write_jsonl(folder / name / "items.jsonl", pairs)
    known = [{"item_id": f"m{k}", "correct": noise.random() < skill} for k in range(80)]
    write_jsonl(folder / "mmlu" / "items.jsonl", known)
    windows = [{"item_id": f"w{k}", "nll": 50 + noise.random(), "n_tokens": 20} for k in range(8)]
    write_jsonl(folder / "wikitext2" / "items.jsonl", windows)
    seal(folder)


def make_runs(repo, root):
    """Write one run a world; return the folders."""
    folders = []
    for seed in (0, 1, 2):
        folder = root / f"w{seed}"
        world = {"seed": seed, "retrain": seed != 0}
        config = small_config(repo, folder, "controls.yaml", world=world, experiments=GRID)
        write_run(config, 4)
        write_json(folder / "world/planted.json", {"leans": [], "items": planted_of(seed)})
        for point in grids.all_checkpoints(config):
            write_records(folder / "evals" / point.key, seed, point)
        folders.append(folder)
    return folders


def report(folders, out):
    words = [word for folder in folders for word in ("--run", str(folder))]
    return main(["report-controls", *words, "--out", str(out)])


@pytest.fixture(scope="module")
def helped(repo, tmp_path_factory):
    root = tmp_path_factory.mktemp("helped")
    folders = make_runs(repo, root)
    assert report(folders, root / "report") == 0
    return folders, root / "report"


# Numbers and their errors


def values_of(rows):
    """The numbers by the evaluation's own code."""
    bbq = bbq_metrics(rows)
    found = {name: bbq[name]["value"] for name in ("acc_amb", "acc_dis", "s_amb")}
    return {k: math.nan if v is None else v for k, v in found.items()}


def test_effects_and_errors_are_those_of_lists_of_records(tmp_path):
    """Every cluster left out of the lists, and scored by the evaluation's own code."""
    points = [Checkpoint("m", method, "2of4", "ss", 0) for method in ("sparsegpt", "wanda")]
    worlds, lists = [], []
    for world in range(3):
        parts, models = [], []
        for k in range(2):
            rows = records(random.Random(f"{world} {k}"), 60, 0.5 + 0.2 * k, clusters=5 + world)
            write_jsonl(tmp_path / "items.jsonl", rows)
            read = read_rows(tmp_path / "items.jsonl", "bbq", planted_of(world)["bbq"])
            parts.append(columns(tmp_path, "bbq", read))
            models.append(rows)
        names = sorted({row["cluster"] for row in rows})
        sums = np.zeros((len(names), 2, parts[0].shape[1]))
        np.add.at(sums, [names.index(row["cluster"]) for row in rows], np.stack(parts, axis=1))
        other = {task: np.ones((2, 2, 2 * len(TERMS[task]))) for task in TERMS}
        worlds.append(World(world, {**other, "bbq": sums}, {}))
        lists.append((models, names))
    found = effects(worlds, points, [Contrast("dense", points[1], points[0])])
    for one in (one for one in found if one.metric.name in values_of([])):
        name, variance = one.metric.name, 0.0
        for models, names in lists:
            without = []
            for left in names:
                rest = ([row for row in rows if row["cluster"] != left] for rows in models)
                without.append(np.subtract(*(values_of(rows)[name] for rows in rest)))
            variance += (len(names) - 1) * np.var(without)
        whole = [values_of(models[1])[name] - values_of(models[0])[name] for models, _ in lists]
        assert one.by_world == pytest.approx(whole, abs=1e-9)
        assert one.effect == pytest.approx(np.mean(whole))
        assert one.within.stderr == pytest.approx(math.sqrt(variance) / 3)
        assert (one.within.df, one.across.df) == (4 + 5 + 6, 2)
        test = scipy.stats.ttest_1samp(whole, 0)
        assert one.across.p() == pytest.approx(test.pvalue)
        assert one.across.interval().low == pytest.approx(test.confidence_interval().low)


# Verdicts


def estimate(low, high):
    """An estimate with this interval."""
    value = (low + high) / 2
    return Estimate(value, (high - value) / 1.959963984540054)


def effect(name, within, across, kind="plain"):
    both = estimate(*within), estimate(*across)
    return Effect(Contrast(kind, None, None), BY_NAME[name], 0, 0, (0, 0), *both)


@pytest.mark.parametrize(
    ("name", "within", "across", "verdict"),
    [
        ("acc_amb", (0.1, 0.2), (0.05, 0.3), "better"),
        ("acc_amb", (0.1, 0.2), (-0.05, 0.3), "better in these worlds"),
        ("acc_amb", (-0.2, -0.1), (-0.3, -0.05), "worse"),
        ("acc_amb", (-0.1, 0.2), (0.05, 0.3), "no difference shown"),
        ("acc_amb", (0.0, 0.0), (0.0, 0.0), "no difference shown"),
        ("abs_s_amb", (0.1, 0.2), (-0.1, 0.3), "worse in these worlds"),
        ("s_amb", (0.1, 0.2), (0.1, 0.3), ""),
        ("nll", (0.1, 0.2), (0.1, 0.3), "worse"),
    ],
)
def test_verdicts_follow_the_rule(name, within, across, verdict):
    assert effect(name, within, across).verdict == verdict
    nothing = effect(name, (math.nan, math.nan), (math.nan, math.nan))
    assert nothing.verdict == ("undefined" if BY_NAME[name].good else "")


def test_holm_adjusts_a_kind_and_its_measures_of_bias_alone():
    def one(kind, name, p):
        width = 0.15 / scipy.stats.norm.isf(p / 2)
        found = Estimate(-0.15, width)
        return dataclasses.replace(effect(name, (0, 1), (0, 1), kind), within=found, across=found)

    given = [
        *(one("plain", "abs_r_bbq", p) for p in (0.01, 0.03, 0.02)),
        one("control", "abs_r_bbq", 0.04),
        one("dense", "abs_r_bbq", 0.04),
        one("plain", "nll", 0.04),
    ]
    found = adjust(given)
    # Sorted 0.01, 0.02, 0.03: times 3, 2, 1, never falling.
    assert [x.adjusted and x.adjusted[0] for x in found] == [
        *(pytest.approx(p) for p in (0.03, 0.04, 0.04, 0.04)), None, None,
    ]  # fmt: skip
    assert {x.verdict for x in found} == {"better"}
    many = adjust([one("plain", "abs_r_bbq", 0.04)] * 2)
    assert {x.verdict for x in many} == {"no difference shown"}


def test_controls_of_the_shipped_configuration(repo, tmp_path):
    config = small_config(repo, tmp_path, "controls.yaml")
    names = ("ss-uc256-shuffled", "ss-uc256-random", f"{OF}-shuffled", "ss-uc256", "none")
    controlled = ["ss-uc256", "ss-uc256", OF, None, None]
    assert [control_of(config, name) for name in names] == controlled
    found = contrasts(config, grids.all_checkpoints(config))
    pairs = [(one.candidate, one.reference) for one in found if one.kind == "control"]
    lora = [two for one, two in pairs if (one.method, one.regime) == ("debias-lora", "2of4")]
    against = {(point.method, point.calibration) for point in lora}
    assert against == {("lora.reversed", OF), ("debias-lora", f"{OF}-shuffled")}
    # Another strength has no control of its own, a control none at all.
    assert not any(one.method == "lora.x2" or is_control(config, one) for one, _ in pairs)


# The report


def test_known_effects_are_found(helped):
    _, out = helped
    rows = read_csv(out / "controls.csv")
    key = ("contrast", "method", "regime", "reference_method", "reference_calibration", "metric")
    chosen = [row for row in rows if row["calibration"] in ("ss-uc256", OF)]
    chosen = [row for row in chosen if (row["method"], row["calibration"]) != ("sparsegpt", OF)]
    found = {tuple(row[name] for name in key): row for row in chosen}
    assert len(found) == len(chosen)
    dense = found["dense", "sparsegpt", "2of4", "dense", "none", "mmlu"]
    assert float(dense["effect"]) == pytest.approx(-0.3, abs=0.1)
    metric = "abs_slope_crows_pairs"
    plain = found["plain", "debias-lora", "2of4", "sparsegpt", OF, metric]
    assert float(plain["effect"]) == pytest.approx(-0.5, abs=0.08)
    assert plain["verdict"] == "better"
    assert float(plain["p_holm"]) >= float(plain["p"]) >= 0
    for method, calibration in (("debias-lora", f"{OF}-shuffled"), ("lora.reversed", OF)):
        one = found["control", "debias-lora", "2of4", method, calibration, metric]
        assert one["verdict"] == "better", (method, calibration)
    reverse = found["plain", "lora.reversed", "2of4", "sparsegpt", OF, metric]
    assert reverse["verdict"] == "worse"
    nothing = found["plain", "debias-sparsegpt", "2of4", "sparsegpt", "ss-uc256", metric]
    assert nothing["verdict"] == "no difference shown"
    text = (out / "controls.md").read_text()
    place = "| 2:4 | Debias-LoRA | StereoSet + UltraChat (256) |"
    assert f"{place} yes | lower than without the method and than 2 controls |" in text
    place = "| 2:4 | Debias-SparseGPT | StereoSet + UltraChat (256) |"
    assert f"{place} not shown | not lower than without the method |" in text
    assert "Worlds 0, 1, 2." in text
    # Without controls nothing is claimed.
    assert "lower than without the method, but no control was run" in text


def test_the_same_runs_give_the_same_bytes(helped, tmp_path):
    folders, out = helped
    assert report(folders, tmp_path / "again") == 0
    names = sorted(path.name for path in out.iterdir())
    assert names == ["controls.csv", "controls.html", "controls.md"]
    for name in names:
        assert (out / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
