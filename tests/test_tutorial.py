"""The commands of docs/tutorial.md as they stand there, on the first blocks of the real model."""

import contextlib
import io
import json
import shlex
import shutil

import pytest
import yaml
from page_commands import START, called, commands, fresh_copy
from real_model import shortened, smollm2_folder

from evenprune.cli import main

SET_UP = ("make env", "source .venv/bin/activate")  # this test's own environment is one


def page(repo):
    text = (repo / "docs/tutorial.md").read_text()
    return [line for line in commands(text) if START.match(line) and line not in SET_UP]


def test_no_command_of_the_tutorial_has_a_placeholder(repo):
    lines = page(repo)
    assert len(lines) >= 7
    assert not [line for line in lines if any(word.isupper() for word in shlex.split(line))]


def in_process(words, folder):
    """Run one of this package's commands here, any other one by itself; return what it printed."""
    if words[0] != "evenprune":
        return called(words, folder)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.chdir(folder):
        assert main(words[1:]) == 0, words
    return said.getvalue()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_tutorial_runs_as_it_stands(repo, tmp_path):
    # Skips without a package index.
    short = shortened(smollm2_folder(), tmp_path / "short", blocks=2)
    folder = fresh_copy(repo, tmp_path / "evenprune")
    # The same names and commands in little time: two blocks, few texts and pairs, one in ten of
    # the questions. `make demo` has the whole model.
    catalogue = folder / "config/catalogue.yaml"
    entries = yaml.safe_load(catalogue.read_text())
    entries["models"]["smollm2-135m"] = {"path": str(short), "label": "SmolLM2"}
    entries["calibrations"]["ss.groups-b64"] |= {"n_texts": 4, "categories": ["religion"]}
    catalogue.write_text(yaml.safe_dump(entries, sort_keys=False))
    lines = [line.replace("--limit 200", "--limit 20") for line in page(repo)]
    said = {line: in_process(shlex.split(line), folder) for line in lines}
    pruning = [text for line, text in said.items() if line.startswith("evenprune prune ")]
    assert len(pruning) == 2
    assert all("\nnext: evenprune compare " in text for text in pruning)
    for name in ("sparsegpt", "debias"):
        manifest = json.loads((folder / f"pruned/{name}/manifest.json").read_text())
        assert manifest["base"]["weights"] == "4-bit weights (Q4_1), de-quantised"
        assert manifest["sparsity"] == pytest.approx(0.5, abs=1e-6)
        assert "4-bit weights" in (folder / f"pruned/{name}/README.md").read_text()
    assert len((folder / "evals/debias/items.jsonl").read_text().splitlines()) == 20
    found = json.loads((folder / "comparison/comparison.json").read_text())
    assert [block["pruned"] for block in found["blocks"]] == ["pruned/sparsegpt", "pruned/debias"]
    assert {row["benchmark"] for row in found["blocks"][0]["rows"]} == {"stereoset", "crows_pairs"}
    assert {one["benchmark"] for one in found["blocks"][0]["moved"]} == {"stereoset", "crows_pairs"}
    shutil.rmtree(folder)
