"""Mirror, hub, lock file and prefetch; the hub is a local one spoken to by the real client."""

import hashlib
import json
import shutil
import struct
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from fake_hub import FakeHub

from evenprune.cli import main
from evenprune.data import sources
from evenprune.data.converters import CONVERTERS
from evenprune.data.hub import PARQUET_REF, dataset_parts
from evenprune.data.hub_models import hub_model
from evenprune.data.prefetch import prefetch
from evenprune.data.readers.texts import read_tinystories
from evenprune.io.checksums import sealed, source_folder
from evenprune.io.errors import UserError
from evenprune.io.files import write_json
from evenprune.io.yamlfile import read_yaml

TOKEN = "hf_NotToBeSeenAnywhere"
STORIES = {
    "hub": {
        "repo": "org/stories",
        "parts": {"validation": {"files": ["data/*.jsonl", "default/*.jsonl"], "first": 2}},
    }
}


def safetensors(values: bytes = b"\0" * 8) -> bytes:
    header = {"weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + values


MODEL = {
    "config.json": b'{"model_type": "llama"}',
    "model.safetensors": safetensors(),
    "tokenizer.json": b"{}",
    "pytorch_model.bin": b"a pickle",
    "consolidated.safetensors": b"the same weights again",
    "original/params.json": b"{}",
    "modeling_custom.py": b"raise SystemExit",
}


def stories(*texts: str) -> bytes:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


def write_config(folder, lock, methods, stereoset):
    """Write a configuration of a model and a data set that are on the hub."""
    catalogue = {
        "models": {"m": {"hub": "org/model", "label": "M"}},
        "datasets": {"tinystories": STORIES, "stereoset": stereoset},
        "calibrations": {"ss": {"pairs": "stereoset"}},
    }
    grid = {"models": ["m"], "methods": methods, "regimes": ["2of4"], "calibrations": ["ss"]}
    config = {
        "source": "external", "lock": lock, "results": "../results", "tables": ["answer"],
        "benchmarks": {"t": {"task": "perplexity", "dataset": "tinystories"}},
        "experiments": {"e": grid},
    }  # fmt: skip
    write_json(folder / "config.yaml", config)
    write_json(folder / "catalogue.yaml", catalogue)


@pytest.fixture
def server(monkeypatch, tmp_path):
    go_offline(monkeypatch, False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub = FakeHub()
    hub.serve(monkeypatch, tmp_path / "cache")
    hub.repository("model", "org/model").push(MODEL)
    hub.repository("dataset", "org/stories").push(
        {"data/validation.jsonl": stories("one", "two", "three"), "README.md": b"card"}
    )
    yield hub
    hub.close()


@pytest.fixture
def lock(tmp_path) -> Path:
    return tmp_path / "config" / "lock.json"


def go_offline(monkeypatch, offline=True):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)


def get_model(lock, /, **entry):
    prefetch([("models", "m", {"hub": "org/model", **entry})], mirror=None, lock_path=lock)
    return json.loads(lock.read_text())


def fetch_model(lock):
    return sources.resolve_source("models", "m", {"hub": "org/model"}, mirror=None, lock_path=lock)


def test_a_repository_that_moved_stays_at_the_pinned_commit(server, lock):
    old = get_model(lock)["org/model"]["revision"]
    changed = {**MODEL, "model.safetensors": safetensors(b"\1" * 8)}
    new = server.repository("model", "org/model").push(changed)
    record = fetch_model(lock)
    assert record["revision"] == old
    assert (Path(record["folder"]) / "model.safetensors").read_bytes() == safetensors()
    added = Path(record["folder"]) / "chat_template.jinja"
    added.write_text("{{ 1 }}")  # in the cache, but not pinned
    assert added.name not in fetch_model(lock)["files"]
    assert get_model(lock)["org/model"]["revision"] == old  # prefetch again keeps the pin
    prefetch([("models", "m", {"hub": "org/model"})], mirror=None, lock_path=lock, update=True)
    assert json.loads(lock.read_text())["org/model"]["revision"] == new


def test_a_gated_repository_is_one_sentence_without_the_token(server, lock, capsys):
    server.repository("model", "org/model").gated = True
    with pytest.raises(UserError, match="is gated and this account may not read it") as error:
        get_model(lock)
    assert any(TOKEN in (header or "") for _, _, header in server.requests)  # it was sent
    assert TOKEN not in str(error.value) + capsys.readouterr().err
    assert not lock.exists()


def test_data_set_in_another_form_is_taken_from_the_parquet_copy(server, lock, tmp_path):
    repository = server.repository("dataset", "org/stories")
    repository.refs.clear()
    repository.push({"stories.py": b"a loading script"})
    commit = repository.push({"default/0.jsonl": stories("one", "two")}, ref=PARQUET_REF)
    entry = ("data", "tinystories", STORIES)
    prefetch([entry], mirror=None, lock_path=lock)
    record = sources.resolve_source(*entry, mirror=None, lock_path=lock, cache=tmp_path / "made")
    assert commit in record["revision"]
    assert list(json.loads(lock.read_text())) == [f"org/stories@{PARQUET_REF}"]


BAD_NAMES = ("a/b/c", "a b/c", "-org/model", "org/", "x" * 200, "", "org/mo\ndel", "../../x")


def test_prefetch_goes_on_after_a_failure_and_lists_all(server, lock):
    """Names that the client library refuses, what is nowhere, entries of another form, one good."""
    items = [
        *(("models", f"m{k}", {"hub": name}) for k, name in enumerate(BAD_NAMES)),
        ("models", "ref", {"hub": "org/model@refs/../../x"}),
        ("models", "none", {"hub": "org/none"}),
        ("models", "reference", {"hub": "org/model@refs/pr/7"}),
        ("data", "unqover", {}),
        ("data", "text", {"hub": "org/stories"}),
        ("data", "listed", {"hub": {"repo": "org/stories", "parts": ["x"]}}),
        ("data", "rows", {"hub": {"repo": "a/b", "parts": {"v": {"files": ["*"], "rows": "1"}}}}),
        ("data", "name", {"hub": {"repo": "a//b", "parts": {"v": {"files": ["*.x"]}}}}),
        ("models", "good", {"hub": "org/model"}),
    ]
    with pytest.raises(UserError, match=f"{len(items) - 1} of {len(items)} sources") as error:
        prefetch(items, mirror=None, lock_path=lock)
    for words in ("spirit-moon-fly/CAL", "does not exist, or is private", "no revision refs/pr/7"):
        assert words in str(error.value)
    lines = str(error.value).splitlines()[1:]
    named = [line.split(":")[0].strip() for line in lines]
    assert named == [f"{kind}/{name}" for kind, name, _ in items[:-1]]
    assert "org/model" in json.loads(lock.read_text())


def test_the_mirror_is_tried_first_and_a_changed_file_is_noticed(tmp_path, lock):
    mirror, file = str(tmp_path), tmp_path / "data/tinystories/stories_1000.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text('{"id": 0, "text": "one"}\n')
    (file.parent / ".hidden").write_text("not part of it")
    model = tmp_path / "models/m"
    model.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (model / name).write_bytes(MODEL[name])
    entry = {"hub": {"repo": "org/x", "parts": {"validation": {"files": ["*"]}}}}
    options = {"mirror": mirror, "lock_path": lock, "cache": tmp_path / "cache"}
    record = sources.resolve_source("data", "tinystories", entry, **options)
    assert record["origin"] == "mirror"
    assert list(record["files"]) == ["stories_1000.jsonl"]
    mark = sources.fingerprint("data", "tinystories", entry, mirror, str(lock))
    file.write_text('{"id": 0, "text": "two"}\n')
    again = sources.resolve_source("data", "tinystories", entry, **options)
    assert again["files"] != record["files"]
    assert sources.fingerprint("data", "tinystories", entry, mirror, str(lock)) != mark
    (Path(mirror) / "world.json").write_text("{}")
    record = sources.resolve_source("models", "m", {}, mirror=mirror, lock_path=lock)
    assert record["origin"] == "world"


def test_the_record_of_one_file_stands_for_it_alone(tmp_path):
    file, where = tmp_path / "pairs.csv", tmp_path / "r.json"
    file.write_text("stereotype,anti_stereotype\na,b\n")
    entry = ("data", "x", {"path": str(file)})
    record = sources.resolve_source(*entry, mirror=None, lock_path="no")
    assert sources.within_mirror(record, [str(tmp_path)], "mirror.json", where) == record
    write_json(where, sealed(record))
    assert source_folder(where) == file  # whatever else lies beside it
    mark = sources.fingerprint(*entry, None, "no")
    file.write_text("stereotype,anti_stereotype\na,c\n")
    assert sources.fingerprint(*entry, None, "no") != mark


def test_every_hub_entry_of_the_catalogue_has_a_converter_for_its_parts(repo):
    entries = read_yaml(repo / "config/catalogue.yaml")["datasets"]
    for name, entry in entries.items():
        given = [dataset_parts(name, entry or {})]
        given += [dataset_parts(name, entry, "package")] if (entry or {}).get("package") else []
        for parts in filter(None, given):
            # A converter asks for its parts by name: a missing one is a KeyError.
            tables = {part.name: MagicMock(**{"__iter__.return_value": iter(())}) for part in parts}
            list(CONVERTERS[name](tables))
            assert all(table.__iter__.called for table in tables.values()), name


def test_commands_prefetch_fetch_and_refuse(tmp_path, server, monkeypatch, capsys):
    """The whole path through the command line against the local hub, then without it."""
    lock = str(tmp_path / "lock.json")
    write_config(tmp_path, lock, ["dense"], {})
    files = ["--configfile", tmp_path / "config.yaml", "--catalogue", tmp_path / "catalogue.yaml"]
    assert main(["prefetch", *map(str, files)]) == 0
    assert "[2/2] models/m: org/model at" in capsys.readouterr().err
    server.close()
    go_offline(monkeypatch)
    out = tmp_path / "record.json"

    def fetch(kind, name, entry, *more):
        words = ["--kind", kind, "--name", name, "--entry", json.dumps(entry), *more]
        status = main(["fetch-source", *words, "--lock", lock, "--out", str(out)])
        return status or json.loads(out.read_text())

    commits = {name: one.refs["main"] for (_, name), one in server.repositories.items()}
    record = fetch("models", "m", {"hub": "org/model"})
    assert (record["origin"], record["revision"]) == ("hub", commits["org/model"])
    # safetensors, configuration and tokenizer; no pickle, no code, no second copy
    assert sorted(record["files"]) == ["config.json", "model.safetensors", "tokenizer.json"]
    sha256 = hashlib.sha256(safetensors()).hexdigest()
    assert record["files"]["model.safetensors"] == {"sha256": sha256, "bytes": len(safetensors())}
    assert record["files"] == json.loads(Path(lock).read_text())["org/model"]["files"]
    assert (Path(record["folder"]) / "model.safetensors").read_bytes() == safetensors()
    assert fetch("models", "m", {"hub": "org/model"}) == record
    record = fetch("data", "tinystories", STORIES, "--cache", str(tmp_path / "converted"))
    assert record["revision"] == f"org/stories@{commits['org/stories']}"
    assert {item.text for item in read_tinystories(record["folder"])} == {"one", "two"}
    shutil.rmtree(tmp_path / "cache")
    out.unlink()
    assert fetch("models", "m", {"hub": "org/model"}) == 2
    assert "HF_HUB_OFFLINE" in capsys.readouterr().err
    assert not out.exists()


def test_a_model_by_its_id_is_the_pinned_one_or_the_newest(server, tmp_path, capsys):
    lock = tmp_path / "lock.json"
    folder, newest = hub_model("org/model", lock, False)
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json"
    }  # fmt: skip
    assert newest in capsys.readouterr().err
    prefetch([("models", "m", {"hub": "org/model"})], mirror=None, lock_path=lock)
    server.repository("model", "org/model").push({**MODEL, "tokenizer.json": b'{"a": 1}'})
    folder, revision = hub_model("org/model", lock, False)
    assert revision == newest
    assert (folder / "tokenizer.json").read_bytes() == MODEL["tokenizer.json"]
    with pytest.raises(UserError, match="does not exist"):
        hub_model("org/none", lock, False)
