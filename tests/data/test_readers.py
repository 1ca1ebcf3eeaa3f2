"""Readers of the canonical files: broken rows are named, the real sets have their sizes."""

import csv
import gzip
import json
from collections import Counter

import pytest
from evaluation_fixtures import bbq_rows, stereoset_rows, unqover_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from read_set import read

from evenprune.data import converters
from evenprune.data.converters import CONVERTERS, SplitTable, clean_hellaswag, read_table, texts_of
from evenprune.data.hub import dataset_parts
from evenprune.data.readers.bbq import bbq_files
from evenprune.data.readers.choice import ChoiceItem
from evenprune.data.readers.crows_pairs import CrowsPair
from evenprune.data.readers.stereoset import StereoSetItem
from evenprune.io.errors import UserError
from evenprune.io.yamlfile import read_yaml

STEREOSET, BBQ = next(stereoset_rows()), next(bbq_rows())
MMLU = {"question": "q", "subject": "s", "choices": list("wxyz"), "answer": 0}
HELLASWAG = {"row": 0, "query": "Digging: a", "choices": list("wxyz"), "gold": 3}
STORY = {"id": 0, "text": "One.\n\nTwo.\r\nThree."}
DIALOGUE = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
PROMPT = {"prompt": {"text": "Hello", "toxicity": None}}

JSON_READERS = {
    "stereoset": ("intrasentence.jsonl", STEREOSET),
    "mmlu": ("test.jsonl", MMLU),
    "hellaswag": ("validation_lm_eval.jsonl", HELLASWAG),
    "unqover": ("datas_rebuilt.jsonl", next(unqover_rows())),
    "bbq": ("Age.jsonl", BBQ),
    "tinystories": ("stories_1000.jsonl", STORY),
    "ultrachat": ("talk.jsonl", DIALOGUE),
    "realtoxicityprompts": ("toxic.jsonl", PROMPT),
}


def write(path, *rows):
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.mark.parametrize("name", sorted(JSON_READERS))
def test_plain_and_gzipped_files_read_the_same(name, tmp_path):
    file, row = JSON_READERS[name]
    for folder, suffix in (("plain", ""), ("gz", ".gz")):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / f"{file}{suffix}", row)
    items = read(name, tmp_path / "plain")
    assert len(items) == 1
    assert read(name, tmp_path / "gz") == items


@pytest.mark.parametrize("name", sorted(JSON_READERS))
def test_missing_field_broken_line_empty_and_missing_file(name, tmp_path):
    file, row = JSON_READERS[name]
    field = next(iter(row))
    write(tmp_path / file, row, {key: value for key, value in row.items() if key != field})
    with pytest.raises(UserError, match=rf"line 2 lacks {field}"):
        read(name, tmp_path)
    (tmp_path / file).write_text(json.dumps(row) + '\n{"cut')
    with pytest.raises(UserError, match="line 2 does not parse"):
        read(name, tmp_path)
    write(tmp_path / file)
    with pytest.raises(UserError, match="empty"):
        read(name, tmp_path)
    (tmp_path / file).rename(tmp_path / "other.txt")
    with pytest.raises(UserError, match="found n"):
        read(name, tmp_path)
    (tmp_path / f"{file}.gz").write_bytes(gzip.compress(json.dumps(row).encode())[:-6])
    with pytest.raises(UserError, match="damaged"):
        read(name, tmp_path)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("stereoset", {"sentences": STEREOSET["sentences"][:2]}, "three sentences labelled"),
        ("mmlu", {"answer": 4}, "less than or equal to 3 in field answer"),
        ("bbq", {"ans2": "  "}, "text in field ans2"),
        ("bbq", {"context_condition": "both"}, "'ambig' or 'disambig' in field context_condition"),
        ("bbq", {"answer_info": {"ans0": ["a", "b"]}}, "a value in field answer_info.ans1"),
        ("bbq", {"answer_info": {f"ans{k}": ["a", "old"] for k in range(3)}}, "exactly one answer"),
        ("ultrachat", {"messages": [{"role": "u", "content": ""}]}, "a turn with some text"),
    ],
)
def test_broken_values_are_named_with_file_and_line(name, change, message, tmp_path):
    file, row = JSON_READERS[name]
    write(tmp_path / file, row, {**row, "id": "b", "example_id": 2, **change})
    with pytest.raises(UserError, match=message) as error:
        read(name, tmp_path)
    assert f"line 2 of {tmp_path / file}" in str(error.value)
    assert "\n" not in str(error.value)


def test_bbq_files_are_in_helm_order_and_unknown_ones_behind(tmp_path):
    for name in ("Zorb", "SES", "Alpha", "Race_x_gender", "Race_x_SES", "Age"):
        write(tmp_path / f"{name}.jsonl", BBQ)
    names = [path.stem for path in bbq_files(tmp_path)]
    assert names == ["Age", "Race_x_SES", "Race_x_gender", "SES", "Alpha", "Zorb"]


def test_tinystories_have_single_line_breaks(tmp_path):
    write(tmp_path / "stories_1000.jsonl", STORY)
    assert [item.text for item in read("tinystories", tmp_path)] == ["One.\nTwo.\nThree."]


def test_crows_pairs_tab_and_comma(tmp_path):
    header = ["", "sent_more", "sent_less", "stereo_antistereo", "bias_type"]
    rows = [header, ["0", "a, b", "c", "stereo", "age"]]
    for variant, delimiter in (("revised", "\t"), ("anonymized", ",")):
        with open(tmp_path / f"crows_pairs_{variant}.csv", "w", newline="") as out:
            csv.writer(out, delimiter=delimiter).writerows(rows)
        (pair,) = read("crows_pairs", tmp_path, variant)
        assert pair == CrowsPair("0", "age", "a, b", "c", "stereo")


def test_wikitext_follows_the_row_rule(tmp_path):
    (tmp_path / "wiki.test.raw").write_text(" \n = Zorb = \n \n Text . \n")
    assert read("wikitext", tmp_path) == ["", " = Zorb = \n", "", " Text . \n"]
    (tmp_path / "wiki.test.raw").write_text(" \n\n")
    with pytest.raises(UserError, match="it is blank"):
        read("wikitext", tmp_path)
    (tmp_path / "wiki.test.raw").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="damaged"):
        read("wikitext", tmp_path)


def test_the_real_sets_have_their_published_sizes(shared):
    data = shared / "data"
    stereoset = Counter(item.category for item in read("stereoset", data / "stereoset"))
    assert stereoset == {"gender": 255, "race": 962, "religion": 79, "profession": 810}
    revised = Counter(p.category for p in read("crows_pairs", data / "crows_pairs"))
    assert revised.total() == 1677
    assert revised["autre"] == 11
    original = read("crows_pairs", data / "crows_pairs", "anonymized")
    assert Counter(pair.category for pair in original)["race-color"] == 516
    assert len(original) == 1508
    assert len(read("ultrachat", data / "ultrachat")) == 1000
    assert len(read("hellaswag", data / "hellaswag")) == 10042
    sizes = {"test": 14042, "validation": 1531, "dev": 285}
    for split, size in sizes.items():
        items = read("mmlu", data / "mmlu", split)
        assert len(items) == size
        assert len({item.category for item in items}) == 57
    assert len(read("tinystories", data / "tinystories")) == 1000
    assert len(read("realtoxicityprompts", data / "realtoxicityprompts")) == 2396
    behaviours = Counter(item.category for item in read("harmbench", data / "harmbench"))
    assert behaviours == {"standard": 200, "contextual": 100, "copyright": 100}


def test_the_real_unqover_is_head_of_four_categories(shared):
    items = read("unqover", shared / "data/unqover")
    sizes = Counter(item.category for item in items)
    assert sizes == dict.fromkeys(("religion", "country", "ethnicity", "mixedgender"), 10002)
    assert all(item.label == item.unknown for item in items)
    assert all(item.answers[item.unknown] == "unknown" for item in items)
    sample = {item.id: item for item in read("unqover", shared / "data/unqover", "sampled")}
    assert len(sample) == 3000
    assert all(sample[item.id] == item for item in items if item.id in sample)


def test_the_real_wikitext_has_the_rows_of_the_hub(shared):
    rows = read("wikitext", shared / "data/wikitext2")
    assert len(rows) == 4358
    assert rows[:2] == ["", " = Robert Boulter = \n"]


# Hub tables to canonical files: small parquet files in the hub's schema, read back


def convert(name, folder, **tables):
    for file, text in texts_of(CONVERTERS[name](tables)).items():
        (folder / file).write_text(text)
    return folder


def test_stereoset(tmp_path):
    """The hub's rows: the three sentences in any order, with numbers as labels."""
    from datasets import ClassLabel, Dataset, Features, Sequence, Value

    text = Value("string")
    label = ClassLabel(names=["anti-stereotype", "stereotype", "unrelated"])
    names = {"id": "a", "target": "Zorbian", "bias_type": "race", "context": "Zorbians are BLANK."}
    sentences = {"sentence": ["U", "A", "S"], "id": ["x"] * 3, "gold_label": [2, 0, 1]}
    kinds = Sequence({"sentence": text, "id": text, "gold_label": label})
    features = Features(**dict.fromkeys(names, text), sentences=kinds)
    rows = Dataset.from_list([{**names, "sentences": sentences}], features=features)
    rows.to_parquet(tmp_path / "v.parquet")
    table = read_table("t", [tmp_path / "v.parquet"])
    folder = convert("stereoset", tmp_path, validation=table)
    item = StereoSetItem("a", "race", "Zorbian", "Zorbians are BLANK.", "S", "A", "U")
    assert read("stereoset", folder) == [item]


def test_wikitext_of_the_mirror_byte_for_byte(tmp_path, shared):
    rows = read("wikitext", shared / "data/wikitext2")
    convert("wikitext2", tmp_path, test=SplitTable("t", [{"text": row} for row in rows]))
    original = gzip.decompress((shared / "data/wikitext2/wiki.test.raw.gz").read_bytes())
    assert (tmp_path / "wiki.test.raw").read_bytes() == original


def test_hellaswag(tmp_path):
    row = {
        **{"activity_label": "Gardening", "ctx_a": "A Zorbian digs. [title] Then"},
        **{"ctx_b": "the spade", "label": "2"},
        "endings": ["breaks. [step] Again", "sings", " bends", "x  y"],
    }
    convert("hellaswag", tmp_path, validation=SplitTable("h", [row]))
    (item,) = read("hellaswag", tmp_path)
    assert item.query == "Gardening: A Zorbian digs.. Then The spade"
    assert item.choices == ("breaks. Again", "sings", "bends", "x y")
    assert item.gold == 2


@given(st.text(alphabet="ab. []titlesep\n", max_size=40))
@settings(deadline=None, max_examples=100)
def test_hellaswag_is_cleaned_as_the_harness_cleans(text):
    from lm_eval.tasks.hellaswag.utils import preprocess

    assert clean_hellaswag(text) == preprocess(text)


def test_mmlu(tmp_path):
    row = {"question": "q", "subject": "zorb", "choices": list("wxyz"), "answer": 3}
    splits = ("test", "validation", "dev")
    convert("mmlu", tmp_path, **{split: SplitTable(split, [row]) for split in splits})
    for split in splits:
        (item,) = read("mmlu", tmp_path, split)
        assert item == ChoiceItem("zorb-0", "zorb", "q", ("w", "x", "y", "z"), 3)


def test_bbq_of_the_mirror_survives(tmp_path, shared):
    paths = [shared / f"data/bbq/{name}.jsonl.gz" for name in ("Religion", "Age")]
    convert("bbq", tmp_path, all=read_table("b", paths))
    (tmp_path / "real").mkdir()
    for path in paths:  # reading all of them takes longer
        (tmp_path / "real" / path.name).symlink_to(path.resolve())
    assert read("bbq", tmp_path) == read("bbq", tmp_path / "real")


def test_unqover_of_the_mirror_survives(tmp_path, shared):
    path = shared / "data/unqover/sampled.jsonl.gz"
    convert("unqover", tmp_path, all=read_table("u", [path]))
    assert read("unqover", tmp_path) == read("unqover", path.parent, "sampled")


@pytest.mark.parametrize("name", sorted(CONVERTERS))
def test_other_columns_and_no_rows_are_said(repo, tmp_path, name):
    entry = read_yaml(repo / "config/catalogue.yaml")["datasets"][name]
    parts = dataset_parts(name, entry) or dataset_parts(name, entry, "package")
    file = tmp_path / "rows.jsonl"
    files = {part.name: [file] for part in parts}
    file.write_text('{"zorb": 1}\n')
    with pytest.raises(UserError, match=f"expected rows of the form that {name} has in .*KeyError"):
        converters.convert(name, parts, files)
    file.write_text("")
    with pytest.raises(UserError, match=r"expected .* rows in part .*, got 0"):
        converters.convert(name, parts, files)


def test_a_number_that_is_no_label_is_refused():
    table = SplitTable("t", [], {"kind": ["a", "b"]})
    assert table.label("kind", 1) == "b"
    for number in (-1, 2):  # the hub's rows without a label have -1
        with pytest.raises(KeyError):
            table.label("kind", number)
