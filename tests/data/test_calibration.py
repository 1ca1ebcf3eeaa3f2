"""Alignment of pairs, choice of texts, and the files that build-calibration writes."""

import itertools
from pathlib import Path

import pytest
from evaluation_fixtures import tiny_lm
from hypothesis import given, settings
from hypothesis import strategies as st

from evenprune.cli import main
from evenprune.data.build_calibration import choose_texts
from evenprune.data.calibration import (
    align,
    tokenize_pairs,
    tokenize_texts,
    truncate_text,
)
from evenprune.data.counterfactuals import shuffle_partners
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


def make_tokenizer(folder: Path) -> Path:
    """Write a tokenizer of single bytes: one token a character of ASCII, so lengths are known."""
    build_tokenizer([], 512, 258).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory) -> Path:
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


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


@pytest.fixture
def build(world, tokenizer_folder, capsys):
    """Run the command in this process; return what it said."""

    def run(out, *flags, ok=True, source="stereoset"):
        words = ["build-calibration", "--pairs", source.replace(" ", ","), "--pairs-data"]
        words += [str(world / name) for name in source.split()]
        words += ["--model", str(tokenizer_folder), "--out", str(out), *map(str, flags)]
        status = main(words)
        said = capsys.readouterr().err
        assert status == (0 if ok else 2), said
        return said

    return run


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_build_calibration_counts_and_repeats_byte_for_byte(build, world, tmp_path):
    texts = ["--texts", "ultrachat", "--texts-data", world / "ultrachat"]
    texts += ["--n-texts", 20, "--max-tokens", 12]
    said = build(tmp_path / "ss" / "s0", *texts)
    assert "4 of 6 pairs kept (equal-length), 2 dropped: gender 3/3, race 1/3" in said
    assert "20 texts were asked for, the source has 10" in said
    first = contents(tmp_path / "ss" / "s0")
    assert list(first) == [MARK, "manifest.json", "pairs.jsonl", "texts.jsonl"]
    build(tmp_path / "ss" / "s0", *texts)
    assert contents(tmp_path / "ss" / "s0") == first
    manifest = read_json(tmp_path / "ss" / "s0" / "manifest.json")
    assert manifest["calibration"] == "ss"
    counts = {key: list(one.values()) for key, one in manifest["pairs"]["categories"].items()}
    assert counts == {"gender": [0, 3, 3], "race": [2, 1, 3]}  # dropped, kept, total
    assert (manifest["pairs"]["kept"], manifest["pairs"]["dropped"]) == (4, 2)
    assert manifest["tokens"]["pairs"] == 4 * 2 * 3  # two letters and the begin token
    assert manifest["texts"]["kept"] == 10
    rows = read_jsonl(tmp_path / "ss/s0/texts.jsonl")
    assert max(len(row["text"]) for row in rows) == 11
    assert manifest["tokens"]["texts"] == sum(len(row["text"]) + 1 for row in rows)
    assert list(manifest["sources"]) == ["stereoset", "ultrachat"]
    assert read_pairs(tmp_path / "ss/s0/pairs.jsonl")[0] == pair("p0", "aa", "bb", "gender")


def test_build_calibration_cuts_sentences_before_it_aligns_them(build, tmp_path):
    """So that pairs of other lengths become equal."""
    build(tmp_path / "cut", "--pair-tokens", 2)  # a letter and the begin token
    pairs = read_pairs(tmp_path / "cut/pairs.jsonl")
    assert len(pairs) == 6
    assert {len(row["stereotype"] + row["anti_stereotype"]) for row in pairs} == {2}
    assert read_json(tmp_path / "cut/manifest.json")["spec"]["pair_tokens"] == 2
    build(tmp_path / "whole")
    assert "pair_tokens" not in read_json(tmp_path / "whole/manifest.json")["spec"]
    said = build(tmp_path / "no", "--pair-tokens", 0, ok=False)
    assert "--pair-tokens" in said
    assert not (tmp_path / "no").exists()


def test_build_calibration_counts_bos_as_it_is_asked_for(build, world, tmp_path):
    """The tokenizer puts one: ``never`` leaves room for a letter more."""
    texts = ["--texts", "ultrachat", "--texts-data", world / "ultrachat"]
    texts += ["--n-texts", 10, "--max-tokens", 12]
    build(tmp_path / "never", *texts, "--bos", "never")
    manifest = read_json(tmp_path / "never/manifest.json")
    rows = read_jsonl(tmp_path / "never/texts.jsonl")
    assert max(len(row["text"]) for row in rows) == 12
    assert manifest["tokens"]["texts"] == sum(len(row["text"]) for row in rows)
    assert manifest["tokens"]["pairs"] == 4 * 2 * 2
    assert manifest["spec"]["bos"] == "never"


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
    build(
        *(tmp_path / "out", "--pairs-data", record, "--categories", "race"),
        *("--alignment", "suffix", "--name", "ss.race"),
    )
    manifest = read_json(tmp_path / "out/manifest.json")
    recorded = {name: one["sha256"] for name, one in files.items()}
    assert manifest["sources"] == {"stereoset": recorded}
    assert manifest["calibration"] == "ss.race"
    assert manifest["pairs"]["kept"] == 3
    assert (tmp_path / "out/texts.jsonl").read_bytes() == b""
    said = build(tmp_path / "no", "--categories", "colour", ok=False)
    assert "among gender, race, got 'colour'" in said
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("control", "partners"),
    [
        ("shuffled-pairs", ["ba", "bb", "dd", "yy"]),
        ("random-delta", ["aa", "ab", "cc", "zz"]),  # other stereotypes
    ],
)
def test_build_calibration_control_exchanges_partners(build, tmp_path, control, partners):
    build(tmp_path / "c", "--control", control)
    rows = read_pairs(tmp_path / "c/pairs.jsonl")
    original = dict(PAIRS)
    assert sorted(row["stereotype"] for row in rows) == ["aa", "ab", "cc", "zz"]
    assert sorted(row["anti_stereotype"] for row in rows) == partners
    for row in rows:
        assert row["anti_stereotype"] not in (original[row["stereotype"]], row["stereotype"])
    assert read_json(tmp_path / "c/manifest.json")["spec"]["control"] == control
    build(tmp_path / "d", "--control", control, "--alignment", "suffix")
    manifest = read_json(tmp_path / "d/manifest.json")
    assert manifest["pairs"]["without_partner"] == 2  # alone with their length
    assert manifest["pairs"]["dropped"] == 2


def test_several_sources_are_each_of_them_in_turn(build, tmp_path):
    names = ["stereoset", "question_pairs"]
    flags = ("--control", "shuffled-pairs", "--seed", 3)
    said = build(tmp_path / "both", *flags, source=" ".join(names))
    assert "question_pairs gender 2/3" in said
    manifest = read_json(tmp_path / "both/manifest.json")
    rows, kept = [], {}
    for name in names:
        build(tmp_path / name, *flags, source=name)
        found = read_pairs(tmp_path / name / "pairs.jsonl")
        rows += [{**row, "id": f"{name}:{row['id']}"} for row in found]
        kept[name] = read_json(tmp_path / name / "manifest.json")
    assert read_pairs(tmp_path / "both/pairs.jsonl") == rows
    assert manifest["spec"]["pairs"] == names
    assert manifest["pairs"].pop("sources") == {name: one["pairs"] for name, one in kept.items()}
    for key in ("total", "kept", "dropped", "without_partner"):
        assert manifest["pairs"][key] == sum(one["pairs"][key] for one in kept.values())
    assert manifest["pairs"]["categories"]["gender"]["total"] == 3 + 3
    assert manifest["pairs"]["categories"]["race"]["total"] == 3
    assert manifest["tokens"]["pairs"] == sum(one["tokens"]["pairs"] for one in kept.values())
    assert manifest["sources"] == {name: one["sources"][name] for name, one in kept.items()}
