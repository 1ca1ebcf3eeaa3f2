"""Flags of commands, made from the keys of the configuration: kind, choices, default, help."""

import argparse
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ..io.errors import UserError
from .facts import regime_name
from .field_errors import field_errors

Model = TypeVar("Model", bound=BaseModel)
_SHOWN = {int: "N", float: "X"}


def add_flags(parser: argparse.ArgumentParser, model: type[BaseModel], *names: str) -> None:
    """Declare a flag for each of the named keys of a section, by default for all.

    Lists are given with commas, what is true or false is switched on. A required key is a required
    flag; of a key that is null the flag is left out.
    """
    for name in names or model.model_fields:
        field = model.model_fields[name]
        told: dict[str, Any] = {"help": _help(field), "required": field.is_required()}
        kind, choices = _kind(field.annotation)
        if name == "regime":
            kind = cast(Any, regime_name)
        if kind is bool:
            told["action"] = "store_true"
        else:
            told |= {"type": kind, "choices": choices}
            if choices is None:
                told["metavar"] = _SHOWN.get(kind, name.rpartition("_")[2].upper())
            if not field.is_required():
                told["default"] = field.default
        parser.add_argument(flag(name), **told)


def meaning(field: FieldInfo) -> str:
    """Return what a key means, on one line: the text below it in the source."""
    return " ".join((field.description or "").split())


def _help(field: FieldInfo) -> str:
    # "null" is what a configuration writes; here the flag is left out.
    text = meaning(field).replace("null: ", "default: ").replace("`", "")
    shown = None if field.is_required() else field.default
    if shown not in (None, [], "") and shown is not False:
        shown = ",".join(map(str, shown)) if isinstance(shown, list) else shown
        text += f" (default: {shown})"
    return text.replace("%", "%%")


def _kind(annotation: Any) -> tuple[Any, tuple[Any, ...] | None]:
    """Return what makes a value of a text, and the values there may be (None: any)."""
    origin, inner = get_origin(annotation), get_args(annotation)
    # A union is with null, or of true and false with another word.
    if origin in (Annotated, Union, UnionType):
        return _kind(inner[0])
    if origin is Literal:
        return type(inner[0]), inner
    if origin is list:
        return _list_of(_kind(inner[0])[0]), None
    return annotation, None


def _list_of(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def parse(text: str) -> list[Any]:
        return [kind(part.strip()) for part in text.split(",")]

    parse.__name__ = f"list with commas of {kind.__name__}"  # said by argparse of a wrong one
    return parse


def flag(key: str) -> str:
    """Return what a key is called on the command line."""
    return f"--{key.replace('_', '-')}"


def checked(
    model: type[Model], values: Mapping[str, Any], called: Callable[[str], str] = flag
) -> Model:
    """Return a section of some values; UserError for the first that it cannot have.

    ``called`` is what a key is called in that sentence.
    """
    try:
        return model(**values)
    except ValidationError as error:
        key, line = next(field_errors(error, model))
        raise UserError(f"{called(key)}{line.removeprefix(key)}") from None
