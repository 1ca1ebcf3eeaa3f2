"""YAML mappings from files, read strictly: a key that stands there twice is an error."""

import copy
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from .errors import UserError
from .reading import read_text

MOST = 100_000  # values of a file, those that aliases repeat counted again


def bounded(node: yaml.Node | None) -> yaml.Node | None:
    """Return a document as it was parsed; ValueError where its aliases have no end, or too many."""
    if node is not None:
        _size(node, {})
    return node


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return how many values a node has with all that its aliases repeat.

    Raises ValueError for one that holds itself, or for more than ``MOST``.
    """
    if id(node) in sizes:
        if not sizes[id(node)]:
            raise ValueError("an alias is inside of what it names")
        return sizes[id(node)]
    sizes[id(node)] = 0  # not known yet
    parts = node.value if isinstance(node, yaml.CollectionNode) else []
    if isinstance(node, yaml.MappingNode):
        parts = [part for pair in parts for part in pair]
    sizes[id(node)] = 1 + sum(_size(part, sizes) for part in parts)
    if sizes[id(node)] > MOST:
        raise ValueError(f"with its aliases it has more than {MOST:,} values")
    return sizes[id(node)]


class _Strict(yaml.SafeLoader):
    """The safe loader, which else lets the last of equal keys win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        if isinstance(node, yaml.MappingNode):
            seen: dict[Hashable, int] = {}
            for key_node, _ in node.value:
                # Keys that `<<` brings are defaults: naming one of them again is what it is for.
                if key_node.tag == "tag:yaml.org,2002:merge":
                    continue
                key = self.construct_object(key_node, deep=True)
                line = key_node.start_mark.line + 1
                if isinstance(key, Hashable) and key in seen:
                    raise UserError(
                        f"the key {key!r} on line {line} of {self.name} is already on line "
                        f"{seen[key]} of the same mapping; keep one of the two"
                    )
                if isinstance(key, Hashable):
                    seen[key] = line
        return super().construct_mapping(node, deep)


def read_yaml(path: Path | str) -> dict[str, Any]:
    """Read a YAML mapping.

    Raises UserError when the file is missing, unreadable or no YAML mapping, and for a key that
    stands twice in one mapping.
    """
    text = read_text(path, "a configuration file")
    try:
        loader = _Strict(text)  # looks for signs that YAML does not take
        loader.name = str(path)
        node = bounded(loader.get_single_node())
        loaded = None if node is None else loader.construct_document(node)
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
    merged = copy.deepcopy(dict(base))
    for key, value in top.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged
