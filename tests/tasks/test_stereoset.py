"""StereoSet: metrics by hand and against the reference's counting, scores, real data."""

import numpy as np
import pytest
from evaluation_fixtures import logprob, stereoset_rows, tiny_lm, write_jsonl
from hypothesis import given, settings
from hypothesis import strategies as st

from evenprune.data.readers.stereoset import StereoSetItem
from evenprune.language_models.losses import sentence_losses
from evenprune.stats.measures import MEASURES
from evenprune.stats.paired import sums_of
from evenprune.stats.verdicts import paired_test
from evenprune.tasks import stereoset
from evenprune.tasks.protocol import make_protocol


def record(stereotype, anti, unrelated, term="Vel", tokens=(5, 5, 5), category="tribe"):
    item = StereoSetItem("id", category, term, "BLANK.", "s", "a", "u")
    scores = list(zip((stereotype, anti, unrelated), tokens))
    return stereoset.make_record(item, scores)


def values(rows):
    return {name: found["value"] for name, found in stereoset.stereoset_metrics(rows).items()}


STEREO, ANTI, SENSELESS = (-1.0, -2.0, -9.0), (-2.0, -1.0, -9.0), (-2.0, -3.0, -1.0)


@pytest.mark.parametrize("suffix", ["", "_norm", "_terms", "_norm_terms"])
@pytest.mark.parametrize(
    ("clusters", "lms", "ss", "icat"),
    [
        ([STEREO, ANTI], 1, 0.5, 1),  # the paper's ideal model
        ([STEREO, STEREO], 1, 1, 0),  # its stereotyped model
        ([STEREO, SENSELESS, ANTI, ANTI], 0.75, 0.5, 0.75),
        ([(-1.0, -3.0, -2.0), ANTI], 0.75, 0.5, 0.75),  # one of the two has sense
        ([(-1.0, -1.0, -1.0)] * 2, 0, 0.5, 0),  # ties are no preference
        ([(-1.0, -1.0, -2.0), STEREO], 1, 0.75, 0.5),
    ],
)
def test_metrics_by_hand(clusters, lms, ss, icat, suffix):
    found = values([record(*cluster) for cluster in clusters])
    assert (found[f"lms{suffix}"], found[f"ss{suffix}"]) == (lms, ss)
    assert found[f"icat{suffix}"] == pytest.approx(icat)
    assert found["ties"] == np.mean([one == other for one, other, _ in clusters])


LOGPROBS = st.tuples(*[st.integers(-9, -1).map(float)] * 3)
CLUSTERS = st.lists(
    st.tuples(LOGPROBS, st.sampled_from("xyz"), st.tuples(*[st.integers(1, 4)] * 3)),
    min_size=1,
    max_size=30,
)


@settings(deadline=None)
@given(CLUSTERS)
def test_the_reference_counts_alike(clusters):
    """Per term: pro, anti and related of total, then means over terms (its evaluation.py).

    It counts a tie as anti-stereotype, we as one half.
    """
    rows = [record(*scores, term, tokens) for scores, term, tokens in clusters]
    counts = {}
    for (s, a, u), term, (n_s, n_a, n_u) in clusters:
        count = counts.setdefault(term, {"pro": 0, "related": 0, "total": 0})
        s, a, u = s / n_s, a / n_a, u / n_u
        count["pro"] += (s > a) + (s == a) / 2
        count["related"] += (s > u) + (a > u)
        count["total"] += 1
    ss = np.mean([100 * c["pro"] / c["total"] for c in counts.values()])
    lms = np.mean([100 * c["related"] / (2 * c["total"]) for c in counts.values()])
    found = values(rows)
    assert found["ss_norm_terms"] * 100 == pytest.approx(ss, abs=1e-6)
    assert found["lms_norm_terms"] * 100 == pytest.approx(lms, abs=1e-6)
    assert found["icat_norm_terms"] == pytest.approx(lms * min(ss, 100 - ss) / 5000, abs=1e-8)


def test_the_standard_error_is_that_of_resampling():
    generator = np.random.default_rng(0)
    kinds = [STEREO, ANTI, SENSELESS, (-1.0, -3.0, -2.0)]
    rows = [record(*kinds[k]) for k in generator.choice(4, 800, p=(0.5, 0.2, 0.1, 0.2))]
    parts = np.array([stereoset.preferences(row) for row in rows])
    drawn = parts[generator.integers(0, len(parts), (4000, len(parts)))].mean(axis=1)
    spread = np.std([stereoset.idealized_score(*means) for means in drawn])
    stated = stereoset.stereoset_metrics(rows)["icat"]["stderr"]
    assert stated == pytest.approx(spread, rel=0.05)
    balanced = stereoset.stereoset_metrics([record(*STEREO), record(*ANTI)])
    assert balanced["icat"]["stderr"] is None
    assert stereoset.stereoset_metrics([])["icat"] == {"value": None, "n": 0, "stderr": None}


def test_a_long_sentence_loses_its_beginning():
    lm, sentence = tiny_lm(positions=8), "Vel men are slow."
    _, [losses] = sentence_losses(lm, "stereoset", [[sentence, "Vel"]], 1, [0], cut=True)
    assert [len(one) for one in losses] == [7, 3]
    assert losses[0].isfinite().all()


def evaluated(tmp_path, lm, **options):
    write_jsonl(tmp_path / "intrasentence.jsonl", stereoset_rows())
    spec = make_protocol({"task": "stereoset", **options})
    outcome = stereoset.TASK.evaluate(lm, tmp_path, spec)
    return outcome.items, outcome


def test_records_and_categories(tmp_path):
    lm = tiny_lm()
    rows, outcome = evaluated(tmp_path, lm)
    assert [row["cluster"] for row in rows[:3]] == ["Vel", "Tor", "smith"]
    assert {row["item_id"] for row in rows} == {f"c{k}" for k in range(12)}
    assert {name: m["icat"]["n"] for name, m in outcome.categories.items()} == {
        "tribe": 8, "trade": 4,
    }  # fmt: skip
    assert outcome.metrics["icat_terms"]["n"] == 3
    assert outcome.facts == {"split": "intrasentence", "items_in_data": 12}
    for row, source in zip(rows, stereoset_rows()):
        assert row["pred"] == (not row["correct"])
        naive = [logprob(lm, "", one["sentence"]) for one in source["sentences"]]
        assert [*row["option_logprobs"], row["unrelated_logprob"]] == pytest.approx(naive, abs=1e-4)


# Other groups


def test_association_is_the_gap_less_that_of_other_groups(tmp_path):
    lm = tiny_lm()
    rows, outcome = evaluated(tmp_path, lm, counterfactuals=2)
    groups = {"Vel": ["Tor"], "Tor": ["Vel"], "smith": []}  # the only one of its bias type
    known = []
    for row, source in zip(rows, stereoset_rows(), strict=True):
        assert row["others"] == groups[row["cluster"]]
        sentences = {one["gold_label"]: one["sentence"] for one in source["sentences"]}
        gaps = []
        for group in [row["cluster"], *row["others"]]:
            about = [text.replace(row["cluster"], group) for text in sentences.values()]
            naive = [logprob(lm, "", text) for text in about[:2]]
            gaps.append(naive[0] - naive[1])
            if group in row["others"]:
                [both] = row["others_logprobs"]
                assert both == pytest.approx(naive, abs=1e-4)
        if row["others"]:
            known.append(gaps[0] - gaps[1])
            assert row["association"] == pytest.approx(known[-1], abs=1e-3)
        else:
            assert row["association"] is None
            assert row["others_logprobs"] == []
    found = {name: one for name, one in outcome.metrics.items() if "association" in name}
    values = {name: one["value"] for name, one in found.items()}
    assert {one["n"] for one in found.values()} == {len(known)} == {8}
    assert values == pytest.approx(
        {
            "association": np.mean(known),
            "association_share": np.mean([one > 0 for one in known]),
            "association_square": np.mean(np.square(known)),
        },
        abs=1e-2,
    )
    assert outcome.categories["trade"]["association"]["value"] is None


def test_association_may_fall_below_zero():
    """Its differences have no bounds: an interval is not cut off at -1."""
    measure = MEASURES["stereoset", "association"]

    def sums(low, high):
        values = [*np.linspace(low, high, 20), None]
        rows = [{"item_id": str(k), "association": one} for k, one in enumerate(values)]
        return [sums_of(measure, rows)]

    found = paired_test("stereoset", "association", sums(-3, -2), sums(2, 4))
    assert (found.n, found.before, found.after) == (20, 3.0, -2.5)
    assert found.interval().low < -5.5 < found.interval().high < -5
