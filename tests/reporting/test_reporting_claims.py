"""The claims table: its rule, its printed evidence, and verdicts on made-up runs."""

import math

import numpy as np
import pytest
import reporting_run
from hypothesis import given, settings
from hypothesis import strategies as st
from reporting_run import (
    collect,
    made_table,
    read_csv,
    run_of,
    small_config,
    write_run,
    write_sealed,
)
from scipy.stats import t

from evenprune.analysis import claims as verdicts
from evenprune.analysis import item_sums
from evenprune.analysis.claims import adjust
from evenprune.analysis.comparisons import Comparison, PrintedNumbers, RunNumbers, gained
from evenprune.analysis.measurements import log_ratios, read_measurement
from evenprune.stats.inference import Estimate
from evenprune.stats.records import read_records

METHODS = ("debias-sparsegpt", "sparsegpt")
FRACTION = st.floats(0.01, 0.99)


def claims_of(root):
    assert collect(root) == 0
    return {row["claim"]: row for row in made_table(root, "claims")}


def prepare(repo, root, monkeypatch, skill=None, items=500, **changes):
    """Write a run whose only experiment is ``main``, with changes; return its claims."""
    monkeypatch.setattr(reporting_run, "SKILL", reporting_run.SKILL | (skill or {}))
    methods = ["dense", "magnitude", "wanda", "sparsegpt", "debias-sparsegpt"]
    grid = {"main": {"methods": methods} | changes}
    write_run(small_config(repo, root, only=["main"], experiments=grid), items)
    return claims_of(root)


# The rule


def test_verdicts_follow_the_rule():
    good, bad = Comparison("a", Estimate(0.2, 0.01)), Comparison("b", Estimate(-0.2, 0.01))
    weak, bare = Comparison("c", Estimate(0.2, 0.3)), Comparison("d", Estimate(0.2))
    adjusted = adjust([good, bad, weak, bare])
    assert bare.key not in adjusted

    def verdict(*comparisons, most=False):
        return verdicts.verdict(comparisons, adjusted, most)

    assert verdict(good) == verdicts.SUPPORTED
    assert verdict(good, weak) == verdicts.NOT_SUPPORTED
    assert verdict(good, weak, bad) == verdicts.CONTRADICTED
    assert verdict(bare) == verdicts.NOT_TESTED
    assert verdict() == verdicts.NOT_TESTED
    assert verdict(good, bare) == verdicts.SUPPORTED
    assert verdict(good, weak, most=True) == verdicts.NOT_SUPPORTED
    assert verdict(good, good, bad, most=True) == verdicts.SUPPORTED
    assert verdict(bad, bad, good, most=True) == verdicts.CONTRADICTED


def test_weak_comparisons_that_agree_are_jointly_significant():
    agreeing = [Comparison(f"{k}", Estimate(0.025, 0.01)) for k in range(40)]
    adjusted = adjust(agreeing)
    assert not any(p < 0.05 for p in adjusted.values())
    p = verdicts.joint_p(agreeing)
    # However many: as if they were one and the same.
    assert p == pytest.approx(agreeing[0].p_value) == pytest.approx(verdicts.joint_p(agreeing[:2]))
    assert verdicts.verdict(agreeing, adjusted, joint=p) == verdicts.IN_DIRECTION
    assert verdicts.verdict(agreeing, adjusted, most=True, joint=p) == verdicts.IN_DIRECTION
    assert verdicts.verdict(agreeing, adjusted, joint=0.06) == verdicts.NOT_SUPPORTED
    other = [*agreeing, Comparison("against", Estimate(-0.001, 0.01))]
    assert verdicts.verdict(other, adjust(other), joint=p) == verdicts.NOT_SUPPORTED
    bare = [*agreeing, Comparison("without an error, against", Estimate(-0.001))]
    assert verdicts.verdict(bare, adjust(bare), joint=p) == verdicts.NOT_SUPPORTED
    assert verdicts.joint_p(agreeing[:1]) is None
    mixed = [Comparison("a", Estimate(0.03, 0.01)), Comparison("b", Estimate(-0.03, 0.01))]
    assert verdicts.joint_p(mixed) == 1


def test_the_joint_test_holds_its_level_however_comparisons_depend():
    """Under no difference at most 5 % are called significant: independent, or all the same."""
    generator = np.random.default_rng(0)
    rates = []
    for share in (0.0, 0.5, 1.0):
        common, own = generator.standard_normal((4000, 1)), generator.standard_normal((4000, 6))
        draws = math.sqrt(share) * common + math.sqrt(1 - share) * own
        p_values = [
            verdicts.joint_p([Comparison(f"{k}", Estimate(z, 1.0)) for k, z in enumerate(row)])
            for row in draws[:500].tolist()
        ]
        rates.append(np.mean(np.array(p_values) < 0.05))
    assert max(rates) < 0.08
    assert rates[-1] > 0.02


def test_a_margin_moves_the_limit_of_the_test():
    assert Comparison("a", Estimate(-0.005, 0.001), margin=0.01).p_value < 1e-6
    assert Comparison("a", Estimate(-0.005, 0.001), margin=0.01).lead > 0
    assert Comparison("a", Estimate(-0.01, 0.001), margin=0.01).p_value == 1


def test_a_test_of_two_claims_is_one_of_the_family():
    one = Comparison("a", Estimate(0.2, 0.1))
    other = Comparison("b", Estimate(0.2, 0.1))
    assert adjust([one, one])[one.key] == pytest.approx(one.p_value)
    assert adjust([one, other])[one.key] == pytest.approx(2 * one.p_value)


@settings(deadline=None)
@given(FRACTION, FRACTION)
def test_gained_is_positive_where_ours_is_better(ours, base):
    assert gained("crows_pairs", ours, base) == pytest.approx(abs(base - 0.5) - abs(ours - 0.5))
    assert gained("perplexity", ours, base) == pytest.approx(math.log(base / ours))
    assert gained("dto", ours, base) == base - ours == -gained("unqover/religion", ours, base)


# The paper's own numbers


AT_ODDS = {  # claim: printed comparisons as claimed, at the limit, against
    # Lower BBQ for Aya, Mistral, Gemma and Qwen3.
    "bbq": [5, 0, 4],
    "crows_pairs": [5, 1, 3],
    # Above the dense model: Aya, Mistral, Qwen3, DeepSeek; above Wanda: DeepSeek.
    "dto_best": [25, 0, 5],
    # Qwen2.5 and LLaMA at 2:4, Vicuna at 50 %.
    "dto_regimes": [15, 0, 3],
    "bias_regimes": [25, 2, 9],
    "dense_shift": [8, 1, 9],
    "preserves": [50, 0, 4],
    "hit_hardest": [20, 1, 6],
    "near_chance": [5, 0, 1],
}


def test_printed_comparisons():
    found = {}
    for claim in verdicts.CLAIMS:
        leads = [one.lead for one in claim.build(PrintedNumbers())]
        found[claim.slug] = [sum(x > 0 for x in leads), leads.count(0), sum(x < 0 for x in leads)]
    assert {slug: counts for slug, counts in found.items() if any(counts[1:])} == AT_ODDS
    assert [found[slug][0] for slug in ("unqover", "safety", "texts_help")] == [9, 6, 6]
    assert all(map(sum, found.values()))


# Runs


@pytest.fixture(scope="module")
def gain(repo, tmp_path_factory):
    """A run with clear gains, and its claims."""
    root = tmp_path_factory.mktemp("gain")
    with pytest.MonkeyPatch.context() as patch:
        return root, prepare(repo, root, patch)


def test_clear_gains_support_and_clear_losses_contradict(repo, tmp_path, monkeypatch, gain):
    _, found = gain
    for claim in ("unqover", "bbq", "preserves", "dto_regimes"):
        assert found[claim]["verdict"] == verdicts.SUPPORTED, claim
    # The dense model is the best here.
    assert found["dto_best"]["verdict"] == verdicts.CONTRADICTED
    found = prepare(repo, tmp_path / "loss", monkeypatch, {"debias-sparsegpt": 0.45})
    for claim in ("unqover", "bbq", "preserves", "dto_regimes", "dense_shift", "bias_regimes"):
        assert found[claim]["verdict"] == verdicts.CONTRADICTED, claim
    same = {"debias-sparsegpt": 0.6, "sparsegpt": 0.6}
    found = prepare(repo, tmp_path / "same", monkeypatch, same, items=200)
    assert found["unqover"]["verdict"] == verdicts.NOT_SUPPORTED


def test_evidence_is_that_of_significance_csv(gain):
    root, found = gain
    asked = {"benchmark": "unqover", "metric": "acc", "against": "method"}
    (row,) = read_csv(root / "significance.csv", **asked)
    text = found["unqover"]["evidence"]
    df, stderr = int(row["units"]) - 1, float(row["stderr"])
    # The interval of one comparison, widened for all of the table.
    tested = {
        text.rpartition(", p ")[0]
        for claim in found.values()
        for text in claim["evidence"].split("; ")
        if ", p " in text
    }
    half = stderr * t.isf(0.025 / len(tested), df)
    assert f"{100 * float(row['diff']):+.2f} [" in text
    assert f"[{100 * (float(row['diff']) - half):+.2f}, " in text
    assert "n = 500" in text
    assert found["unqover"]["comparisons"] == found["unqover"]["clearly_for"] == "1"


def test_what_a_run_lacks_is_named(repo, tmp_path, monkeypatch):
    found = prepare(repo, tmp_path, monkeypatch, items=40)
    for claim, reason in (
        ("texts_help", "lacks World-Llama, SparseGPT, 2:4, StereoSet + UltraChat (256)"),
        ("uncertainty", "a second model at 1:4"),
        ("safety", "a guard model for RealToxicityPrompts (a word list does not test it)"),
    ):
        assert found[claim]["verdict"] == verdicts.NOT_TESTED
        assert reason in found[claim]["reason"]
    # Ten items a category are too few clusters.
    assert found["categories"]["reason"] == "measured without a standard error"


def test_throughput_is_compared_round_by_round(repo, tmp_path):
    """The made-up machine is five times slower in its last round; each ratio has 1 % of noise.

    One round says nothing of chance.
    """
    write_run(small_config(repo, tmp_path, only=["main", "efficiency"]), 40)
    found = claims_of(tmp_path)
    assert found["faster"]["verdict"] == verdicts.SUPPORTED
    path = next((tmp_path / "serving").rglob("efficiency.json"))
    rounds = read_measurement(str(path))
    logs = log_ratios(
        rounds, ["world/sparsegpt/2of4/ss-uc256/s0"], "decode_tok_per_s", [rounds["dense"]]
    )
    mean, error = np.mean(logs), np.std(logs, ddof=1) / len(logs) ** 0.5
    text = found["faster"]["evidence"]
    assert f"throughput of SparseGPT vs dense {100 * np.expm1(mean):+.1f} %" in text
    # Bonferroni over the comparisons of the table, by Student's t of four degrees of freedom.
    low = float(text.split("[")[1].split(" %")[0].replace("−", "-"))
    tests = 0.025 / t.sf((mean - np.log1p(low / 100)) / error, 4)
    assert 5 < tests < 200
    assert "n = 5" in text
    first = [one for one in rounds["rounds"] if one["round"] == 1]
    write_sealed(path, rounds | {"rounds": first})
    found = claims_of(tmp_path)["faster"]
    assert found["verdict"] == verdicts.NOT_TESTED
    assert found["reason"] == "measured without a standard error"
    assert "throughput of SparseGPT vs dense +3" in found["evidence"]


def estimated(root, compute, *wanted):
    return RunNumbers(run_of(root)).estimate(compute, *wanted)


def test_seeds_widen_the_interval(repo, tmp_path, monkeypatch):
    prepare(repo, tmp_path, monkeypatch, items=200, seeds=[0, 1, 2], methods=["dense", *METHODS])
    both = [(("world", method, "1of4", "ss"), "unqover") for method in METHODS]
    found = estimated(tmp_path, np.subtract, *both)
    asked = {"method": "debias-sparsegpt", "benchmark": "unqover", "metric": "acc"}
    rows = read_csv(tmp_path / "significance.csv", against="method", **asked)
    mean = next(row for row in rows if row["seed"] == "mean")
    singles = [float(row["diff"]) for row in rows if row["seed"] != "mean"]
    assert found.value == pytest.approx(float(mean["diff"])) == pytest.approx(np.mean(singles))
    # Items and seeds are random, and the file has the interval for these seeds alone too.
    assert found.stderr == pytest.approx(float(mean["stderr"]), rel=1e-5)
    assert found.stderr > np.std(singles, ddof=1) / 3**0.5
    assert float(mean["low"]) < float(mean["low_fixed"]) < float(mean["diff"])
    assert float(mean["p_fixed"]) < float(mean["p"])
    assert found.n == 200
    # The table has the mean and how far the seeds lie apart.
    rows = read_csv(tmp_path / "results.csv", category="", **asked)
    values = [100 * float(row["value"]) for row in rows]
    row = {row["method"]: row for row in made_table(tmp_path, "main")}["debias-sparsegpt"]
    assert row["seeds"] == "0 1 2"
    assert float(row["unqover"]) == pytest.approx(np.mean(values), abs=0.006)
    assert float(row["unqover_sd"]) == pytest.approx(np.std(values, ddof=1), abs=0.006)
    assert " ± " in (tmp_path / "tables/main.md").read_text()


def grown(path):
    """Each record four times over, as one cluster of items that go together."""
    return [
        row | {"item_id": f"{row['item_id']} {k}", "cluster": row.get("cluster", row["item_id"])}
        for row in read_records(path)
        for k in range(4)
    ]


def test_errors_are_of_clusters_whatever_is_compared(repo, tmp_path, monkeypatch):
    """Each item four times over says no more than once: for calibrations, dense, one value."""
    grid = {"methods": ["dense", *METHODS], "calibrations": ["ss", "ss-uc4"]}
    prepare(repo, tmp_path, monkeypatch, items=200, **grid)
    dense = ("world", "dense", "dense", "none")
    ours, base = (("world", method, "1of4", "ss") for method in METHODS)
    other = (*ours[:3], "ss-uc4")

    def errors():
        return [
            estimated(tmp_path, compute, *wanted).stderr
            for compute, wanted in (
                (np.subtract, [(ours, "unqover"), (other, "unqover")]),
                (np.subtract, [(ours, "unqover"), (dense, "unqover")]),
                (lambda a, b, c: abs(b - c) - abs(a - c),
                 [(ours, "unqover"), (base, "unqover"), (dense, "unqover")]),
                (lambda a, b, c, d: abs(a - b) - abs(c - d),
                 [(ours, "unqover"), (dense, "unqover"), (ours, "mmlu"), (dense, "mmlu")]),
                (lambda a: -abs(a - 1 / 3), [(ours, "unqover")]),
            )
        ]  # fmt: skip

    once = errors()
    monkeypatch.setattr(item_sums, "read_records", grown)
    assert all(once)
    assert errors() == pytest.approx(once)
    # results.csv, so tables, page and figures, have the same error of one value.
    cell = {"benchmark": "unqover", "metric": "acc", "category": ""}
    (row,) = read_csv(tmp_path / "results.csv", method=METHODS[0], calibration="ss", **cell)
    assert float(row["stderr"]) == pytest.approx(once[-1])
    # Two values on the same items are no independent ones.
    accuracies = [estimated(tmp_path, lambda a: a, (one, "unqover")).stderr for one in (ours, base)]
    paired = estimated(tmp_path, np.subtract, (ours, "unqover"), (base, "unqover")).stderr
    assert paired != pytest.approx(math.hypot(*accuracies), rel=1e-3)
