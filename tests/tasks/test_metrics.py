import math
from collections import Counter
from itertools import permutations
from types import SimpleNamespace

import pytest
from evaluation_fixtures import bbq_rows, unqover_rows, write_jsonl
from hypothesis import given
from hypothesis import strategies as st

from evenprune.data.readers.bbq import BBQ_ORDER, read_bbq
from evenprune.data.readers.unqover import read_unqover
from evenprune.stats import metrics
from evenprune.tasks import bbq, unqover
from evenprune.tasks.lettered_options import order_metrics
from evenprune.tasks.sampling import stratified_sample


def option_record(logits, gold, **extra):
    return {
        "option_logits": logits, "pred": logits.index(max(logits)), "gold": gold,
        "correct": logits.index(max(logits)) == gold, "tie": logits.count(max(logits)) > 1,
        "mass": 0.5, "category": "c", **extra,
    }  # fmt: skip


def test_mean_and_its_standard_error():
    found = metrics.mean([1.0, 0.0, 0.0, 1.0])
    assert found == {"value": 0.5, "n": 4, "stderr": pytest.approx(math.sqrt(1 / 3) / 2)}
    assert metrics.mean([]) == {"value": None, "n": 0, "stderr": None}
    assert metrics.mean([1.0])["stderr"] is None


def test_calibration_error_by_hand():
    # Bins (0.5, 0.6] and (0.9, 1]: |1 - (0.55 + 0.6)| + |1 - 0.95| over three items.
    found = metrics.expected_calibration_error([0.55, 0.6, 0.95], [True, False, True])
    assert found == pytest.approx((0.15 + 0.05) / 3)
    assert metrics.expected_calibration_error([], []) is None


def test_uncertainty_splits_by_correct_and_shares_ties():
    records = [
        option_record([2.0, 0.0, 0.0], 0),
        option_record([1.0, 1.0, 0.0], 1),
        option_record([0.0, 0.0, 5.0], 0),
    ]
    found = metrics.uncertainty(records)
    assert found["confidence_correct"]["n"] == 1
    assert found["confidence_wrong"]["n"] == 2
    assert found["ties"]["value"] == pytest.approx(1 / 3)
    assert found["acc_ties"]["value"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert found["confidence_correct"]["value"] == pytest.approx(1 / (1 + 2 * math.exp(-2)))


def bias_records(*answers):
    """(condition, biased_idx, pred) triples; answer 2 is unknown."""
    return [
        {"condition": c, "biased_idx": b, "pred": p, "unknown_idx": 2, "correct": p == 2}
        for c, b, p in answers
    ]


def test_bias_score_counts_answers_that_are_not_unknown():
    found = metrics.bias_score(bias_records(*[("ambig", 0, p) for p in (0, 0, 0, 1, 2, 2)]))
    assert (found["value"], found["n"]) == (pytest.approx(2 * 3 / 4 - 1), 4)


def test_ambiguous_score_is_scaled_by_ambiguous_accuracy_only():
    records = [
        option_record([3.0, 1.0, 0.0], 2, condition="ambig", biased_idx=0, unknown_idx=2),
        option_record([0.0, 1.0, 3.0], 2, condition="ambig", biased_idx=0, unknown_idx=2),
        option_record([0.0, 3.0, 1.0], 1, condition="disambig", biased_idx=0, unknown_idx=2),
        option_record([0.0, 1.0, 3.0], 1, condition="disambig", biased_idx=0, unknown_idx=2),
    ]
    found = {name: value["value"] for name, value in metrics.bbq_metrics(records).items()}
    names = ("acc_all", "acc_amb", "acc_dis", "unk_rate_dis", "s_amb", "s_dis")
    assert [found[name] for name in names] == pytest.approx([0.5, 0.5, 0.5, 0.5, 0.5, -1])


def test_abstaining_always_gives_no_bias_score_instead_of_zero():
    records = [option_record([0.0, 0.0, 1.0], 2, condition="ambig", biased_idx=0, unknown_idx=2)]
    found = metrics.bbq_metrics(records)
    assert found["acc_amb"]["value"] == 1
    nothing = {"value": None, "n": 0, "stderr": None}
    assert found["s_amb"] == found["s_dis"] == found["acc_dis"] == nothing


def test_biased_answer_follows_the_question(tmp_path):
    write_jsonl(tmp_path / "Tribe.jsonl", bbq_rows())
    for item in read_bbq(tmp_path):
        target = item.groups.index("Vel")
        other = item.groups.index("Tor")
        assert bbq.target_answer(item) == target
        assert bbq.biased_answer(item) == (target if item.polarity == "neg" else other)


@pytest.mark.parametrize(
    ("groups", "names", "stereotyped", "target"),
    [
        (("old", "unknown", "nonOld"), ("a", "b", "c"), ("old",), 0),
        (("highSES", "unknown", "lowSES"), ("a", "b", "c"), ("low SES",), 2),
        (("F-Vel", "unknown", "M-Tor"), ("a", "b", "c"), ("Tor", "Kesh"), 2),
        (("nonTrans_F", "unknown", "trans_M"), ("a", "b", "c"), ("trans",), 2),
        (("man", "unknown", "woman"), ("a", "b", "c"), ("F",), 2),
        (("Coast", "unknown", "Hill"), ("Velian", "b", "Torian"), ("Torian",), 2),
        (("F-Vel", "unknown", "M-Vel"), ("a", "b", "c"), ("Vel",), None),
        (("Coast", "unknown", "Hill"), ("a", "b", "c"), ("Kesh",), None),
    ],
)
def test_target_from_stereotyped_groups(groups, names, stereotyped, target):
    item = SimpleNamespace(groups=groups, names=names, stereotyped_groups=stereotyped, unknown=1)
    assert bbq.target_answer(item) == target


def test_composition_of_the_bbq_splits(shared):
    items = read_bbq(shared / "data/bbq")
    assert len(items) == 58492
    assert sum(item.condition == "ambig" for item in items) == 29246
    helm = bbq.select_split(items, "helm1000")
    counts = Counter(item.category for item in helm)
    assert [counts[name] for name in BBQ_ORDER] == [67, 30, 114, 48, 21, 113, 181, 262, 10, 138, 16]
    assert sum(item.condition == "ambig" for item in helm) == 492
    groups = bbq.select_split(items, "groups8864")
    assert len(groups) == 8864
    ambiguous = Counter(item.category for item in groups if item.condition == "ambig")
    assert [ambiguous[name] for name in BBQ_ORDER] == [
        500, 507, 487, 503, 504, 495, 0, 0, 494, 496, 432
    ]  # fmt: skip
    # Every item of the nine plain attributes has a target, but for two questions where both
    # people have the same gender.
    plain = [item for item in items if item.category not in bbq.INTERSECTIONAL]
    assert sum(bbq.target_answer(item) is None for item in plain) == 16


def test_clusters_join_a_question_and_its_negation(tmp_path):
    write_jsonl(tmp_path / "datas_rebuilt.jsonl", unqover_rows())
    items = read_unqover(tmp_path)
    names = unqover.clusters(items)
    assert names[0] == names[1] == "tribe | Tor | Vel | Who was kind?"
    assert len(set(names)) == 6


def test_order_metrics_see_a_model_that_always_says_a():
    records = [
        {"item_id": "1", "perm": perm, "pred": int(perm[0]), "unknown_idx": 2}
        | {"correct": perm[0] == "2"}
        for perm in map("".join, permutations("012"))
    ]
    found = {name: value["value"] for name, value in order_metrics(records).items()}
    expected = {"share_A": 1, "share_B": 0, "acc_orders": 1 / 3, "acc_all_orders": 0}
    expected |= {"acc_unknown_A": 1, "acc_unknown_C": 0}
    assert {name: found[name] for name in expected} == pytest.approx(expected)


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=60),
    st.integers(1, 70),
    st.integers(0, 5),
)
def test_samples_are_seeded_sorted_and_proportional(strata, limit, seed):
    chosen = stratified_sample(strata, limit, seed)
    assert chosen == stratified_sample(strata, limit, seed)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(limit, len(strata))
    for name in set(strata):
        share = limit * strata.count(name) / len(strata)
        drawn = sum(strata[k] == name for k in chosen)
        assert drawn <= strata.count(name)
        if limit < len(strata):
            assert abs(drawn - share) < 1
