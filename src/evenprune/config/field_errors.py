"""The errors of a validated record as lines for people: key, value found, what may stand there."""

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ..io.errors import nearest


def field_errors(error: ValidationError, model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Return (path of the key, line) of each error of a record that ``model`` describes."""
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"] if part != "[key]")
        value, kind, context = item["input"], item["type"], item.get("ctx", {})
        if kind == "extra_forbidden":
            keys = list(_fields_at(model, item["loc"][:-1]))
            near = nearest(item["loc"][-1], keys)
            yield where, f"{where}: unknown key{near} (allowed: {', '.join(keys)})"
        elif kind == "missing":
            yield where, f"{where}: is missing"
        elif kind == "literal_error":
            expected = context["expected"].replace(" or ", ", ").split(", ")
            allowed = [part.strip("' ") for part in expected]
            near = nearest(value, allowed)
            yield where, f"{where}: got {value!r}, allowed are {', '.join(allowed)}{near}"
        else:
            said = str(context.get("error") or item["msg"]).replace("Input should be", "expected")
            said = said.replace("greater than or equal to", "a number from")
            yield where, f"{where}: got {value!r}, {said[0].lower()}{said[1:]}"


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
