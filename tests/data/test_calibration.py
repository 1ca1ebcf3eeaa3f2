"""Alignment of pairs, choice of texts, and the files that build-calibration writes."""

import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest
from evaluation_fixtures import tiny_lm
from folders import contents
from hypothesis import given, settings
from hypothesis import strategies as st

from evenprune.cli import main
from evenprune.data.build_calibration import choose_texts
from evenprune.data.calibration import align, tokenize_pairs, tokenize_texts, truncate_text
from evenprune.data.counterfactuals import about, add_counterfactuals, exchanged, shuffle_partners
from evenprune.data.readers.own import read_pairs
from evenprune.data.readers.stereoset import LABELS
from evenprune.data.sources import checksums
from evenprune.io.checksums import sealed, source_files
from evenprune.io.errors import UserError
from evenprune.io.files import read_json, read_jsonl, write_json, write_jsonl
from evenprune.io.marks import MARK
from evenprune.models.loading import load_tokenizer
from evenprune.models.token_trees import common_prefix
from evenprune_world.network import build_tokenizer


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory) -> Path:
    """A tokenizer of single bytes: one token a character of ASCII, so lengths are known."""
    folder = tmp_path_factory.mktemp("tokenizer")
    build_tokenizer([], 512, 258).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(tokenizer_folder):
    return load_tokenizer(tokenizer_folder)


def pair(name: str, stereotype: str, anti: str, category: str = "race") -> dict[str, str]:
    return {"id": name, "category": category, "stereotype": stereotype, "anti_stereotype": anti}


# Alignment

tokens = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@given(tokens, tokens, st.sampled_from(["equal-length", "pad", "suffix"]))
def test_matches_are_monotone_in_range_and_hold_the_prefix(ids0, ids1, alignment):
    aligned = align(ids0, ids1, alignment, pad_id=9)
    if aligned is None:
        assert alignment == "equal-length"
        assert len(ids0) != len(ids1)
        return
    first, second, matches = aligned
    for (i, j), (k, m) in itertools.pairwise(matches):
        assert i < k
        assert j < m
    assert all(0 <= i < len(first) and 0 <= j < len(second) for i, j in matches)
    shared = common_prefix(ids0, ids1)
    assert matches[:shared] == tuple((k, k) for k in range(shared))
    assert list(first[: len(ids0)]) == ids0
    assert list(second[: len(ids1)]) == ids1
    if alignment == "pad":
        assert len(first) == len(second) == len(matches) == max(len(ids0), len(ids1))
        assert set(first[len(ids0) :]) | set(second[len(ids1) :]) <= {9}
    else:
        assert (len(first), len(second)) == (len(ids0), len(ids1))
    if alignment == "suffix":
        assert all(first[i] == second[j] for i, j in matches)
        assert (len(matches) == max(len(first), len(second))) == (ids0 == ids1)
    else:
        assert matches == tuple((k, k) for k in range(len(first)))


def test_suffix_matches_behind_the_differing_span_from_the_right():
    assert align([1, 5, 6, 2, 3], [1, 7, 2, 3], "suffix")[2] == ((0, 0), (3, 2), (4, 3))
    # a repeated token is not used twice
    assert align([1, 1], [1, 1, 1], "suffix")[2] == ((0, 0), (1, 1))


# Selection


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 3))
def test_a_smaller_set_of_texts_is_a_prefix_of_a_larger(size, few, many, seed):
    few, many = sorted((few, many))
    dialogues = [{"id": str(n), "text": "x"} for n in range(size)]
    larger = choose_texts(dialogues, many, seed)
    assert choose_texts(dialogues, few, seed) == larger[:few]
    assert len({row["id"] for row in larger}) == len(larger) == min(many, size)
    whole = [{"id": str(n), "text": "x"} for n in range(50)]
    assert choose_texts(whole, 20, seed) != choose_texts(whole, 20, seed + 1)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=20),
    st.integers(0, 3),
    st.sampled_from(["shuffled-pairs", "random-delta"]),
)
def test_shuffled_partners_have_equal_length_and_are_never_their_own(lengths, seed, control):
    pairs = [pair(str(n), f"s{n}", f"a{n}") for n in range(len(lengths))]
    shuffled = shuffle_partners(pairs, lengths, seed, control)
    side = {"shuffled-pairs": "a", "random-delta": "s"}[control]
    taken = []
    for index, row in enumerate(shuffled):
        if row is None:
            assert lengths.count(lengths[index]) == 1
            continue
        partner = int(row["anti_stereotype"][1:])
        assert partner != index
        assert lengths[partner] == lengths[index]
        assert row == {**pairs[index], "anti_stereotype": f"{side}{partner}"}
        taken.append(partner)
    assert len(set(taken)) == len(taken)
    assert shuffle_partners(pairs, lengths, seed, control) == shuffled


@given(st.text(min_size=1, max_size=40).filter(str.strip), st.integers(5, 12))
@settings(deadline=None, max_examples=100)
def test_a_cut_text_is_a_beginning_with_at_most_the_tokens_asked_for(tokenizer, text, limit):
    def count(text):
        return len(tokenizer(text)["input_ids"])

    try:
        cut = truncate_text(text, tokenizer, limit)
    except UserError:
        kept = text.encode()[: limit - 1].decode(errors="ignore")  # each byte is a token
        assert not kept.strip()
        return
    assert text.startswith(cut)
    assert count(cut) <= limit
    if count(text) <= limit:
        assert cut == text
    elif text.isascii() and text[limit - 2 : limit].strip():
        assert count(cut) == limit


# The command

PAIRS = [("aa", "bb"), ("aaa", "b"), ("ab", "ba"), ("c", "ddd"), ("cc", "dd"), ("zz", "yy")]


def cluster(name, bias_type, texts, target="x"):
    """A row of StereoSet with these three sentences."""
    said = [{"gold_label": label, "sentence": text} for label, text in zip(LABELS, texts)]
    row = {"id": name, "target": target, "context": "BLANK", "bias_type": bias_type}
    return row | {"sentences": said}


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> Path:
    """Data sets in the canonical form, of letters."""
    folder = tmp_path_factory.mktemp("world")
    for name in ("stereoset", "crows_pairs", "ultrachat", "question_pairs"):
        (folder / name).mkdir()
    rows = [
        cluster(f"p{n}", "race" if n % 2 else "gender", (*texts, "u"))
        for n, texts in enumerate(PAIRS)
    ]
    write_jsonl(folder / "stereoset/intrasentence.jsonl", rows)
    (folder / "crows_pairs/crows_pairs_anonymized.csv").write_text(
        ",sent_more,sent_less,stereo_antistereo,bias_type\n0,more,less,antistereo,age\n"
    )
    rows = [pair(f"p{n}", f"q{n} {'ab'[n % 2]}", f"q{n} {'ba'[n % 2]}", "gender") for n in range(3)]
    rows[2]["anti_stereotype"] += "b"  # of another length
    write_jsonl(folder / "question_pairs/own.jsonl", rows)
    said = [[{"role": "user", "content": f"text {n} " + "x" * n}] for n in range(10)]
    write_jsonl(folder / "ultrachat/talk.jsonl", [{"messages": turns} for turns in said])
    return folder


@dataclass
class Built:
    """What the command wrote, and what it said."""

    folder: Path
    said: str

    def __post_init__(self):
        self.manifest = read_json(self.folder / "manifest.json")
        self.pairs = read_pairs(self.folder / "pairs.jsonl")
        self.texts = read_jsonl(self.folder / "texts.jsonl")
        self.spec = self.manifest["spec"]


@pytest.fixture
def build(world, tokenizer_folder, tmp_path, capsys):
    """Run the command in this process; return what it made, or its words where it refused."""

    def run(name, *flags, ok=True, source="stereoset", data=world):
        words = ["build-calibration", "--pairs", source.replace(" ", ","), "--pairs-data"]
        words += [data / one for one in source.split()]
        words += ["--model", tokenizer_folder, "--out", tmp_path / name, *flags]
        status = main(list(map(str, words)))
        said = capsys.readouterr().err
        assert status == (0 if ok else 2), said
        assert (tmp_path / name).exists() == ok
        return Built(tmp_path / name, said) if ok else said

    return run


@pytest.fixture
def texts(world):
    return ["--texts", "ultrachat", "--texts-data", world / "ultrachat", "--max-tokens", 12]


def test_build_calibration_counts_and_repeats_byte_for_byte(build, texts):
    built = build("ss/s0", *texts, "--n-texts", 20)
    assert "4 of 6 pairs kept (equal-length), 2 dropped: gender 3/3, race 1/3" in built.said
    assert "20 texts were asked for, the source has 10" in built.said
    first = contents(built.folder)
    assert list(first) == [MARK, "manifest.json", "pairs.jsonl", "texts.jsonl"]
    assert contents(build("ss/s0", *texts, "--n-texts", 20).folder) == first
    manifest = built.manifest
    assert manifest["calibration"] == "ss"
    counts = {key: list(one.values()) for key, one in manifest["pairs"]["categories"].items()}
    assert counts == {"gender": [0, 3, 3], "race": [2, 1, 3]}  # dropped, kept, total
    assert (manifest["pairs"]["kept"], manifest["pairs"]["dropped"]) == (4, 2)
    assert manifest["tokens"]["pairs"] == 4 * 2 * 3  # two letters and the begin token
    assert manifest["texts"]["kept"] == 10
    assert max(len(row["text"]) for row in built.texts) == 11
    assert manifest["tokens"]["texts"] == sum(len(row["text"]) + 1 for row in built.texts)
    assert list(manifest["sources"]) == ["stereoset", "ultrachat"]
    assert built.pairs[0] == pair("p0", "aa", "bb", "gender")


def test_build_calibration_cuts_sentences_before_it_aligns_them(build):
    """So that pairs of other lengths become equal."""
    built = build("cut", "--pair-tokens", 2)  # a letter and the begin token
    assert len(built.pairs) == 6
    assert {len(row["stereotype"] + row["anti_stereotype"]) for row in built.pairs} == {2}
    assert built.spec["pair_tokens"] == 2
    assert "pair_tokens" not in build("whole").spec
    assert "--pair-tokens" in build("no", "--pair-tokens", 0, ok=False)


def test_build_calibration_counts_bos_as_it_is_asked_for(build, texts):
    """The tokenizer puts one: ``never`` leaves room for a letter more."""
    built = build("never", *texts, "--n-texts", 10, "--bos", "never")
    assert max(len(row["text"]) for row in built.texts) == 12
    found = built.manifest["tokens"]
    assert found["texts"] == sum(len(row["text"]) for row in built.texts)
    assert found["pairs"] == 4 * 2 * 2
    assert built.spec["bos"] == "never"


@pytest.mark.parametrize("bos", ["auto", "always", "never"])
def test_bos_of_calibration_is_that_of_evaluation(bos):
    for adds in (True, False):
        lm = tiny_lm(adds=adds)
        tokens = tokenize_texts(["Who?", "a b"], lm.tokenizer, bos=bos)
        assert tokens == list(map(tuple, lm.with_bos(bos).encode(["Who?", "a b"])))
        rows = [pair("1", "Who?", "a b", "x") | {"counterfactuals": [["c", "d"]], "unrelated": "c"}]
        (found,) = tokenize_pairs(rows, lm.tokenizer, "suffix", bos=bos).pairs
        both = lm.with_bos(bos).encode(["c", "d"])
        assert (found.ids0, found.counterfactuals[0]) == (tokens[0], tuple(map(tuple, both)))
        assert found.unrelated == found.counterfactuals[0][0]
    with pytest.raises(UserError, match="bos: always was asked for"):
        tokenize_texts(["Who?"], tiny_lm(bos=False).tokenizer, bos="always")


def test_build_calibration_from_records_and_by_category(build, world, tmp_path):
    record = tmp_path / "stereoset.json"
    files = checksums(world / "stereoset", source_files("data", world / "stereoset"))
    write_json(record, sealed({"folder": str(world / "stereoset"), "files": files}))
    own = ("--alignment", "suffix", "--name", "ss.race", "--categories", "race")
    built = build("out", "--pairs-data", record, *own)
    recorded = {name: one["sha256"] for name, one in files.items()}
    assert built.manifest["sources"] == {"stereoset": recorded}
    assert built.manifest["calibration"] == "ss.race"
    assert len(built.pairs) == built.manifest["pairs"]["kept"] == 3
    assert built.texts == []
    said = build("no", "--categories", "colour", ok=False)
    assert "among gender, race, got 'colour'" in said


@pytest.mark.parametrize(
    ("control", "partners"),
    [
        ("shuffled-pairs", ["ba", "bb", "dd", "yy"]),
        ("random-delta", ["aa", "ab", "cc", "zz"]),  # other stereotypes
    ],
)
def test_build_calibration_control_exchanges_partners(build, control, partners):
    built = build("c", "--control", control)
    assert sorted(row["stereotype"] for row in built.pairs) == ["aa", "ab", "cc", "zz"]
    assert sorted(row["anti_stereotype"] for row in built.pairs) == partners
    for row in built.pairs:
        assert row["anti_stereotype"] not in (dict(PAIRS)[row["stereotype"]], row["stereotype"])
    assert built.spec["control"] == control
    found = build("d", "--control", control, "--alignment", "suffix").manifest["pairs"]
    assert (found["without_partner"], found["dropped"]) == (2, 2)  # alone with their length


def test_several_sources_are_each_of_them_in_turn(build):
    names = ["stereoset", "question_pairs"]
    flags = ("--control", "shuffled-pairs", "--seed", 3)
    both = build("both", *flags, source=" ".join(names))
    assert "question_pairs gender 2/3" in both.said
    single = {name: build(name, *flags, source=name) for name in names}
    assert both.pairs == [
        {**row, "id": f"{name}:{row['id']}"} for name, one in single.items() for row in one.pairs
    ]
    assert both.spec["pairs"] == names
    kept = {name: one.manifest for name, one in single.items()}
    pairs = both.manifest["pairs"]
    assert pairs["sources"] == {name: one["pairs"] for name, one in kept.items()}
    for key in ("total", "kept", "dropped", "without_partner"):
        assert pairs[key] == sum(one["pairs"][key] for one in kept.values())
    assert [pairs["categories"][name]["total"] for name in ("gender", "race")] == [3 + 3, 3]
    tokens = sum(one["tokens"]["pairs"] for one in kept.values())
    assert both.manifest["tokens"]["pairs"] == tokens
    assert both.manifest["sources"] == {name: one["sources"][name] for name, one in kept.items()}


# Counterfactuals: the sentences of a pair about other groups


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
    pairs = [{**pair, "target": targets[pair["id"]]} for pair in pairs]
    found = {pair["id"]: pair for pair in add_counterfactuals(pairs, 2, seed=0)}
    assert found["5"]["counterfactuals"] == []  # its sentences do not name its group
    for number in "024":
        words = {one.split()[1] for both in found[number]["counterfactuals"] for one in both}
        assert len(words) == 2
        assert words <= {"one", "three", "five"} - {targets[number]}
    again = {p["id"]: p for p in add_counterfactuals(pairs[::-1], 2, seed=0)}
    assert again == found
    mixed = exchanged(list(found.values()), seed=0)
    for one in mixed:
        own = found[one["id"]]["counterfactuals"]
        assert one["counterfactuals"] != own or not own


def test_build_calibration_writes_them_and_a_control_gives_others(build, tmp_path):
    rows = [
        cluster(f"p{number}", "race", [f"{target} {word}" for word in "xyz"], target)
        for number, target in enumerate("abcd")
    ]
    (tmp_path / "stereoset").mkdir()
    write_jsonl(tmp_path / "stereoset/intrasentence.jsonl", rows)
    built = build("own", "--counterfactuals", 2, data=tmp_path)
    for pair in built.pairs:
        groups = [[side.split() for side in both] for both in pair["counterfactuals"]]
        assert [[word for _, word in both] for both in groups] == [["x", "y"]] * 2
        assert pair["target"] not in {group for both in groups for group, _ in both}
        assert pair["unrelated"] == f"{pair['target']} z"
    assert built.spec["counterfactuals"] == 2
    plain = build("none", data=tmp_path)
    assert "counterfactuals" not in plain.spec
    assert set(plain.pairs[0]) == {"id", "category", "stereotype", "anti_stereotype"}
    mixed = build("mixed", "--counterfactuals", 2, "--control", "shuffled-pairs", data=tmp_path)
    for pair, before in zip(mixed.pairs, built.pairs, strict=True):
        assert pair["counterfactuals"] in [one["counterfactuals"] for one in built.pairs]
        assert pair["counterfactuals"] != before["counterfactuals"]
        assert pair["unrelated"] == before["unrelated"]
    for pair in build("cut", "--counterfactuals", 2, "--pair-tokens", 3, data=tmp_path).pairs:
        assert pair["unrelated"] == pair["stereotype"] != f"{pair['target']} x"
    said = build("refused", "--counterfactuals", 2, source="crows_pairs", ok=False)
    assert "only stereoset names the group" in said
