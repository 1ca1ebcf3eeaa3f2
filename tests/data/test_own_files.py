"""Files of one's own in place of data sets, and models by their hub repository."""

import pytest

from evenprune.data.sources import fingerprint, resolve_source, within_mirror
from evenprune.io.checksums import sealed, source_folder
from evenprune.io.errors import UserError
from evenprune.io.files import write_json


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
