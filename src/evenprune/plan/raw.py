"""Reading a configuration that nobody has checked yet: anything may be of any kind."""

from collections.abc import Mapping
from typing import Any


def mapping(value: Any) -> dict[str, Any]:
    """Return a mapping as a dictionary, anything else as an empty one."""
    return dict(value) if isinstance(value, Mapping) else {}


def names(value: Any) -> list[Any]:
    """Return a list as it is, anything else as an empty one."""
    return list(value) if isinstance(value, list) else []


def section(raw: Mapping[str, Any], key: str) -> dict[str, dict[str, Any]]:
    """Return the entries of a catalogue such as ``models``, each as a dictionary."""
    return {str(name): mapping(entry) for name, entry in mapping(raw.get(key)).items()}
