"""Files of one's own in place of data sets, and models by their hub repository."""

import pytest

from evenprune.config.checks import with_own_files
from evenprune.data.calibration import TokenizedPairs, TokenPair, pair_notes
from evenprune.data.sources import fingerprint, resolve_source, within_mirror
from evenprune.io.checksums import sealed, source_folder
from evenprune.io.errors import UserError
from evenprune.io.files import write_json


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
    return resolve_source("data", "x", entry, mirror=mirror, lock_path="no.json", cache="cache")


def test_the_record_of_one_file_stands_for_it_alone(tmp_path):
    file = tmp_path / "pairs.csv"
    file.write_text("stereotype,anti_stereotype\na,b\n")
    entry = {"path": str(file)}
    record = resolve(entry)
    assert within_mirror(record, [str(tmp_path)], "mirror.json", tmp_path / "r.json") == record
    write_json(tmp_path / "r.json", sealed(record))
    assert source_folder(tmp_path / "r.json") == file  # whatever else lies beside it
    before = fingerprint("data", "x", entry, None, "no.json")
    file.write_text("stereotype,anti_stereotype\na,c\n")
    assert fingerprint("data", "x", entry, None, "no.json") != before
    with pytest.raises(UserError, match="has changed since"):
        source_folder(tmp_path / "r.json")


def test_notes_name_the_pairs():
    rows = [("a", "x", "y"), ("b", "x", "x"), ("c", "x", "y"), ("d", "long", "z")]
    pairs = [{"id": i, "stereotype": s, "anti_stereotype": t} for i, s, t in rows]
    kept = [TokenPair(i, "own", (1,), (2,), ()) for i in "abc"]
    notes = pair_notes(pairs, TokenizedPairs(kept, 1, {}), "--alignment")
    assert ": d; `--alignment suffix` keeps them (or `--alignment pad`" in notes[0]
    assert "two identical sentences and say nothing of bias: b;" in notes[1]
    assert notes[2].endswith("repeat another one and count again: c")
