"""YAML mappings from files, read strictly: a key that stands there twice is an error."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from .errors import UserError
from .reading import read_text

MOST = 100_000  # values of a file, those that aliases repeat counted again
MERGE = "tag:yaml.org,2002:merge"


def checked(document: yaml.Node | None) -> yaml.Node | None:
    """Return a document as it was parsed.

    Raises ValueError where its aliases have no end, or too many, and for a key that stands twice
    in one mapping.
    """
    todo, count = [document] if document else [], 0
    while todo:
        node, count = todo.pop(), count + 1
        if count > MOST:
            raise ValueError(f"with its aliases it has no end, or more than {MOST:,} values")
        if isinstance(node, yaml.MappingNode):
            lines: dict[tuple[str, str], int] = {}
            for key, value in node.value:
                todo += [key, value]
                name, line = (key.tag, str(key.value)), key.start_mark.line + 1
                if name in lines:
                    raise ValueError(
                        f"the key {key.value!r} on line {line} is already on line {lines[name]}; "
                        "keep one of the two"
                    )
                # Keys that `<<` brings are defaults: naming one of them again is what it is for.
                lines |= {name: line} if key.tag != MERGE else {}
        elif isinstance(node, yaml.SequenceNode):
            todo += node.value
    return document


def read_yaml(path: Path | str) -> dict[str, Any]:
    """Read a YAML mapping.

    Raises UserError when the file is missing, unreadable or no YAML mapping, and for a key that
    stands twice in one mapping.
    """
    text = read_text(path, "a configuration file")
    try:
        loader = yaml.SafeLoader(text)  # looks for signs that YAML does not take
        node = checked(loader.get_single_node())
        loaded = loader.construct_document(node) if node else None
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"the configuration {path} is not valid YAML: {reason}") from None
    except RecursionError:
        raise UserError(
            f"the configuration {path} is nested too deeply to be read; it needs five levels"
        ) from None
    if not isinstance(loaded, dict):
        raise UserError(f"expected a mapping at the top of {path}, got {type(loaded).__name__}")
    return loaded


def own_yaml(file: Path) -> Any:
    """Return what a YAML file of this package holds, read fast and unchecked."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(file.read_text(encoding="utf-8"), loader)


def merge(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``top`` over it: mappings merge, everything else replaces."""
    merged = copy.deepcopy({**base, **top})
    for key in base.keys() & top.keys():
        if isinstance(base[key], Mapping) and isinstance(top[key], Mapping):
            merged[key] = merge(base[key], top[key])
    return merged
