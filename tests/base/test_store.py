"""The store of finished work: whole entries or none, damage noticed, writers beside each other."""

import os
import threading

import pytest

from evenprune.base import store as stores
from evenprune.base.errors import UserError
from evenprune.base.store import ENTRY, Store

FILES = {"a.bin": b"\x00\x01" * 4000, "b.json": b"{}"}


@pytest.fixture
def made(tmp_path):
    """A finished folder and a store that keeps it."""
    folder = tmp_path / "made"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    store = Store(tmp_path / "store")
    store.keep("kind", "key", folder, FILES)
    return folder, store


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_what_is_kept_is_taken_and_nothing_else_is_touched(made, tmp_path, capsys):
    _, store = made
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("kept")
    assert store.take("kind", "key", out)
    assert contents(out) == {**FILES, "mine.txt": b"kept"}
    assert "taken from" in capsys.readouterr().err
    assert not store.take("kind", "other", tmp_path / "none")
    assert not store.take("other", "key", tmp_path / "none")
    assert not (tmp_path / "none").exists()
    assert [file.name for file in (tmp_path / "store/kind").iterdir()] == ["key"]


def test_without_a_folder_nothing_is_kept(made, tmp_path):
    folder, _ = made
    store = Store(None)
    store.keep("kind", "key", folder, FILES)
    assert not store.take("kind", "key", tmp_path / "out")


@pytest.mark.parametrize("name", ["a.bin", "b.json", ENTRY])
@pytest.mark.parametrize("harm", ["changed", "cut", "missing"])
def test_a_damaged_entry_is_said_removed_and_made_anew(made, tmp_path, capsys, name, harm):
    _, store = made
    file = tmp_path / "store/kind/key" / name
    content = file.read_bytes()
    file.unlink()  # the folder that was kept has the same file
    if harm != "missing":
        file.write_bytes(content[:-1] + b"?" if harm == "changed" else content[:-2])
    out = tmp_path / "out"
    assert not store.take("kind", "key", out)
    assert not out.exists()
    assert "is damaged and not used" in capsys.readouterr().err
    assert not (tmp_path / "store/kind/key").exists()
    store.keep("kind", "key", made[0], FILES)
    assert store.take("kind", "key", out)
    assert contents(out) == FILES


def test_a_linked_file_changed_in_place_is_noticed(made, tmp_path):
    folder, store = made
    if not os.path.samefile(folder / "a.bin", tmp_path / "store/kind/key/a.bin"):
        pytest.skip("no links between the folders here")
    with open(folder / "a.bin", "r+b") as file:
        file.write(b"\x07")
    assert not store.take("kind", "key", tmp_path / "out")


def test_copies_where_links_are_not_possible(made, tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(stores.os, "link", refuse)
    folder, store = made
    store.keep("kind", "copied", folder, FILES)
    assert store.take("kind", "copied", tmp_path / "out")
    assert contents(tmp_path / "out") == FILES
    assert not os.path.samefile(folder / "a.bin", tmp_path / "store/kind/copied/a.bin")


def test_of_many_writers_one_wins_and_readers_see_whole_entries(made, tmp_path):
    folder, store = made
    seen, faults = [], []

    def both(number):
        try:
            store.keep("kind", "shared", folder, FILES)
            out = tmp_path / f"out{number}"
            assert store.take("kind", "shared", out)
            seen.append(contents(out))
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=both, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert seen == [FILES] * 8
    assert sorted(file.name for file in (tmp_path / "store/kind").iterdir()) == ["key", "shared"]


def test_what_cannot_be_kept_is_said_and_is_no_error(made, tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    folder, store = made
    monkeypatch.setattr(stores.tempfile, "mkdtemp", full)
    store.keep("kind", "new", folder, FILES)
    assert "not kept in" in capsys.readouterr().err
    assert store.take("kind", "key", tmp_path / "out")


def test_a_disk_that_fills_while_it_keeps_leaves_nothing(made, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    folder, store = made
    monkeypatch.setattr(stores, "write_json", full)
    store.keep("kind", "new", folder, FILES)
    assert [file.name for file in (tmp_path / "store/kind").iterdir()] == ["key"]


def test_a_file_in_its_place_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"--store .*file is a file, expected a folder"):
        Store(tmp_path / "file")


def test_names_that_lead_out_of_an_entry_are_refused(made, tmp_path, capsys):
    from evenprune.base.checksums import sealed
    from evenprune.base.files import write_json

    _, store = made
    write_json(
        tmp_path / "store/kind/key" / ENTRY, sealed({"files": {"../../made/a.bin": "0" * 64}})
    )
    assert not store.take("kind", "key", tmp_path / "out")
    assert "expected names and SHA-256" in capsys.readouterr().err
