"""Reading a configuration that nobody has checked yet: anything may be of any kind."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any


def nearest(word: Any, allowed: Iterable[str]) -> str:
    """Return "; did you mean …?" where one of ``allowed`` is close to ``word``, else nothing."""
    close = difflib.get_close_matches(str(word), list(allowed), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def mapping(value: Any) -> dict[str, Any]:
    """Return a mapping as a dictionary, anything else as an empty one."""
    return dict(value) if isinstance(value, Mapping) else {}


def names(value: Any) -> list[Any]:
    """Return a list as it is, anything else as an empty one."""
    return list(value) if isinstance(value, list) else []


def section(raw: Mapping[str, Any], key: str) -> dict[str, dict[str, Any]]:
    """Return the entries of a catalogue such as ``models``, each as a dictionary."""
    return {str(name): mapping(entry) for name, entry in mapping(raw.get(key)).items()}
