import importlib.util

import pytest

GRAPH = """---
title: DAG
---
flowchart TB
	id0[default]
	id2[make]
	id3[use]
	id4[show]
	style id2 fill:#C6D957
	id4 --> id0
	id2 --> id3
	id2 --> id4
	id3 --> id4
"""


@pytest.fixture
def stages(repo):
    spec = importlib.util.spec_from_file_location("stages", repo / "docs/stages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_picture_has_the_steps_by_file_and_no_arrow_that_others_say(stages):
    found = stages.picture(GRAPH, {"make": "data", "use": "data", "show": "tables"})
    assert found.splitlines() == [
        "```mermaid",
        "flowchart TB",
        "  subgraph data.smk",
        "    make",
        "    use",
        "  end",
        "  subgraph tables.smk",
        "    show",
        "  end",
        "  make --> use",
        "  use --> show",
        "```",
    ]


@pytest.mark.slow
def test_the_page_shows_the_present_rules(stages):
    page = stages.PAGE.read_text()
    assert stages.drawn(page) == page, "run `make docs`"


def test_a_page_without_markers_is_refused(stages, monkeypatch):
    monkeypatch.setattr(stages, "rule_graph", lambda: GRAPH.replace("[make]", "[make_table]"))
    monkeypatch.setattr(
        stages, "rule_files", lambda: dict.fromkeys(("make_table", "use", "show"), "x")
    )
    with pytest.raises(SystemExit, match="expected one pair of markers"):
        stages.drawn("no marker")
