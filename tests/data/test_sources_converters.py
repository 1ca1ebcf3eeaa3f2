"""Hub tables to canonical files: small parquet files in the hub's schema, read back."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from read_set import read

from evenprune.data import converters
from evenprune.data.converters import CONVERTERS, clean_hellaswag, texts_of
from evenprune.data.hub import dataset_parts
from evenprune.data.readers.choice import ChoiceItem
from evenprune.data.readers.stereoset import StereoSetItem
from evenprune.data.split_tables import SplitTable, read_table
from evenprune.io.errors import UserError
from evenprune.io.yamlfile import read_yaml


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
