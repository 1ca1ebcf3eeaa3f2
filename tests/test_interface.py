"""The Python interface: what `import evenprune` brings, its examples, the notebook."""

import doctest
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
from evaluation_fixtures import save_model, unqover_rows, write_jsonl
from pruning_models import random_pairs, write_rows
from test_packages import clone, index  # noqa: F401  # fixtures

import evenprune
from evenprune.cli import COMMANDS, parsers
from evenprune.io.errors import UserError

# As their examples need each other.
FUNCTIONS = ("prune", "check", "evaluate", "compare", "export_sparse24")


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """What the examples of the docstrings name."""
    root = tmp_path_factory.mktemp("interface")
    save_model(root / "dense")
    write_rows(root / "pairs.jsonl", random_pairs(4))
    write_jsonl(root / "unqover/datas_rebuilt.jsonl", unqover_rows(24))
    return root


@pytest.fixture
def here(ground, monkeypatch):
    monkeypatch.chdir(ground)
    monkeypatch.setenv("XDG_CACHE_HOME", str(ground / "cache"))
    return ground


def test_an_import_brings_five_functions_and_nothing_heavy():
    assert sorted(evenprune.__all__) == sorted(("__version__", *FUNCTIONS))
    assert {*FUNCTIONS} <= {*dir(evenprune)}
    code = "import sys, evenprune; print(sum(name.startswith('evenprune') for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
    with pytest.raises(AttributeError, match="has no attribute 'prunes'"):
        evenprune.prunes  # noqa: B018


def test_examples_run(here):
    for name in FUNCTIONS:
        finder = doctest.DocTestFinder(recurse=False)
        (found,) = finder.find(getattr(evenprune, name), name, globs={})
        assert len(found.examples) > 1
        said: list[str] = []
        doctest.DocTestRunner().run(found, out=said.append)
        assert not said, "".join(said)


def test_parameters_are_the_flags_and_all_are_explained():
    found = parsers()
    for name in FUNCTIONS:
        function = getattr(evenprune, name)
        flags = {action.dest for action in found[name.replace("_", "-")]._actions}
        parameters = {*inspect.signature(function).parameters} - {"options"}
        assert parameters <= flags, name
        assert all(f"\n{one} : " in inspect.getdoc(function) for one in parameters), name
        heads = ("Parameters", "Returns", "Raises", "References", "Examples")
        assert all(f"\n{head}\n{'-' * len(head)}\n" in inspect.getdoc(function) for head in heads)
        assert name.replace("_", "-") in COMMANDS


def test_a_comparison_is_a_table_a_page_and_a_figure(here):
    asked = {"benchmark": "unqover", "data": "unqover", "limit": 16, "evals": "evals"}
    save_model(here / "other", seed=1)
    found = evenprune.compare("dense", ["other", "dense"], out="out", **asked)
    frame = found.to_frame()
    assert list(frame["model"]) == ["other", "dense"]
    assert {"metric", "difference", "low", "high", "verdict", "to_bad"} <= {*frame.columns}
    assert found._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert "against dense" in str(found)
    figure = found.plot()
    assert len(figure.axes) == 2
    assert [one.get_text() for one in figure.axes[0].get_yticklabels()] == ["unqover acc"]
    figure.savefig(here / "figure.png")
    assert json.loads(Path("out/comparison.json").read_text())["dense"] == "dense"


def test_results_are_kept_and_compared(here):
    asked = {"benchmark": "unqover", "data": "unqover", "limit": 12}
    first = evenprune.evaluate("dense", **asked)
    assert evenprune.evaluate("dense", **asked).folder == first.folder
    assert first.folder.is_relative_to(here / "cache")
    assert first.to_frame().loc["acc", "good"] == "up"
    assert "<table" in first._repr_html_()
    other = evenprune.evaluate("dense", out="scores", **asked)
    assert evenprune.compare(first.folder, "scores").to_frame()["verdict"].eq("identical").all()
    assert str(other).startswith("unqover: acc ")


def test_a_folder_without_its_base_and_names_that_nobody_knows(here):
    report = evenprune.check("dense")
    assert (report["states"], report["zeros"], report["base_sha256"]) == ({}, 0, None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'limits'"):
        evenprune.compare("dense", "dense", limits=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'limits'"):
        evenprune.evaluate("dense", "unqover", limits=3)
    with pytest.raises(UserError, match="among worse, less-fair, ability-lost, got 'bad'"):
        evenprune.compare("dense", "dense", fail_if="bad")
    with pytest.raises(UserError, match="there is no benchmark 'none'"):
        evenprune.evaluate("dense", "none")
    with pytest.raises(UserError, match="--bias-wait"):
        evenprune.prune("dense", method="sparsegpt", regime="2:4", out="new", bias_wait=1)


def test_the_notebook_runs(repo, clone):  # noqa: F811
    text = (repo / "docs/notebook.ipynb").read_text()
    cells = json.loads(text)["cells"]
    assert len(cells) <= 10
    assert not any(cell.get("outputs") for cell in cells)
    save_model(clone / "small")
    names: dict = {}
    for cell in cells:
        source = "".join(cell["source"]).replace("smollm2-135m", "small")
        if cell["cell_type"] == "code":
            exec(compile(source, "notebook", "exec"), names)
    assert names["manifest"]["sparsity"] == 0.5
    assert set(names["found"].to_frame()["benchmark"]) == {"stereoset"}
