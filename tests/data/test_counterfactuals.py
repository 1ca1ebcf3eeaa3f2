"""Counterfactuals: the sentences of a pair about other groups, and the command that makes them."""

import pytest
from test_calibration import cluster, make_tokenizer

from evenprune.cli import main
from evenprune.data.counterfactuals import about, add_counterfactuals, exchanged
from evenprune.data.readers.own import read_pairs
from evenprune.io.files import read_json, write_jsonl


@pytest.mark.parametrize(
    ("sentence", "target", "other", "right"),
    [
        ("Ethiopian men are tall", "Ethiopian", "norwegian", "Norwegian men are tall"),
        ("the nurse met a nurse.", "nurse", "Pilot", "the Pilot met a Pilot."),
        ("she was there", "he", "she", None),
        ("A schoolgirl's bag", "schoolgirl", "sir", "A sir's bag"),
    ],
)
def test_a_sentence_about_another_group(sentence, target, other, right):
    assert about(sentence, target, other) == right


def test_counterfactuals_are_drawn_by_id_from_the_same_bias_type():
    pairs = [
        {"id": str(k), "category": "cd"[k % 2], "stereotype": f"a {name} x",
         "anti_stereotype": f"a {name} y"}
        for k, name in enumerate(["one", "two", "three", "four", "five", "six"])
    ]  # fmt: skip
    targets = dict(zip("012345", ["one", "two", "three", "four", "five", "nowhere"], strict=True))
    found = {pair["id"]: pair for pair in add_counterfactuals(pairs, targets, 2, seed=0)}
    assert found["5"]["counterfactuals"] == []  # its sentences do not name its group
    for number in "024":
        words = {one.split()[1] for both in found[number]["counterfactuals"] for one in both}
        assert len(words) == 2
        assert words <= {"one", "three", "five"} - {targets[number]}
    again = {p["id"]: p for p in add_counterfactuals(pairs[::-1], targets, 2, seed=0)}
    assert again == found
    mixed = exchanged(list(found.values()), seed=0)
    for one in mixed:
        own = found[one["id"]]["counterfactuals"]
        assert one["counterfactuals"] != own or not own


def test_build_calibration_writes_them_and_a_control_gives_others(tmp_path, capsys):
    (tmp_path / "stereoset").mkdir()
    rows = [
        cluster(f"p{number}", "race", [f"{target} {word}" for word in "xyz"], target)
        for number, target in enumerate("abcd")
    ]
    write_jsonl(tmp_path / "stereoset/intrasentence.jsonl", rows)
    model = make_tokenizer(tmp_path / "model")

    def build(name, *flags, source="stereoset"):
        words = ["build-calibration", "--pairs", source, "--pairs-data"]
        words += [str(tmp_path / "stereoset"), "--model", str(model)]
        return main([*words, "--out", str(tmp_path / name), *flags])

    assert build("own", "--counterfactuals", "2") == 0
    own = read_pairs(tmp_path / "own/pairs.jsonl")
    for pair in own:
        groups = [[side.split() for side in both] for both in pair["counterfactuals"]]
        assert [[word for _, word in both] for both in groups] == [["x", "y"]] * 2
        assert pair["target"] not in {group for both in groups for group, _ in both}
        assert pair["unrelated"] == f"{pair['target']} z"
    assert read_json(tmp_path / "own/manifest.json")["spec"]["counterfactuals"] == 2
    assert build("none") == 0
    assert "counterfactuals" not in read_json(tmp_path / "none/manifest.json")["spec"]
    assert set(read_pairs(tmp_path / "none/pairs.jsonl")[0]) == {
        *("id", "category", "stereotype", "anti_stereotype")
    }
    assert build("other", "--counterfactuals", "2", "--control", "shuffled-pairs") == 0
    for pair, before in zip(read_pairs(tmp_path / "other/pairs.jsonl"), own, strict=True):
        assert pair["counterfactuals"] in [one["counterfactuals"] for one in own]
        assert pair["counterfactuals"] != before["counterfactuals"]
        assert pair["unrelated"] == before["unrelated"]
    assert build("cut", "--counterfactuals", "2", "--pair-tokens", "3") == 0
    for pair in read_pairs(tmp_path / "cut/pairs.jsonl"):
        assert pair["unrelated"] == pair["stereotype"] != f"{pair['target']} x"
    (tmp_path / "stereoset/crows_pairs_anonymized.csv").write_text(
        ",sent_more,sent_less,stereo_antistereo,bias_type\n0,more,less,antistereo,age\n"
    )
    assert build("refused", "--counterfactuals", "2", source="crows_pairs") == 2
    assert "only stereoset names the group" in capsys.readouterr().err
