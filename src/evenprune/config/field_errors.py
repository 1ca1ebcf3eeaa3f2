"""The errors of a validated record as lines for people: key, value found, what may stand there."""

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from annotated_types import Ge
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ..io.errors import nearest

# What pydantic says of a value of the wrong kind -> what was expected.
_KINDS = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a mapping",
    "model": "a mapping",
}


def field_errors(error: ValidationError, model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Return (path of the key, line) of each error of a record that ``model`` describes."""
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"] if part != "[key]")
        value, kind = item["input"], item["type"]
        if kind == "extra_forbidden":
            keys = list(_fields_at(model, item["loc"][:-1]))
            near = nearest(item["loc"][-1], keys)
            yield where, f"{where}: unknown key{near} (allowed: {', '.join(keys)})"
        elif kind == "literal_error":
            expected = item["ctx"]["expected"].replace(" or ", ", ").split(", ")
            allowed = [part.strip("' ") for part in expected]
            near = nearest(value, allowed)
            yield where, f"{where}: got {value!r}, allowed are {', '.join(allowed)}{near}"
        elif kind == "missing":
            yield where, f"{where}: is missing"
        elif kind.removesuffix("_type") in _KINDS:
            expected = _KINDS[kind.removesuffix("_type")] + _least(model, item["loc"])
            yield where, f"{where}: got {value!r}, expected {expected}"
        elif kind == "greater_than_equal":
            yield where, f"{where}: got {value!r}, expected a number from {item['ctx']['ge']}"
        elif kind == "value_error":
            yield where, f"{where}: got {value!r}, {item['ctx']['error']}"
        else:
            number = "a number " if kind.startswith(("greater", "less")) else ""
            expected = item["msg"].replace("Input should be ", f"expected {number}")
            yield where, f"{where}: got {value!r}, {expected[0].lower()}{expected[1:]}"


def _least(model: type[BaseModel], location: tuple[Any, ...]) -> str:
    """Return " from 1" for a key whose least value is 1."""
    fields = _fields_at(model, location[:-1]) if location else {}
    rules = fields[location[-1]].metadata if fields and location[-1] in fields else []
    return next((f" from {one.ge}" for one in rules if isinstance(one, Ge)), "")


def _fields_at(model: type[BaseModel], location: tuple[Any, ...]) -> dict[str, FieldInfo]:
    """Return the keys of the section at ``location`` of a record; none where it is no section."""
    annotation: Any = model
    for part in location:
        if get_origin(annotation) is dict:
            annotation = get_args(annotation)[1]
        elif get_origin(annotation) is list:
            annotation = get_args(annotation)[0]
        elif part in getattr(annotation, "model_fields", {}):
            annotation = annotation.model_fields[part].annotation
        else:
            return {}
        # Of ``Hub | None``, what is not None.
        options = [one for one in get_args(annotation) if isinstance(one, type)]
        if get_origin(annotation) not in (dict, list) and options:
            annotation = options[0]
    return dict(getattr(annotation, "model_fields", {}))
