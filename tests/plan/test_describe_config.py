import json

import jsonschema
import pytest

from evenprune.base.errors import UserError
from evenprune.base.yamlfile import read_yaml
from evenprune.cli import main
from evenprune.plan.describe_config import (
    described,
    schema,
    sections,
)

CONFIGS = ("catalogue", "config", "controls", "paper", "real-small", "world")


@pytest.mark.parametrize("name", ["README.md", "schema.json"])
def test_the_shipped_files_are_what_the_models_say(repo, name):
    found = described((repo / "config/README.md").read_text())
    assert (repo / "config" / name).read_text() == found[name], "run `make docs`"


def test_every_section_is_on_the_page_and_every_key_described(repo):
    page = (repo / "config/README.md").read_text()
    assert [name for name in sections() if f"<!-- keys of {name} -->" not in page] == []
    keys = [
        (name, key, field.description)
        for name, model in sections().items()
        for key, field in model.model_fields.items()
    ]
    assert len(keys) > 80
    assert [key for key in keys if not key[2]] == []


@pytest.mark.parametrize("name", CONFIGS)
def test_editors_are_told_the_schema_and_the_files_fit_it(repo, name):
    path = repo / f"config/{name}.yaml"
    assert path.read_text().startswith("# yaml-language-server: $schema=schema.json\n")
    jsonschema.validate(read_yaml(path), schema())


@pytest.mark.parametrize(
    ("given", "key"),
    [({"prunning": {}}, "prunning"), ({"pruning": {"damping": "much"}}, "much")],
)
def test_the_schema_marks_what_the_configuration_refuses(given, key):
    with pytest.raises(jsonschema.ValidationError, match=key):
        jsonschema.validate(given, schema())


def test_the_command_writes_both_and_keeps_the_rest_of_the_page(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- keys of World -->\nold\n<!-- end of keys -->\nafter\n")
    assert main(["describe-config", "--out", str(tmp_path)]) == 0
    text = page.read_text()
    assert text.startswith("before\n<!-- keys of World -->\n| key |")
    assert text.endswith("<!-- end of keys -->\nafter\n")
    assert "old" not in text
    assert "| `retrain` |" in text
    assert json.loads((tmp_path / "schema.json").read_text())["title"] == "Config"


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("nothing\n", "expected markers"),
        ("<!-- keys of Word -->\n<!-- end of keys -->\n", "expected one of Config, .* of Word"),
    ],
)
def test_a_page_without_our_markers_is_refused(page, message):
    with pytest.raises(UserError, match=message):
        described(page)


def test_the_help_of_a_command_says_what_the_page_says(capsys):
    with pytest.raises(SystemExit):
        main(["prune", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "weight b of the bias term; 0 gives sparsegpt (default: 1.0)" in text
