"""The page and the schema of the configuration are what its models say."""

import jsonschema
import pytest
from configuration import described, schema, sections

from evenprune.config.flags import meaning
from evenprune.io.yamlfile import read_yaml


@pytest.mark.parametrize("name", ["README.md", "schema.json"])
def test_the_shipped_files_are_what_the_models_say(repo, name):
    found = described((repo / "config/README.md").read_text())
    assert (repo / "config" / name).read_text() == found[name], "run `make docs`"


def test_every_key_is_described():
    said = {
        (name, key): meaning(field)
        for name, model in sections().items()
        for key, field in model.model_fields.items()
    }
    assert len(said) > 80
    assert [key for key, text in said.items() if not text] == []


def test_editors_are_told_the_schema_and_the_files_fit_it(repo):
    for path in (repo / "config").glob("*.yaml"):
        assert path.read_text().startswith("# yaml-language-server: $schema=schema.json\n"), path
        jsonschema.validate(read_yaml(path), schema())


@pytest.mark.parametrize(
    ("given", "key"), [({"prunning": {}}, "prunning"), ({"pruning": {"damping": "much"}}, "much")]
)
def test_the_schema_marks_what_the_configuration_refuses(given, key):
    with pytest.raises(jsonschema.ValidationError, match=key):
        jsonschema.validate(given, schema())
