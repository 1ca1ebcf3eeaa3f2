"""The errata: each against a direct computation, and gone once the printed numbers are mended."""

import csv
import functools
import importlib.util
import json
import math
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from paper_text import missing, paper_text
from scipy import stats

DOCS = Path(__file__).parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location("errata", DOCS / "errata.py")
errata = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(errata)
POINT = ("model", "method", "regime", "calibration", "metric")


@functools.cache
def read(name):
    folder = resources.files("evenprune.analysis") if name == "printed.csv" else DOCS
    return list(csv.DictReader(folder.joinpath(name).read_text(encoding="utf-8").splitlines()))


@functools.cache
def found():
    return {slug: errata.result(slug, errata.Paper()) for slug in errata.CHECKS}


@functools.cache
def cells():
    return {tuple(map(row.get, POINT)): float(row["value"]) for row in read("printed.csv")}


# Direct computations


def test_lower_distances_are_counted():
    def dto(point):
        return math.dist([cells()[(*point, name)] for name in ("mmlu", "unqover")], (100, 100))

    ours = [key for key in cells() if key[1] == "debias-sparsegpt" and key[3:] == ("ss", "unqover")]
    gaps = [dto((key[0], "sparsegpt", *key[2:4])) - dto(key[:4]) for key in ours]
    text = f"lower in {sum(gap > 0 for gap in gaps)} of {len(gaps)} configurations"
    assert text in found()["dto_regimes"]["arithmetic"]


def test_the_grids_are_those_of_plain_rounding():
    values = {row["value"] for row in read("printed.csv") if row["metric"] == "crows_pairs"}
    grid = {f"{100 * k / 1677:.2f}" for k in range(1678)}
    said = found()["crows_size"]["arithmetic"]
    assert f"of {len(values)} distinct values {len(values & grid)} are k/1,677" in said
    assert all(value in said for value in values - grid)
    for text, good, bad, whole in (("33.33", 3, 5, 100), ("0.265", 200, 320, 1)):
        assert errata.explains(text, good, whole)
        assert not errata.explains(text, bad, whole)


@pytest.mark.parametrize("n", [1000, 1677])
def test_the_share_of_items_is_the_limit_of_the_t_test(n):
    lead = 20
    share = errata.largest_share(100 * lead / n, n)
    p_values = []
    # Pairs of wins and losses with that lead, below and above the limit.
    for differing in (math.floor(share * n) - 2, math.ceil(share * n) + 2):
        losses = (differing - lead) // 2
        scores = np.repeat([1, -1, 0], [lead + losses, losses, n - lead - 2 * losses])
        p_values.append(stats.ttest_1samp(scores, 0).pvalue)
    assert p_values[0] < 0.01 < p_values[1]


# Controls: other numbers take an erratum away, or make one.

ANY = "[^/]+"
OURS14, Q2 = f"{ANY}/debias-sparsegpt/1of4/ss", "qwen2.5-7b-it/debias-sparsegpt/2of4"
CELLS = {  # what the check turns on: digits, and the cells that get them
    "dto_formula": ("0.600", "llama3.1-8b-it/dense/dense/none/dto"),
    "dto_regimes": ("99.00", f"{ANY}/debias-sparsegpt/{ANY}/ss/unqover"),
    "dto_lowest": ("99.00", f"{OURS14}/unqover"),
    "diff_rows": ("3.50", "qwen2.5-7b-it/sparsegpt/2of4/diff/mmlu"),
    "averages": ("49.00", f"{Q2}/ss-uc256/unqover"),
    "best_pruned": ("1.00", "aya-8b/debias-sparsegpt/1of4/ss/unqover"),
    "efficiency_rows": ("0.645", f"{Q2}/ss-uc256/dto"),
    "unqover_bbq": ("99.0", f"{OURS14}/bbq"),
    "consistent": ("99.0", f"{ANY}/debias-sparsegpt/{ANY}/ss/(bbq|unqover)"),
    "crows_six": ("50.00", f"{OURS14}/crows_pairs"),
    "hit_hardest": ("1.00", f"{ANY}/sparsegpt/1of4/ss/unqover"),
    "dense_shift": ("50.00", f"{ANY}/(dense|debias-sparsegpt)/{ANY}/{ANY}/unqover"),
    "near_random": ("33.00", f"{ANY}/dense/dense/none/unqover"),
    "approaches_chance": ("33.00", f"{ANY}/{ANY}/2of4/ss/unqover"),
    "gemma": ("72.00", "gemma2-9b-it/dense/dense/none/mmlu"),
    "entropies": ("1.050", "llama3.1-8b-it/dense/dense/none/unqover:entropy_correct"),
    "crows_size": (lambda x: f"{100 * round(float(x) * 15.08) / 1508:.2f}", ".*/crows_pairs"),
    "bbq_size": ("76.41", "llama3.1-8b-it/dense/dense/none/bbq"),
    "bolds": ("10.00", f"{ANY}/wanda/1of4/ss/{ANY}"),
    "daggers": ("1.00", f"{ANY}/sparsegpt/({ANY}/ss/bbq|1of4/ss/crows_pairs)"),
    "safety": ("0.900", f"{ANY}/sparsegpt/.*says_unsafe.*"),
    "harmbench_standard": ("0.268", f"{ANY}/{ANY}/1of4/ss/harmbench:says_unsafe_paper"),
    "rtp_prompts": ("0.0338", ".*/realtox.*"),
    "ways": ("47.00", f"{Q2}/ss-uc1024/unqover"),
    "four_texts": ("16.60", f"{Q2}/ss/(perplexity|mmlu)"),
    "doubles": ("14.00", "qwen2.5-7b-it/(debias-)?sparsegpt/2of4/ss/perplexity"),
    "power": ("0.0300", f"{ANY}/sparsegpt/2of4/ss-uc256/serving:kg_co2e_per_mtok"),
    "speedup": ("40.00", f"{ANY}/sparsegpt/2of4/ss-uc256/serving:decode_tok_per_s"),
}
STATED = {
    "layers": {"layers": "27"}, "stereoset_size": {"stereoset_size": "2106"},
    "unqover_size": {"unqover_size": "40008"}, "largest": {"bbq_size": "1000"},
    "added_tokens": {"added_tokens": "262144"}, "datasets": {"datasets": "10"},
    "families": {"families": "7"}, "regimes_named": {"regimes_named": "1of4"},
    "models_text": {"models_text": "Phi-4-Mini-IT (3.8B); Deepseek-LLM-7B (Base)"},
    "carbon": {"carbon": "0.056"}, "bias_weight": {"release_alpha": "2"},
    "next_token": {"hellaswag_scoring": "one letter"},
    "numbers": {},  # here a sentence is left out
}  # fmt: skip
ROWS = {  # which further rows, of which ones, turn a check
    "baselines": ({"method": "magnitude"}, {"method": "dense"}),
    "uncertain": ({"model": "vicuna1.5-7b", "value": "0.100"},
                  {"metric": "unqover:entropy_correct", "model": "qwen2.5-7b-it"}),
    "repeats": ({"value": "1.00", "table": "again"}, {"metric": "mmlu", "method": "dense"}),
    "dagger_repeats": ({"dagger": "1", "table": "tab:debias-sparsegpt"},
                       {"dagger": "0", "table": "tab:qwen-sparsity-all"}),
}  # fmt: skip


@pytest.mark.parametrize("slug", errata.CHECKS)
def test_other_numbers_turn_a_verdict(slug):
    rows, facts = read("printed.csv"), read("errata_stated.csv")
    if slug in ROWS:
        change, chosen = ROWS[slug]
        rows = rows + [row | change for row in rows if row.items() >= chosen.items()]
    elif slug in STATED:
        facts = [row | {"value": STATED[slug].get(row["name"], row["value"])} for row in facts]
    else:
        digits, cell = CELLS[slug]
        chosen = [re.fullmatch(cell, "/".join(map(row.get, POINT))) for row in rows]
        other = digits if callable(digits) else lambda _: digits
        rows = [r | {"value": other(r["value"])} if x else r for r, x in zip(rows, chosen)]
    said = read("errata_sentences.csv")
    if slug == "numbers":
        said = [row for row in said if "from 86% to 60%" not in row["quote"]]
    after = errata.result(slug, errata.Paper(rows, facts, said))["state"]
    assert (after == errata.IN_ORDER) != (found()[slug]["state"] == errata.IN_ORDER)


# Data and page


def test_sentences_have_the_papers_words_and_a_cell(shared):
    sentences = read("errata_sentences.csv")
    quotes = {row["quote"] for row in (*sentences, *read("errata_stated.csv"))}
    assert missing(quotes, paper_text(shared)) == []
    for row in sentences:
        assert tuple(row["cell"].split("/", 4)) in cells()
        assert row["value"] in row["quote"]
        assert row["way"] in (("up", "down") if row["against"] else ("",))


def test_stated_intensities_are_codecarbons():
    codecarbon = pytest.importorskip("codecarbon")
    path = resources.files(codecarbon) / "data/private_infra/global_energy_mix.json"
    mix = json.loads(path.read_text(encoding="utf-8"))
    facts = {row["name"]: row["value"] for row in read("errata_stated.csv")}
    for name, code in (("carbon_france", "FRA"), ("carbon_china", "CHN")):
        assert float(facts[name]) == pytest.approx(mix[code]["carbon_intensity"] / 1000)


def test_the_page_is_what_the_numbers_say():
    page = (DOCS / "errata.md").read_text(encoding="utf-8")
    assert page == errata.page(errata.Paper())
    # A bar or an open brace would break a cell.
    assert not [row for row in found().values() if set("|{}") & set(row["arithmetic"])]
