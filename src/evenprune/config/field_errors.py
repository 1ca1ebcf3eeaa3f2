"""The errors of a validated record as lines for people: key, value found, what may stand there."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from ..io.errors import nearest


def field_errors(error: ValidationError, model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Return (path of the key, line) of each error of a record that ``model`` describes."""
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"] if part != "[key]")
        value, kind, context = item["input"], item["type"], item.get("ctx", {})
        if kind == "extra_forbidden":
            keys = _keys_at(model, item["loc"][:-1])
            said = f"unknown key{nearest(item['loc'][-1], keys)} (allowed: {', '.join(keys)})"
        elif kind == "missing":
            said = "is missing"
        elif kind == "literal_error":
            expected = context["expected"].replace(" or ", ", ").split(", ")
            allowed = [part.strip("' ") for part in expected]
            said = f"got {value!r}, allowed are {', '.join(allowed)}{nearest(value, allowed)}"
        else:
            fault = str(context.get("error") or item["msg"]).replace("Input should be", "expected")
            fault = fault.replace("greater than or equal to", "a number from")
            said = f"got {value!r}, {fault[0].lower()}{fault[1:]}"
        yield where, f"{where}: {said}"


def _keys_at(model: type[BaseModel], location: tuple[Any, ...]) -> list[str]:
    """Return the keys of the section at ``location`` of a record."""
    for part in location:
        if part in model.model_fields:  # else the name of an entry
            model = next(_sections(model.model_fields[part].annotation), model)
    return list(model.model_fields)


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the sections within a key's annotation, as in ``dict[str, Hub | None]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for one in get_args(annotation):
        yield from _sections(one)
