"""Nothing that is not ours is deleted or written over: each refused case compares the victim."""

import json
import multiprocessing
import os
import shutil
from pathlib import Path

import pytest
from both import main, refused
from folders import snapshot

from evenprune.io import marks
from evenprune.io.errors import UserError
from evenprune.io.marks import MARK
from evenprune.io.outputs import atomic_folder, check_file, check_folder
from evenprune.pruning.workspace import check_work
from evenprune_world.generate_world import Sizes, write_world

SMALL = Sizes(
    stereoset={"gender": 2, "profession": 2, "race": 2, "religion": 2},
    crows_pairs=4, crows_pairs_original=4, ultrachat=2, wikitext_articles=1, hellaswag=2, mmlu=9,
    unqover_entries=2, bbq_quadruples=2, realtoxicityprompts=2, harmbench={"standard": 2},
    train_exercises=2, train_quizzes=2, train_questions=2, train_knowledge=2, train_stories=2,
    train_statements=2, train_articles=2, train_dialogues=2,
)  # fmt: skip


def fill(path: Path, kind: str, **files: str) -> None:
    with atomic_folder(path, kind) as folder:
        for name, text in files.items():
            (folder / name).write_text(text)


@pytest.fixture
def victim(tmp_path, monkeypatch):
    """A folder of the user's, which is also the working directory's neighbour."""
    folder = tmp_path / "victim"
    (folder / "deep").mkdir(parents=True)
    (folder / "thesis.txt").write_text("years of work")
    (folder / "manifest.json").write_text('{"name": "an extension of a browser"}')
    (folder / "deep/data.csv").write_text("1,2\n")
    (tmp_path / "cwd/below").mkdir(parents=True)
    (tmp_path / "cwd/notes.txt").write_text("notes")
    monkeypatch.chdir(tmp_path / "cwd/below")
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("worlds") / "world"
    write_world(0, folder, SMALL)
    return folder


# --- the guard ------------------------------------------------------------------------------


def test_our_own_folder_of_the_kind_is_replaced(tmp_path):
    target = tmp_path / "out"
    target.mkdir()  # an empty folder may be taken
    fill(target, "world", a="1", b="2")
    (target / ".snakemake_timestamp").touch()
    fill(target, "world", a="3")
    assert sorted(os.listdir(target)) == [MARK, "a"]
    assert json.loads((target / MARK).read_text()) == {"kind": "world", "files": ["a"]}
    assert os.listdir(tmp_path) == ["out"]


def test_another_kind_and_added_files_are_refused(tmp_path):
    target = tmp_path / "out"
    fill(target, "world", a="1")
    before = snapshot(target)
    with pytest.raises(UserError, match="is a world that this program made"):
        fill(target, "calibration", a="2")
    assert snapshot(target) == before
    (target / "sub").mkdir()
    (target / "sub/mine.txt").write_text("mine")
    (target / "link").symlink_to(tmp_path)
    before = snapshot(target)
    with pytest.raises(UserError, match=r"files were added \(link and 1 more\)"):
        fill(target, "world", a="2")
    assert snapshot(target) == before
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("mark", ["", "[]", "{", '{"kind": "world"}', '{"kind": 1, "files": []}'])
def test_a_damaged_mark_counts_for_nothing(tmp_path, mark):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / MARK).write_text(mark)
    with pytest.raises(UserError, match="not the mark of a world"):
        fill(tmp_path / "out", "world", a="1")
    assert snapshot(tmp_path / "out") == {MARK: mark.encode()}


def test_a_mark_cannot_name_files_elsewhere(tmp_path, victim):
    (tmp_path / "out").mkdir()
    listed = ["../victim/thesis.txt", str(victim / "manifest.json"), "a"]
    (tmp_path / "out/a").write_text("1")
    (tmp_path / "out" / MARK).write_text(json.dumps({"kind": "world", "files": listed}))
    before = snapshot(victim)
    fill(tmp_path / "out", "world", b="2")
    assert snapshot(victim) == before
    assert sorted(os.listdir(tmp_path / "out")) == [MARK, "b"]


def test_places_that_are_never_replaced(victim, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home/me"))
    (tmp_path / "home/me").mkdir(parents=True)
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_text("a file")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    cases = {
        ".": "working directory",
        "..": "working directory",
        "../below": "working directory",
        "/": "working directory",
        tmp_path: "working directory",
        tmp_path / "home": "home directory",
        tmp_path / "home/me": "home directory",
        tmp_path / "link": "is a link",
        tmp_path / "dangling": "is a link",
        tmp_path / "loop": "is a link",
        tmp_path / "loop/sub": "cannot be",
        tmp_path / "dangling/sub": "is no folder",
        tmp_path / "file": "is a file",
        tmp_path / "file/sub": "is no folder",
        tmp_path / ("n" * 250): "too long",
        victim: "not the mark of a world",
    }
    before = snapshot(tmp_path)
    for path, words in cases.items():
        with pytest.raises(UserError, match=words), atomic_folder(Path(path), "world"):
            pytest.fail(f"{path} was taken")
    assert snapshot(tmp_path) == before


def test_an_input_is_never_replaced(tmp_path):
    fill(tmp_path / "deep/out", "world", a="1")
    (tmp_path / "alias").symlink_to(tmp_path / "deep/out")
    for given in ("deep/out", "deep/out/a", "alias", "alias/a", "deep/out/missing"):
        with pytest.raises(UserError, match=r"is the input .* or holds it"):
            check_folder(tmp_path / "deep/out", "world", [None, tmp_path / given])
    with pytest.raises(UserError, match="into the input folder"):
        check_folder(tmp_path / "deep/out", "world", [tmp_path])
    check_folder(tmp_path / "deep/out", "world", [tmp_path / "deep/other"])


def test_what_is_added_during_the_work_is_not_lost(tmp_path):
    target = tmp_path / "out"
    fill(target, "world", a="1")
    with pytest.raises(UserError, match="files were added"), atomic_folder(target, "world"):
        (target / "mine.txt").write_text("mine")
    assert (target / "mine.txt").read_text() == "mine"
    assert (target / "a").read_text() == "1"
    shutil.rmtree(target)
    with pytest.raises(UserError, match="not the mark"), atomic_folder(target, "world"):
        target.mkdir()
        (target / "mine.txt").write_text("mine")
    assert snapshot(target) == {"mine.txt": b"mine"}
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("step", range(12))
def test_a_kill_during_the_exchange_loses_neither(tmp_path, step):
    """The process ends before its n-th change of a name; the old or the new folder is whole."""
    target = tmp_path / "out"
    fill(target, "world", a="old", b="old")
    (target / "models").mkdir()
    (target / "models/m").write_text("another's")

    moments = iter(range(step))

    def counted(real):
        return lambda *args, **options: (
            os._exit(9) if next(moments, None) is None else real(*args, **options)
        )

    def dying():
        for name in ("rename", "unlink", "rmdir", "replace"):
            setattr(os, name, counted(getattr(os, name)))
        with atomic_folder(target, "world", keep=("models",)) as folder:
            (folder / "a").write_text("new")
        os._exit(0)

    child = multiprocessing.get_context("fork").Process(target=dying)
    child.start()
    child.join()
    found = [(one.get("a"), one.get("b")) for one in map(snapshot, tmp_path.iterdir())]
    assert {(b"new", None), (b"old", b"old")} & {*found}
    assert [path.read_text() for path in tmp_path.rglob("models/m")] == ["another's"]
    with atomic_folder(target, "world", keep=("models",)) as folder:
        (folder / "a").write_text("newest")
    assert (target / "a").read_text() == "newest"
    assert (target / "models/m").read_text() == "another's"
    assert not (target / "b").exists()
    assert not (tmp_path / ".out.replaced").exists()


def test_files_are_checked_against_the_inputs(tmp_path, victim):
    (tmp_path / "link").symlink_to(victim / "thesis.txt")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    before = snapshot(victim)
    for path, inputs, words in (
        (victim, (), "is a folder"),
        (tmp_path / "link", (), "is a link"),
        (tmp_path / "dangling", (), "is a link"),
        (tmp_path / "pipe", (), "no ordinary file"),
        (victim / "thesis.txt/x", (), "is no folder"),
        (victim / "thesis.txt", [victim / "thesis.txt"], "is the input"),
        (victim / "thesis.txt", [tmp_path / "link"], "is the input"),
        (victim / "deep/../thesis.txt", [victim / "thesis.txt"], "is the input"),
        (victim / "new.json", [victim], "into the input folder"),
    ):
        with pytest.raises(UserError, match=words):
            check_file(path, inputs)
    check_file(victim / "thesis.txt", [None, victim / "manifest.json"])
    assert snapshot(victim) == before


# --- the commands ---------------------------------------------------------------------------


@pytest.fixture
def commands(world, prunable, pairs):
    """The arguments of every command that replaces a folder, without --out."""
    data = world / "data"
    calibration = ("--pairs", "stereoset", "--pairs-data", data / "stereoset")
    pruning = ("--method", "sparsegpt", "--regime", "2of4", "--device", "cpu")
    return {
        "generate-world": ["generate-world"],
        "train-world": ["train-world", "--world", world, "--steps", 1],
        "shipped-world-model": ["shipped-world-model", "--world", world],
        "build-calibration": ["build-calibration", *calibration, "--model", prunable],
        "prune": ["prune", "--model", prunable, "--pairs", pairs, *pruning],
        "export-sparse24": ["export-sparse24", "--model", prunable],
    }


REPLACING = {
    "generate-world": marks.WORLD, "train-world": marks.WORLD_MODEL,
    "shipped-world-model": marks.WORLD_MODEL, "build-calibration": marks.CALIBRATION,
    "prune": marks.PRUNED, "export-sparse24": marks.EXPORT,
}  # fmt: skip


@pytest.mark.parametrize("command", REPLACING)
def test_no_command_deletes_what_is_not_its_own(command, commands, victim, tmp_path, capsys):
    """Nor takes one with added files, of the right kind, for its own."""
    fill(tmp_path / "extended", REPLACING[command], a="1")
    (tmp_path / "extended/mine.txt").write_text("mine")
    before = snapshot(tmp_path)
    for out, words in (
        (victim, "not the mark"),
        (tmp_path / "extended", "files were added (mine.txt)"),
    ):
        refused(capsys, [*commands[command], "--out", out], "--out", words)
        assert snapshot(tmp_path) == before


def test_no_command_replaces_its_input(commands, tmp_path, world, prunable, pairs, capsys):
    given = tmp_path / "given"
    for source, name in ((world, "world"), (prunable, "base")):
        shutil.copytree(source, given / name)
    shutil.copy(pairs, given / "pairs.jsonl")
    moves = {str(world): given / "world", str(prunable): given / "base",
             str(world / "data/stereoset"): given / "world/data/stereoset",
             str(pairs): given / "pairs.jsonl"}  # fmt: skip
    marks.mark_folder(given, marks.PRUNED)
    before = snapshot(given)
    for command in list(REPLACING)[1:]:
        argv = [moves.get(str(word), word) for word in commands[command]]
        refused(capsys, [*argv, "--out", given], "is the input")
    assert snapshot(given) == before


def test_a_pruned_model_is_replaced_and_its_mark_not_carried_on(commands, tmp_path):
    """And what others put among its unfinished results stays."""
    argv = [str(word) for word in [*commands["prune"], "--out", tmp_path / "out"]]
    mine = tmp_path / ".out.partial/mine.done"
    mine.mkdir(parents=True)
    (mine / "lock").write_text("")
    assert main(argv) == 0
    first = snapshot(tmp_path / "out")
    assert main(argv) == 0
    second = snapshot(tmp_path / "out")
    assert first.keys() == second.keys()
    assert first | {"provenance.json": b""} == second | {"provenance.json": b""}
    assert list(snapshot(tmp_path / ".out.partial")) == ["mine.done", "mine.done/lock"]
    export = ["export-sparse24", "--model", str(tmp_path / "out"), "--out"]
    assert main([*export, str(tmp_path / "export")]) == 0
    mark = json.loads((tmp_path / "export" / MARK).read_text())
    assert mark["kind"] == marks.EXPORT
    assert set(mark["files"]) == {name for name in snapshot(tmp_path / "export") if name != MARK}


def test_work_and_out_are_apart(tmp_path, commands, prunable, victim, capsys):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(victim)
    before = snapshot(tmp_path)
    for out, work, words in (
        ("new", "new", "keep them apart"),
        ("new", "new/work", "keep them apart"),
        ("new", "link", "is a link"),
        ("new", prunable, "into the input folder"),
    ):
        argv = [*commands["prune"], "--out", tmp_path / out, "--work", tmp_path / work]
        refused(capsys, argv, "--work", words)
        assert snapshot(tmp_path) == before
    check_work(tmp_path / "results/.partial", tmp_path / "results/pruned/model")
    (tmp_path / ".new.partial").symlink_to(victim)
    refused(capsys, [*commands["prune"], "--out", tmp_path / "new"], "is a link")


def test_a_world_is_replaced_around_the_models_of_others(tmp_path):
    out = tmp_path / "world"
    (out / "models/world").mkdir(parents=True)  # what Snakemake leaves of an earlier version
    (out / "models/world/config.json").write_text("{}")
    for seed in (0, 1):
        write_world(seed, out, SMALL)
        assert json.loads((out / "world.json").read_text())["seed"] == seed
        assert (out / "models/world/config.json").read_text() == "{}"
    for name in ("data", "train"):  # as Snakemake does before it runs the rule again
        shutil.rmtree(out / name)
    (out / "world.json").unlink()
    write_world(0, out, SMALL)
    assert (out / "models/world/config.json").read_text() == "{}"
    assert [path.name for path in tmp_path.iterdir()] == ["world"]
    (out / "data/mine").mkdir()
    (out / "data/mine/set.jsonl").write_text("{}")
    before = snapshot(out)
    with pytest.raises(UserError, match=r"files were added \(data/mine/set\.jsonl\)"):
        write_world(1, out, SMALL)
    assert snapshot(out) == before


# --- files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["metrics.json", "partial.jsonl"])
def test_evaluation_leaves_files_alone_that_have_its_names(name, world, prunable, tmp_path, capsys):
    data = world / "data/unqover"
    (tmp_path / "slug").mkdir()
    for folder in (tmp_path, tmp_path / "slug"):
        (folder / name).write_text('{"sku": 1}\n')
    before = snapshot(tmp_path)
    argv = ["evaluate", "--model", prunable, "--data", data, "--benchmark", "unqover"]
    refused(capsys, [*argv, "--out", tmp_path], name)
    for out in (prunable, data):
        refused(capsys, [*argv, "--out", out], "into the input folder")
    benchmarks = json.dumps({"slug": {"task": "unqover", "data": str(data)}})
    argv = ["evaluate-checkpoint", "--model", prunable, "--benchmarks", benchmarks]
    refused(capsys, [*argv, "--out", tmp_path], name, "did not make")
    assert snapshot(tmp_path) == before
