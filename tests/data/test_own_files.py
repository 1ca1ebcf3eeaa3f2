"""Files of one's own in place of data sets, and models by their hub repository."""

import argparse
import json

import pytest
from evaluation_fixtures import save_model
from fake_hub import FakeHub

from evenprune.base.checksums import source_folder
from evenprune.base.errors import UserError
from evenprune.base.files import write_json
from evenprune.data import hub_models
from evenprune.data.calibration import TokenizedPairs, TokenPair, pair_notes
from evenprune.data.hub import Hub
from evenprune.data.readers.own_questions import read_own_questions
from evenprune.data.readers.own_rows import read_pairs
from evenprune.data.sources import (
    fingerprint,
    mirror_folder,
    resolve_dataset,
    unresolved,
    within_mirror,
)
from evenprune.plan.own_files import with_own_files


def test_a_path_becomes_a_data_set_and_a_name_stays():
    raw = {
        "datasets": {"stereoset": {}, "a.jsonl": {}, "own.pairs2": {}},
        "calibrations": {
            "own": {"pairs": ["stereoset", "my/p.csv"], "texts": "t.jsonl"},
            "named": {"pairs": "a.jsonl"},
            "broken": 3,
        },
        "benchmarks": {"quiz": {"dataset": "./q"}, "lm": {"task": "lm_eval"}},
    }
    found = with_own_files(raw)
    assert found["calibrations"] == {
        "own": {"pairs": ["stereoset", "own.pairs2-file"], "texts": "own.texts"},
        "named": {"pairs": "a.jsonl"},
        "broken": 3,
    }
    assert found["benchmarks"] == {"quiz": {"dataset": "quiz.data"}, "lm": {"task": "lm_eval"}}
    assert found["datasets"] == raw["datasets"] | {
        "own.pairs2-file": {"path": "my/p.csv"},
        "own.texts": {"path": "t.jsonl"},
        "quiz.data": {"path": "./q"},
    }
    assert with_own_files(found) == found
    assert raw["benchmarks"]["quiz"] == {"dataset": "./q"}


def resolve(entry, mirror=None):
    return resolve_dataset("x", entry, mirror=mirror, lock_path="no.json", cache="cache")


def test_the_record_of_one_file_stands_for_it_alone(tmp_path):
    file = tmp_path / "pairs.csv"
    file.write_text("stereotype,anti_stereotype\na,b\n")
    entry = {"path": str(file)}
    record = resolve(entry)
    assert within_mirror(record, [str(tmp_path)], "mirror.json", tmp_path / "r.json") == record
    write_json(tmp_path / "r.json", record)
    assert source_folder(tmp_path / "r.json") == file  # whatever else lies beside it
    before = fingerprint("data", "x", entry, None, "no.json")
    file.write_text("stereotype,anti_stereotype\na,c\n")
    assert fingerprint("data", "x", entry, None, "no.json") != before
    with pytest.raises(UserError, match="has changed since"):
        source_folder(tmp_path / "r.json")


def test_what_is_missing_is_said_before_a_run(tmp_path):
    entries = {"m": {"path": str(tmp_path / "none")}, "h": {"hub": "org/h"}, "n": {}}
    items = [("models", name, entry) for name, entry in entries.items()]
    (error,), absent = unresolved(items, str(tmp_path), tmp_path / "lock.json")
    assert error.startswith("models.m.path: expected the folder of a model or a GGUF file at ")
    assert ["org/h" in line for line in absent] == [True, False]


def test_mirrors_are_tried_in_order(tmp_path):
    roots = [str(tmp_path / name) for name in "ab"]
    for root, name in zip(roots, ("x", "y")):
        (tmp_path / root / "data" / name).mkdir(parents=True)
        (tmp_path / root / "data" / name / "f.jsonl").write_text(root)
    assert mirror_folder("data", "y", {}, roots) == tmp_path / "b/data/y"
    (tmp_path / "b/data/x").mkdir()
    (tmp_path / "b/data/x/f.jsonl").write_text("later")
    assert mirror_folder("data", "x", {}, roots) == tmp_path / "a/data/x"
    write_json(tmp_path / "mirror.json", {"mirror": roots})
    record = resolve({"mirror": "y"}, roots)
    out = tmp_path / "r.json"
    write_json(out, within_mirror(record, roots, tmp_path / "mirror.json", out))
    assert json.loads(out.read_text())["folder"] == "data/y"
    assert source_folder(out) == tmp_path / "b/data/y"


def test_pairs_by_hand_need_two_columns(tmp_path):
    table = tmp_path / "p.csv"
    table.write_text("category;stereotype;anti_stereotype\nsize;a b;c d\n;e;f\n", "utf-8-sig")
    assert [tuple(row.values()) for row in read_pairs(table)] == [
        ("2", "size", "a b", "c d"),
        ("3", "own", "e", "f"),
    ]
    table.write_text(table.read_text("utf-8-sig"), "utf-16")
    with pytest.raises(UserError, match="iconv -f UTF-16 -t UTF-8"):
        read_pairs(table)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.csv", "question,answer,option1, option1\nx,A,a,b\n", "option1 is there twice"),
        ("q.jsonl", '{"question": "x", "answer": 0, "answer": 1, "options": ["a", "b"]}', "twice"),
        ("q.jsonl", json.dumps({"question": "x", "answer": 0, "options": [*map(str, range(28))]}),
         "2 to 26 texts"),
        ("q.jsonl", '{"question": "x", "answer": 0, "options": ["a", "b"], "option3": "c"}',
         "2 to 26 texts"),
        ("p.csv", "stereotype,stereotype,anti_stereotype\na,b,c\n", "stereotype is there twice"),
    ],
)  # fmt: skip
def test_nothing_of_an_own_file_is_dropped(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        (read_own_questions if name[0] == "q" else read_pairs)(tmp_path / name)


def test_notes_name_the_pairs():
    rows = [("a", "x", "y"), ("b", "x", "x"), ("c", "x", "y"), ("d", "long", "z")]
    pairs = [{"id": i, "stereotype": s, "anti_stereotype": t} for i, s, t in rows]
    kept = [TokenPair(i, "own", (1,), (2,), ()) for i in "abc"]
    notes = pair_notes(pairs, TokenizedPairs(kept, 1, {}), "--alignment")
    assert ": d; `--alignment suffix` keeps them (or `--alignment pad`" in notes[0]
    assert "two identical sentences and say nothing of bias: b;" in notes[1]
    assert notes[2].endswith("repeat another one and count again: c")


@pytest.fixture
def hub():
    fake = FakeHub()
    yield fake
    fake.close()


def test_a_model_by_its_repository(hub, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.chdir(tmp_path)
    files = {file.name: file.read_bytes() for file in save_model(tmp_path / "made").iterdir()}
    commit = hub.repository("model", "org/tiny").push(files)
    client = Hub(tmp_path / "cache", hub.url)

    def located(model):
        args = argparse.Namespace(model=model)
        hub_models.fetch_models(args, client)
        return args.model

    (tmp_path / "here").mkdir()
    assert located("here/typo") == "here/typo"  # a path: its folder is there
    folder = located(["org/tiny"])[0]
    assert commit in folder
    assert f"org/tiny@{commit} names the same files" in capsys.readouterr().err
    assert located(f"org/tiny@{commit}") == folder
    with pytest.raises(UserError, match="no folder org/none here, and the hub's model org/none"):
        located("org/none")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert located(f"org/tiny@{commit}") == folder
