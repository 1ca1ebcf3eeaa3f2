"""Write the tables of config/README.md and config/schema.json from the configuration's models.

A table stands between ``<!-- keys of SECTION -->`` and ``<!-- end of keys -->``, where SECTION is
the name of a model. The rest of the page stays as it is. `python docs/configuration.py` writes both
files again.
"""

import json
import re
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt
from pages import REPO, between, write
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from evenprune.config.config import Config
from evenprune.config.flags import meaning

CONFIG = REPO / "config"
README, SCHEMA = "README.md", "schema.json"


def described(page: str) -> dict[str, str]:
    """Return file name -> text of both files, given the page as it is; KeyError for a marker of
    no section."""
    known = sections()
    for name in re.findall(r"<!-- keys of (\w+) -->\n", page):
        text = "".join(f"{line}\n" for line in table(known[name]))
        page = between(page, f"<!-- keys of {name} -->\n", "<!-- end of keys -->", text)
    return {README: page, SCHEMA: json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"}


def sections() -> dict[str, type[BaseModel]]:
    """Return the models of a configuration and of all sections within it, by name."""
    found: dict[str, type[BaseModel]] = {}
    waiting: list[Any] = [Config]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, type) and issubclass(one, BaseModel):
            if one.__name__ not in found:
                found[one.__name__] = one
                waiting += [field.annotation for field in one.model_fields.values()]
        else:
            waiting += get_args(one)
    return found


class _Optional(GenerateJsonSchema):
    def field_is_required(self, *_: Any, **__: Any) -> bool:
        return False


def schema() -> dict[str, Any]:
    """Return the JSON schema of a configuration file, for editors.

    No key is required in it: files lie over the default and over the catalogue, and what is
    missing then is told before the first job.
    """

    told = Config.model_json_schema(schema_generator=_Optional)
    for name, model in sections().items():
        keys = (told["$defs"].get(name) or told)["properties"]
        for key, field in model.model_fields.items():
            keys[key] = dict(sorted({**keys[key], "description": meaning(field)}.items()))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | told


def table(model: type[BaseModel]) -> list[str]:
    """Return a section's keys as lines of a Markdown table: key, meaning, values, default."""
    lines = ["| key | meaning | values | default |", "| --- | --- | --- | --- |"]
    for name, field in model.model_fields.items():
        kind = values(field.annotation, tuple(field.metadata))
        cells = (f"`{name}`", meaning(field), kind, default(field))
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return lines


def values(annotation: Any, rules: tuple[Any, ...] = ()) -> str:
    """Return what a key may hold, in words: its choices, or its kind and least value."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        own = [rule for one in inner[1:] for rule in getattr(one, "metadata", [one])]
        return values(inner[0], (*rules, *own))
    if origin is Literal:
        return " ".join(f"`{one}`" for one in inner)
    if origin in (Union, UnionType):
        return ", ".join(values(one, rules) for one in inner)
    if origin is list:
        return f"list of {values(inner[0])}"
    if origin is dict:
        return "by name, see below"
    if annotation is type(None):
        return "null"
    if annotation is bool:
        return "true, false"
    if annotation in (int, float):
        least = next((f" from {one.ge}" for one in rules if isinstance(one, Ge)), "")
        above = next((f" above {one.gt}" for one in rules if isinstance(one, Gt)), "")
        return ("whole number" if annotation is int else "number") + least + above
    return "text" if annotation is str else "see below"


def default(field: FieldInfo) -> str:
    """Return a key's default as YAML writes it."""
    if field.is_required():
        return "required"
    if isinstance(field.default, BaseModel):
        return ""
    if isinstance(field.default, str):
        return f"`{field.default}`" if field.default else ""
    return f"`{json.dumps(field.default)}`"


if __name__ == "__main__":
    for file, text in described((CONFIG / README).read_text(encoding="utf-8")).items():
        write(CONFIG / file, text)
