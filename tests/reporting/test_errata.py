"""The errata: each against a direct computation, and gone once the printed numbers are mended."""

import csv
import functools
import importlib.util
import math
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from paper_text import missing, paper_text
from scipy import stats as scipy_stats

DOCS = Path(__file__).parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location("errata", DOCS / "errata.py")
errata = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(errata)
Paper = errata.Paper
CONTRADICTED, OPEN, IN_ORDER = errata.HEADINGS


@functools.cache
def read(name):
    folder = resources.files("evenprune.reporting") if name == "printed.csv" else DOCS
    return list(csv.DictReader(folder.joinpath(name).read_text(encoding="utf-8").splitlines()))


@functools.cache
def found():
    return {slug: errata.result(slug, Paper()) for slug in errata.CHECKS}


@functools.cache
def cells():
    return {
        (r["model"], r["method"], r["regime"], r["calibration"], r["metric"]): float(r["value"])
        for r in read("printed.csv")
    }


def column(metric, method="", regime="", calibration=""):
    """Return {(model, method, regime, calibration): value} straight from printed.csv."""
    wanted = (method, regime, calibration)
    return {
        key[:4]: value
        for key, value in cells().items()
        if key[4] == metric and all(w in ("", k) for w, k in zip(wanted, key[1:4]))
    }


def edited(change, stated=()):
    """Return the paper with other digits: ``change`` gives those of a row, None for the same."""
    rows = [row | {"value": change(row) or row["value"]} for row in read("printed.csv")]
    facts = [
        row | {"value": dict(stated).get(row["name"], row["value"])}
        for row in read("errata_stated.csv")
    ]
    return Paper(rows, facts)


def at(digits, *patterns):
    """Return an edit of the cells whose path has one of the patterns."""

    def change(row):
        names = ("model", "method", "regime", "calibration", "metric")
        path = "/".join(row[name] for name in names)
        return digits if any(re.fullmatch(p, path) for p in patterns) else None

    return change


def state(slug, paper):
    return errata.result(slug, paper)["state"]


def nothing(row):
    return None


# Direct computations


def dto(point):
    m, u = (cells().get((*point, name)) for name in ("mmlu", "unqover"))
    return None if m is None or u is None else math.sqrt(((100 - m) ** 2 + (100 - u) ** 2) / 2e4)


def test_the_lower_distances_are_counted():
    gaps = [
        dto((m, "sparsegpt", r, c)) - dto((m, "debias-sparsegpt", r, c))
        for m, _, r, c in column("unqover", "debias-sparsegpt", calibration="ss")
    ]
    assert len(gaps) == 18
    text = f"lower in {sum(g > 0 for g in gaps)} of {len(gaps)} configurations"
    assert text in found()["dto_regimes"]["arithmetic"]


def test_the_lowest_distances_are_counted():
    wins = losses = 0
    for (model, *_), _ in column("unqover", "debias-sparsegpt", "1of4").items():
        ours = dto((model, "debias-sparsegpt", "1of4", "ss"))
        for key in column("unqover"):
            if key[0] == model and key[1] != "debias-sparsegpt" and key[2] in ("1of4", "dense"):
                wins += ours < dto(key)
                losses += ours > dto(key)
    assert f"{wins} comparisons for and {losses} against" in found()["dto_lowest"]["arithmetic"]


def test_every_printed_distance_is_recomputed():
    printed = column("dto")
    gaps = [abs(dto(p) - v) for p, v in printed.items() if p[3] != "diff"]
    assert f"largest gap is {max(gaps):.5f}" in found()["dto_formula"]["arithmetic"]
    assert max(gaps) < 0.0005
    assert found()["dto_formula"]["state"] == IN_ORDER


def test_the_grids_are_those_of_plain_rounding():
    values = {row["value"] for row in read("printed.csv") if row["metric"] == "crows_pairs"}
    grid = {f"{100 * k / 1677:.2f}" for k in range(1678)}
    text = f"of {len(values)} distinct values {len(values & grid)} are k/1,677"
    assert text in found()["crows_size"]["arithmetic"]
    for value in values - grid:
        assert value in found()["crows_size"]["arithmetic"]
    assert errata.explains("33.33", 3)
    assert not errata.explains("33.34", 3)
    assert errata.explains("0.265", 200, 1)
    assert not errata.explains("0.265", 320, 1)
    bbq = {float(row["value"]) for row in read("printed.csv") if row["metric"] == "bbq"}
    assert all(round(10 * value, 6).is_integer() for value in bbq)
    assert f"{len(bbq)} of {len(bbq)} distinct values" in found()["bbq_size"]["arithmetic"]
    assert "explain all are 1,000" in found()["bbq_size"]["arithmetic"]


@pytest.mark.parametrize("n", [1000, 1677])
def test_the_share_of_items_is_the_limit_of_the_t_test(n):
    lead = 20
    share = errata.largest_share(100 * lead / n, n)
    p_values = []
    # Pairs of wins and losses with that lead, below and above the limit.
    for differing in (math.floor(share * n) - 2, math.ceil(share * n) + 2):
        losses = (differing - lead) // 2
        scores = np.zeros(n)
        scores[: lead + losses], scores[lead + losses : lead + 2 * losses] = 1, -1
        p_values.append(scipy_stats.ttest_1samp(scores, 0).pvalue)
    assert p_values[0] < 0.01 < p_values[1]


def test_power_and_speedup_are_those_of_the_printed_cells():
    dense = ("qwen2.5-7b-it", "dense", "dense", "none")
    sparse = ("qwen2.5-7b-it", "sparsegpt", "2of4", "ss-uc256")
    watts = []
    for point in (dense, sparse):
        kg, rate = (
            cells()[(*point, f"serving:{n}")] for n in ("kg_co2e_per_mtok", "decode_tok_per_s")
        )
        watts.append(kg / 0.033 * 3.6 * rate)
        assert f"{watts[-1]:.1f} W" in found()["power"]["arithmetic"]
    assert watts == pytest.approx([300, 300], abs=0.5)
    gain = (
        cells()[(*sparse, "serving:decode_tok_per_s")]
        / cells()[(*dense, "serving:decode_tok_per_s")]
    )
    assert f"= {gain:.2f}" in found()["speedup"]["arithmetic"]


def test_the_unsafe_rates_are_tested_by_fisher():
    own, values = column("harmbench:says_unsafe_paper", "debias-sparsegpt"), []
    for (model, *_), ours in own.items():
        base = cells()[(model, "sparsegpt", "1of4", "ss", "harmbench:says_unsafe_paper")]
        a, b = round(200 * ours), round(200 * base)
        values.append(scipy_stats.fisher_exact([[a, 200 - a], [b, 200 - b]]).pvalue)
    assert f"the smallest p = {min(values):.2g}" in found()["safety"]["arithmetic"]


def test_a_bold_number_is_compared_with_its_column():
    bold = [row for row in read("printed.csv") if row["bold"] == "1" and row["metric"] == "bbq"]
    wanda = cells()[("qwen2.5-7b-it", "wanda", "1of4", "ss", "bbq")]
    ours = cells()[("qwen2.5-7b-it", "debias-sparsegpt", "1of4", "ss", "bbq")]
    assert bold
    assert wanda > ours
    assert f"BBQ {ours:.2f} (Wanda: {wanda:.2f})" in found()["bolds"]["arithmetic"]


# Positive controls: mended numbers take an erratum away, broken ones make one.

ANY = "[^/]+"
OURS14 = f"{ANY}/debias-sparsegpt/1of4/ss"
Q2 = "qwen2.5-7b-it/debias-sparsegpt/2of4"
MENDED = {
    "dto_regimes": at("99.00", f"{ANY}/debias-sparsegpt/{ANY}/ss/unqover"),
    "dto_lowest": at("99.00", f"{OURS14}/unqover"),
    "efficiency_rows": at("0.645", f"{Q2}/ss-uc256/dto"),
    "unqover_bbq": at("99.0", f"{OURS14}/bbq"),
    "consistent": at("99.0", f"{ANY}/debias-sparsegpt/{ANY}/ss/(bbq|unqover)"),
    "crows_six": at("50.00", f"{OURS14}/crows_pairs"),
    "hit_hardest": at("1.00", f"{ANY}/sparsegpt/1of4/ss/unqover"),
    "dense_shift": at("50.00", f"{ANY}/(dense|debias-sparsegpt)/{ANY}/{ANY}/unqover"),
    "near_random": at("33.00", f"{ANY}/dense/dense/none/unqover"),
    "approaches_chance": at("33.00", f"{ANY}/{ANY}/2of4/ss/unqover"),
    "gemma": at("72.00", "gemma2-9b-it/dense/dense/none/mmlu"),
    "crows_size": lambda row: (
        f"{100 * round(float(row['value']) * 15.08) / 1508:.2f}"
        if row["metric"] == "crows_pairs"
        else None
    ),
    "bbq_size": at("76.41", "llama3.1-8b-it/dense/dense/none/bbq"),
    "layers": None,
    "bolds": at("10.00", f"{ANY}/wanda/1of4/ss/{ANY}"),
    "daggers": at("1.00", f"{ANY}/sparsegpt/{ANY}/ss/bbq", f"{ANY}/sparsegpt/1of4/ss/crows_pairs"),
    "safety": lambda row: (
        "0.900" if row["method"] == "sparsegpt" and "says_unsafe" in row["metric"] else None
    ),
    "numbers": None,
    "ways": at("47.00", f"{Q2}/ss-uc1024/unqover"),
    "doubles": at("14.00", "qwen2.5-7b-it/(debias-)?sparsegpt/2of4/ss/perplexity"),
    "four_texts": lambda row: (
        at("16.00", f"{Q2}/ss-uc4/perplexity")(row) or at("50.00", f"{Q2}/ss-uc16/mmlu")(row)
    ),
    "power": at("0.0300", f"{ANY}/sparsegpt/2of4/ss-uc256/serving:kg_co2e_per_mtok"),
    "speedup": at("40.00", f"{ANY}/sparsegpt/2of4/ss-uc256/serving:decode_tok_per_s"),
    "baselines": None,
    "uncertain": None,
    "regimes_named": None,
}
BROKEN = {
    "dto_formula": at("0.600", "llama3.1-8b-it/dense/dense/none/dto"),
    "diff_rows": at("3.50", "qwen2.5-7b-it/sparsegpt/2of4/diff/mmlu"),
    "averages": at("49.00", f"{Q2}/ss-uc256/unqover"),
    "best_pruned": at("1.00", "aya-8b/debias-sparsegpt/1of4/ss/unqover"),
    "entropies": at("1.050", "llama3.1-8b-it/dense/dense/none/unqover:entropy_correct"),
    "harmbench_standard": at("0.268", f"{ANY}/{ANY}/1of4/ss/harmbench:says_unsafe_paper"),
    "rtp_prompts": lambda row: "0.0338" if row["metric"].startswith("realtox") else None,
    "repeats": lambda row: (
        "1.00" if row["table"] == "tab:qwen_ultrachat_effect" and row["metric"] == "mmlu" else None
    ),
}
STATED = {
    "layers": "27",
    "stereoset_size": "2106",
    "unqover_size": "40008",
    "largest": {"bbq_size": "1000"},
    "added_tokens": "262144",
    "datasets": "10",
    "families": "7",
    "models_text": "Phi-4-Mini-IT (3.8B); Deepseek-LLM-7B (Base)",
    "regimes_named": "1of4",
    "carbon": "0.056",
    "bias_weight": {"release_alpha": "2"},
    "next_token": {"hellaswag_scoring": "one letter"},
}


@pytest.mark.parametrize("slug", [slug for slug, change in MENDED.items() if change])
def test_a_mended_paper_has_no_such_erratum(slug):
    assert found()[slug]["state"] != IN_ORDER
    assert state(slug, edited(MENDED[slug])) == IN_ORDER


@pytest.mark.parametrize("slug", BROKEN)
def test_a_broken_paper_has_one(slug):
    assert found()[slug]["state"] == IN_ORDER
    expected = OPEN if slug == "harmbench_standard" else CONTRADICTED
    assert state(slug, edited(BROKEN[slug])) == expected


@pytest.mark.parametrize("slug", STATED)
def test_a_mended_statement_has_no_such_erratum(slug):
    assert found()[slug]["state"] != IN_ORDER
    value = STATED[slug]
    if not isinstance(value, dict):
        value = {slug: value}
    assert state(slug, edited(nothing, value)) == IN_ORDER


def test_more_rows_mend_the_rest():
    rows, own = read("printed.csv"), read("errata_stated.csv")
    magnitude = [row | {"method": "magnitude"} for row in rows if row["method"] == "dense"]
    third = [
        row | {"model": "vicuna1.5-7b", "value": "0.100"}
        for row in rows
        if row["metric"] == "unqover:entropy_correct" and row["model"] == "qwen2.5-7b-it"
    ]
    assert state("baselines", Paper(rows + magnitude, own)) == IN_ORDER
    assert state("uncertain", Paper(rows + third, own)) == IN_ORDER
    agreeing = [row for row in Paper().sentences if "from 86% to 60%" not in row["quote"]]
    assert state("numbers", Paper(rows, own, agreeing)) == IN_ORDER
    marked = [
        row | {"dagger": "0"} if row["table"] == "tab:qwen-sparsity-all" else row for row in rows
    ]
    marked += [
        row | {"dagger": "1", "table": "tab:debias-sparsegpt"}
        for row in rows
        if row["table"] == "tab:qwen-sparsity-all"
    ]
    assert found()["dagger_repeats"]["state"] == IN_ORDER
    assert state("dagger_repeats", Paper(marked, own)) == CONTRADICTED


def test_every_check_has_a_control():
    known = {*MENDED, *BROKEN, *STATED, "dagger_repeats"}
    assert set(found()) == known
    assert {check["state"] for check in found().values()} == {CONTRADICTED, OPEN, IN_ORDER}


# Data and page


def test_quotes_are_the_papers_words(shared):
    quotes = {
        row["quote"] for name in ("stated", "sentences") for row in read(f"errata_{name}.csv")
    }
    assert missing(quotes, paper_text(shared)) == []


def test_every_sentence_has_a_cell_and_its_number():
    for row in read("errata_sentences.csv"):
        assert tuple(row["cell"].split("/", 4)) in cells()
        assert row["value"] in row["quote"]
        assert bool(row["way"]) == bool(row["against"])
        assert row["way"] in ("", "up", "down")


def test_stated_intensities_are_codecarbons():
    codecarbon = pytest.importorskip("codecarbon")
    import json

    path = resources.files(codecarbon) / "data/private_infra/global_energy_mix.json"
    mix = json.loads(path.read_text(encoding="utf-8"))
    facts = {row["name"]: row["value"] for row in read("errata_stated.csv")}
    for name, code in (("carbon_france", "FRA"), ("carbon_china", "CHN")):
        assert float(facts[name]) == pytest.approx(mix[code]["carbon_intensity"] / 1000)


def test_the_page_is_what_the_numbers_say():
    page = (DOCS / "errata.md").read_text(encoding="utf-8")
    assert page == errata.page(Paper())
    assert all(row["topic"] in page for row in found().values())
    # A bar or an open brace would break a cell.
    assert not [row for row in found().values() if set("|{}") & set(row["arithmetic"])]
