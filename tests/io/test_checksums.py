"""The cache of digests: when it is asked, when it is not trusted, where it lies."""

import json
import os

import pytest

from evenprune.io import checksums
from evenprune.io.errors import UserError
from evenprune.io.files import sha256_file

SIZE = checksums.SMALL + 5


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A large file, hashed long after it was written, with a cache of its own."""
    monkeypatch.setenv("EVENPRUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(checksums, "SETTLED", -1.0)
    path = tmp_path / "weights"
    path.write_bytes(os.urandom(SIZE))
    return path


def test_a_digest_is_kept_until_the_file_changes_or_is_to_be_verified(file, monkeypatch):
    real = sha256_file(file)
    assert checksums.sha256_cached(file) == real
    (entry,) = (file.parent / "cache/sha256").iterdir()
    marked = checksums.sealed({**json.loads(entry.read_text()), "sha256": "0" * 64})
    entry.write_text(json.dumps(marked))
    link = file.with_name("link")
    link.symlink_to(file)
    assert checksums.sha256_cached(file) == checksums.sha256_cached(link) == "0" * 64
    assert checksums.sha256_cached(file, verify=True) == real
    other = [{**marked, "sha256": one} for one in ("0", "1" * 64)]
    for damaged in (*other, checksums.sealed({**marked, "path": "x"}), [], {}):
        entry.write_text(json.dumps(damaged))
        assert checksums.sha256_cached(file) == real
    entry.write_text(json.dumps(marked))
    monkeypatch.setenv("EVENPRUNE_VERIFY", "1")
    assert checksums.sha256_cached(file) == real


def test_a_changed_file_of_equal_size_and_time_is_hashed_again(file):
    before = file.stat()
    first = checksums.sha256_cached(file)
    with open(file, "r+b") as handle:
        handle.write(b"other")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert checksums.sha256_cached(file) == sha256_file(file) != first
    twin = file.with_name("twin")
    twin.write_bytes(os.urandom(SIZE))
    os.utime(twin, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(twin, file)
    assert checksums.sha256_cached(file) == sha256_file(file)


def write_sealed(path, content):
    path.write_text(json.dumps(checksums.sealed(content)))


def refused(record, words):
    with pytest.raises(UserError, match=words):
        checksums.source_folder(record)


def test_source_folder_follows_a_record_and_compares(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.jsonl").write_text("{}\n")
    record = tmp_path / "stereoset.json"
    entry = {"sha256": sha256_file(folder / "a.jsonl"), "bytes": 3}
    content = {"dataset": "stereoset", "folder": str(folder), "files": {"a.jsonl": entry}}
    write_sealed(record, content)
    assert checksums.source_folder(record) == folder
    assert checksums.source_folder(tmp_path) == tmp_path
    (folder / "b.jsonl").write_text("{}\n")
    refused(record, r"b\.jsonl was added .* -f .*stereoset\.json")
    (folder / "b.jsonl").unlink()
    (folder / "a.jsonl").write_text("[]\n")
    refused(record, r"a\.jsonl has changed .* -f .*stereoset\.json")
    (folder / "a.jsonl").unlink()
    refused(record, "no such file")
    record.write_text(json.dumps(content))
    refused(record, r"the checksum in it does not fit; record these files")
    # The world is made again, not recorded again.
    write_sealed(record, {**content, "origin": "world"})
    refused(record, rf"-f {tmp_path.parent}/world\.json")


def test_a_record_of_a_moved_mirror_holds(tmp_path):
    """The record names its folder within the mirror, and the file that says where that is."""
    for name in ("here", "there"):
        (tmp_path / name / "data/x").mkdir(parents=True)
        (tmp_path / name / "data/x/a.jsonl").write_text("{}\n")
    record = tmp_path / "sources/data/x.json"
    record.parent.mkdir(parents=True)
    sha256 = sha256_file(tmp_path / "here/data/x/a.jsonl")
    files = {"a.jsonl": {"sha256": sha256, "bytes": 3}}
    content = {"dataset": "x", "folder": "data/x", "mirror": "../mirror.json", "files": files}
    write_sealed(record, content)
    place = record.parents[1] / "mirror.json"
    for name in ("here", "there"):
        place.write_text(json.dumps({"mirror": str(tmp_path / name)}))
        assert checksums.source_folder(record) == tmp_path / name / "data/x"
    (tmp_path / "there/data/x/a.jsonl").write_text("[]\n")
    refused(record, r"there/data/x/a\.jsonl has changed since")
    for wrong, message in (
        ({"mirror": None}, "names none; set mirror in the configuration"),
        ({}, "the path of a folder, a list of them, or null"),
    ):
        place.write_text(json.dumps(wrong))
        refused(record, message)
    place.unlink()
    refused(record, r"expected a JSON file at .*mirror\.json")
