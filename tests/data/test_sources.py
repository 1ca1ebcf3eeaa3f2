"""Mirror, hub, lock file and prefetch; the hub is a local one spoken to by the real client."""

import hashlib
import json
import shutil
import struct
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from fake_hub import FakeHub

from evenprune.base.checksums import source_folder
from evenprune.base.errors import UserError
from evenprune.base.yamlfile import read_yaml
from evenprune.cli import main
from evenprune.data import sources
from evenprune.data.converters import CONVERTERS
from evenprune.data.hub import Hub, Unreachable
from evenprune.data.hub_models import hub_model
from evenprune.data.lock import PARQUET_REF, read_lock
from evenprune.data.parts import dataset_parts, package_parts
from evenprune.data.prefetch import prefetch
from evenprune.data.readers.tinystories import read_tinystories

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


@pytest.fixture
def server(monkeypatch):
    go_offline(monkeypatch, False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub = FakeHub()
    hub.repository("model", "org/model").push(MODEL)
    hub.repository("dataset", "org/stories").push(
        {"data/validation.jsonl": stories("one", "two", "three"), "README.md": b"card"}
    )
    yield hub
    hub.close()


@pytest.fixture
def hub(server, tmp_path) -> Hub:
    return Hub(cache=tmp_path / "cache", endpoint=server.url)


@pytest.fixture
def lock(tmp_path) -> Path:
    return tmp_path / "config" / "lock.json"


def go_offline(monkeypatch, offline=True):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)


def get_model(hub, lock, /, **entry):
    prefetch([("models", "m", {"hub": "org/model", **entry})], mirror=None, lock_path=lock, hub=hub)
    return json.loads(lock.read_text())


def fetch_model(hub, lock):
    return sources.resolve_model("m", {"hub": "org/model"}, mirror=None, lock_path=lock, hub=hub)


def test_prefetch_pins_commit_and_checksums_then_works_offline(server, hub, lock, monkeypatch):
    commit = server.repository("model", "org/model").refs["main"]
    pinned = get_model(hub, lock)["org/model"]
    assert pinned["revision"] == commit
    # safetensors, configuration and tokenizer; no pickle, no code, no second copy
    assert sorted(pinned["files"]) == ["config.json", "model.safetensors", "tokenizer.json"]
    sha256 = hashlib.sha256(safetensors()).hexdigest()
    assert pinned["files"]["model.safetensors"] == {"sha256": sha256, "bytes": len(safetensors())}
    go_offline(monkeypatch)
    before = len(server.requests)
    record = fetch_model(hub, lock)
    assert len(server.requests) == before
    assert (record["origin"], record["revision"]) == ("hub", commit)
    assert record["files"] == pinned["files"]
    assert (Path(record["folder"]) / "model.safetensors").read_bytes() == safetensors()


def test_a_repository_that_moved_stays_at_the_pinned_commit(server, hub, lock):
    old = get_model(hub, lock)["org/model"]["revision"]
    new = server.repository("model", "org/model").push(
        {**MODEL, "model.safetensors": safetensors(b"\1" * 8)}
    )
    record = fetch_model(hub, lock)
    assert record["revision"] == old
    assert (Path(record["folder"]) / "model.safetensors").read_bytes() == safetensors()
    assert get_model(hub, lock)["org/model"]["revision"] == old  # prefetch again keeps the pin
    prefetch(
        [("models", "m", {"hub": "org/model"})], mirror=None, lock_path=lock, hub=hub, update=True
    )
    assert json.loads(lock.read_text())["org/model"]["revision"] == new


def test_a_file_that_does_not_fit_the_lock_is_an_error(server, hub, lock):
    pinned = get_model(hub, lock)
    folder = Path(fetch_model(hub, lock)["folder"])
    changed = (folder / "config.json").resolve()
    changed.write_bytes(b"{}")
    with pytest.raises(UserError, match=r"config\.json of org/model has the SHA-256"):
        fetch_model(hub, lock)
    assert json.loads(lock.read_text()) == pinned


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])  # large, and small
def test_a_download_that_comes_damaged_is_an_error_and_not_pinned(server, hub, lock, file):
    server.small.add("config.json")
    server.damaged.add(file)
    with pytest.raises(UserError, match=f"{file} of org/model came damaged"):
        get_model(hub, lock)
    assert not lock.exists()


def test_a_gated_repository_is_one_sentence_without_the_token(server, hub, lock, capsys):
    server.repository("model", "org/model").gated = True
    with pytest.raises(UserError, match="is gated and this account may not read it") as error:
        get_model(hub, lock)
    assert any(TOKEN in (header or "") for _, _, header in server.requests)  # it was sent
    assert TOKEN not in str(error.value) + capsys.readouterr().err
    assert not lock.exists()


def test_weights_without_safetensors_ask_for_a_reference_that_has_them(server, hub, lock):
    repository = server.repository("model", "org/old")
    repository.push({k: v for k, v in MODEL.items() if "safetensors" not in k})
    repository.push(MODEL, ref="refs/pr/3")
    with pytest.raises(UserError, match=r"no config.json with safetensors .*\(org/old@refs/pr/N"):
        get_model(hub, lock, hub="org/old")
    assert list(get_model(hub, lock, hub="org/old@refs/pr/3")) == ["org/old@refs/pr/3"]


def test_missing_file_and_closed_hub(server, hub, monkeypatch):
    commit = server.repository("model", "org/model").refs["main"]
    with pytest.raises(UserError, match=r"has no file nothing\.json at revision"):
        hub.fetch("org/model", "model", commit, "nothing.json")
    server.close()
    with pytest.raises(Unreachable, match="the hub cannot be reached"):
        hub.listing("org/model", "model", "main")
    go_offline(monkeypatch)
    with pytest.raises(Unreachable, match=r"config\.json of .* local cache.*HF_HUB_OFFLINE"):
        hub.fetch("org/model", "model", commit, "config.json")


def stored_stories(hub, lock, tmp_path, name="tinystories", entry=STORIES):
    options = {"mirror": None, "lock_path": lock, "hub": hub}
    prefetch([("data", name, entry)], **options)
    return sources.resolve_dataset(name, entry, cache=tmp_path / "converted", **options)


def test_data_set_is_pinned_converted_and_read(server, hub, lock, tmp_path, monkeypatch):
    record = stored_stories(hub, lock, tmp_path)
    commit = server.repository("dataset", "org/stories").refs["main"]
    assert record["revision"] == f"org/stories@{commit}"
    assert {item.text for item in read_tinystories(record["folder"])} == {"one", "two"}
    go_offline(monkeypatch)
    assert stored_stories(hub, lock, tmp_path) == record


def test_data_set_in_another_form_is_taken_from_the_parquet_copy(server, hub, lock, tmp_path):
    repository = server.repository("dataset", "org/stories")
    repository.refs.clear()
    repository.push({"stories.py": b"a loading script"})
    commit = repository.push({"default/0.jsonl": stories("one", "two")}, ref=PARQUET_REF)
    assert commit in stored_stories(hub, lock, tmp_path)["revision"]
    assert list(json.loads(lock.read_text())) == [f"org/stories@{PARQUET_REF}"]


def test_unexpected_layout_columns_and_row_count_are_said(server, hub, lock):
    def fetch(entry):
        prefetch([("data", "tinystories", entry)], mirror=None, lock_path=lock, hub=hub)

    entry = {"hub": {"repo": "org/stories", "parts": {"validation": {"files": ["*.arrow"]}}}}
    with pytest.raises(UserError, match=r"expected files like \*\.arrow .*README\.md"):
        fetch(entry)
    part = {"files": ["data/*.jsonl"], "rows": 7}
    with pytest.raises(UserError, match=r"expected 7 rows in part validation .* got 3"):
        fetch({"hub": {"repo": "org/stories", "parts": {"validation": part}}})
    server.repository("dataset", "org/stories").push({"data/v.jsonl": b'{"story": "x"}\n'})
    assert not lock.exists()  # what cannot be converted is not pinned
    with pytest.raises(UserError, match=r"expected the columns text .* got story"):
        fetch(STORIES)


BAD_NAMES = ("a/b/c", "a b/c", "-org/model", "org/", "x" * 200, "", "org/mo\ndel", "../../x")


def test_prefetch_goes_on_after_a_failure_and_lists_all(hub, lock):
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
        prefetch(items, mirror=None, lock_path=lock, hub=hub)
    for words in ("spirit-moon-fly/CAL", "does not exist, or is private", "no revision refs/pr/7"):
        assert words in str(error.value)
    lines = str(error.value).splitlines()[1:]
    assert [line.split(":")[0].strip() for line in lines] == [
        f"{kind}/{name}" for kind, name, _ in items[:-1]
    ]
    assert "org/model" in json.loads(lock.read_text())


@pytest.mark.parametrize("name", ["victim"])
def test_a_conversion_replaces_only_a_conversion(hub, lock, tmp_path, name, monkeypatch):
    monkeypatch.setitem(CONVERTERS, name, CONVERTERS["tinystories"])
    victims = [tmp_path / "victim", tmp_path / "converted/victim"]
    for folder in victims:
        folder.mkdir(parents=True)
        (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match=r"expected a folder below|not the mark"):
        stored_stories(hub, lock, tmp_path, name)
    assert [path.name for folder in victims for path in folder.iterdir()] == ["thesis.txt"] * 2


@pytest.mark.parametrize(
    "content", ['{"r": []}', '{"r": {"revision": "main", "files": {}}}', '{"r": 1}']
)
def test_a_broken_lock_is_an_error(lock, content):
    lock.parent.mkdir()
    lock.write_text(content)
    with pytest.raises(UserError, match="expected a commit of 40 hex digits"):
        read_lock(lock)


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
    record = sources.resolve_dataset("tinystories", entry, **options)
    assert record["origin"] == "mirror"
    assert list(record["files"]) == ["stories_1000.jsonl"]
    mark = sources.fingerprint("data", "tinystories", entry, mirror, str(lock))
    file.write_text('{"id": 0, "text": "two"}\n')
    assert sources.resolve_dataset("tinystories", entry, **options)["files"] != record["files"]
    assert sources.fingerprint("data", "tinystories", entry, mirror, str(lock)) != mark
    (Path(mirror) / "world.json").write_text("{}")
    assert sources.resolve_model("m", {}, mirror=mirror, lock_path=lock)["origin"] == "world"


@pytest.mark.parametrize("kind", ["data", "models"])
def test_records_with_a_mirror_file_name_no_path(tmp_path, lock, kind):
    """Two mirrors with the same bytes have one record, which leads to either."""
    what = {"data": "dataset", "models": "model"}[kind]
    out = tmp_path / f"sources/{kind}/x.json"
    place = tmp_path / "sources/mirror.json"
    place.parent.mkdir()
    texts = []
    for name in ("here", "there"):
        folder = tmp_path / name / kind / "x"
        folder.mkdir(parents=True)
        (folder / "config.json").write_bytes(MODEL["config.json"])
        (folder / "model.safetensors").write_bytes(safetensors())
        place.write_text(json.dumps({"mirror": str(tmp_path / name)}))
        words = [f"fetch-{what}", "--name", "x", "--lock", str(lock), "--out", str(out)]
        assert main([*words, "--mirror-file", str(place)]) == 0
        texts.append(out.read_text())
        assert source_folder(out) == folder
    assert texts[0] == texts[1]
    assert str(tmp_path) not in texts[0]
    assert main([*words, "--mirror", str(tmp_path / "here")]) == 0
    assert source_folder(out) == tmp_path / "here" / kind / "x"


def test_a_missing_source_names_both_places_and_the_command(tmp_path, lock):
    with pytest.raises(UserError) as error:
        sources.resolve_model("m", {"hub": "org/model"}, mirror=str(tmp_path), lock_path=lock)
    text = str(error.value)
    assert f"{tmp_path}/models/m" in text
    assert "org/model" in text
    assert "snakemake prefetch" in text
    assert "\n" not in text
    with pytest.raises(UserError, match="no mirror is set, and it has no hub repository"):
        sources.resolve_dataset("bbq", {}, mirror=None, lock_path=lock, cache=tmp_path)


def test_fingerprint_follows_the_lock_and_is_empty_for_nothing(hub, lock, tmp_path):
    def marks():
        items = ("models", "m", {"hub": "org/model"}), ("data", "tinystories", STORIES)
        return [sources.fingerprint(*item, None, str(lock)) for item in items]

    assert marks() == ["", ""]
    text = json.dumps(get_model(hub, lock))
    stored_stories(hub, lock, tmp_path)
    model, data = marks()
    assert model
    assert data
    revision = json.loads(text)["org/model"]["revision"]
    lock.write_text(lock.read_text().replace(revision, "0" * 40))
    assert marks()[0] != model
    assert marks()[1] == data


def test_every_hub_entry_of_the_catalogue_has_a_converter_for_its_parts(repo):
    entries = read_yaml(repo / "config/catalogue.yaml")["datasets"]
    for name, entry in entries.items():
        given = [dataset_parts(name, entry or {})]
        given += [package_parts(name, entry)] if (entry or {}).get("package") else []
        for parts in filter(None, given):
            # A converter asks for its parts by name: a missing one is a KeyError.
            tables = {part.name: MagicMock(**{"require.return_value": iter(())}) for part in parts}
            CONVERTERS[name](tables)
            assert all(table.require.called for table in tables.values()), name


def test_commands_prefetch_fetch_and_refuse(tmp_path, server, monkeypatch, capsys):
    """The whole path through the command line against the local hub, then without it."""
    catalogue, config = tmp_path / "catalogue.yaml", tmp_path / "config.yaml"
    given = {
        "models": {"m": {"hub": "org/model", "label": "M"}},
        "datasets": {"tinystories": STORIES, "stereoset": {}},
        "calibrations": {"ss": {"pairs": "stereoset"}},
    }
    catalogue.write_text(json.dumps(given))
    grid = {"models": ["m"], "methods": ["dense"], "regimes": ["2of4"], "calibrations": ["ss"]}
    lock = str(tmp_path / "lock.json")
    given = {
        "source": "external", "lock": lock, "tables": ["main"], "experiments": {"e": grid},
        "benchmarks": {"t": {"task": "perplexity", "dataset": "tinystories"}},
    }  # fmt: skip
    config.write_text(json.dumps(given))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
    template = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf"))
    assert main(["prefetch", "--configfile", str(config), "--catalogue", str(catalogue)]) == 0
    assert "[2/2] models/m: org/model at" in capsys.readouterr().err
    server.close()
    go_offline(monkeypatch)
    out = tmp_path / "record.json"

    def fetch(kind, name, entry, *more):
        spec = json.dumps({"entry": entry, "fingerprint": "x"})
        words = ["--name", name, "--spec", spec, "--lock", lock, "--out", str(out), *more]
        return main([f"fetch-{kind}", *words])

    assert fetch("model", "m", {"hub": "org/model"}) == 0
    first = out.read_bytes()
    assert fetch("model", "m", {"hub": "org/model"}) == 0
    assert out.read_bytes() == first
    assert fetch("dataset", "tinystories", STORIES, "--cache", str(tmp_path / "converted")) == 0
    shutil.rmtree(tmp_path / "hf")
    out.unlink()
    assert fetch("model", "m", {"hub": "org/model"}) == 2
    assert "HF_HUB_OFFLINE" in capsys.readouterr().err
    assert not out.exists()


def test_prefetch_of_the_world_needs_nothing(repo, capsys):
    catalogue = ["--catalogue", str(repo / "config/catalogue.yaml")]
    assert main(["prefetch", "--configfile", str(repo / "config/world.yaml"), *catalogue]) == 0
    assert "makes its own world" in capsys.readouterr().err


def test_a_model_by_its_id_is_the_pinned_one_or_the_newest(server, hub, tmp_path, capsys):
    lock = tmp_path / "lock.json"
    folder, newest = hub_model("org/model", lock, False, hub)
    assert {path.name for path in folder.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json"
    }  # fmt: skip
    assert newest in capsys.readouterr().err
    prefetch([("models", "m", {"hub": "org/model"})], mirror=None, lock_path=lock, hub=hub)
    server.repository("model", "org/model").push({**MODEL, "tokenizer.json": b'{"a": 1}'})
    folder, revision = hub_model("org/model", lock, False, hub)
    assert revision == newest
    assert (folder / "tokenizer.json").read_bytes() == MODEL["tokenizer.json"]
    with pytest.raises(UserError, match="does not exist"):
        hub_model("org/none", lock, False, hub)


def test_an_interrupted_download_is_not_taken_as_whole_offline(server, hub, tmp_path, monkeypatch):
    monkeypatch.setenv("EVENPRUNE_CACHE", str(tmp_path / "own"))
    lock = tmp_path / "lock.json"
    commit = server.repository("model", "org/model").refs["main"]
    for name in ("config.json", "model.safetensors"):  # and then it was killed
        hub.fetch("org/model", "model", commit, name)
    go_offline(monkeypatch)
    with pytest.raises(UserError, match="may have been interrupted"):
        hub_model(f"org/model@{commit}", lock, False, hub)
    go_offline(monkeypatch, False)
    folder, _ = hub_model(f"org/model@{commit}", lock, False, hub)
    go_offline(monkeypatch)
    assert hub_model(f"org/model@{commit}", lock, False, hub) == (folder, commit)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="may have been interrupted"):
        hub_model(f"org/model@{commit}", lock, False, hub)
