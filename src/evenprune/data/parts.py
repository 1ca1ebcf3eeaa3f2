"""What the configuration says of the files of a source: on the hub, or in a Python package."""

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.errors import UserError

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    """Some files of a hub repository or package: the first of ``patterns`` that matches any.

    ``at`` leads to the rows of a JSON file. ``rows`` is the number of rows the data set must have,
    ``first`` how many to take; None: whatever there is. ``columns`` are those that are kept, of a
    data set without a converter.
    """

    name: str
    repo: str
    ref: str | None
    patterns: tuple[str, ...]
    rows: int | None = None
    first: int | None = None
    columns: tuple[str, ...] = ()
    at: str | None = None


def split_ref(repo: str) -> tuple[str, str | None]:
    """Split ``org/name@ref`` into repository and reference (None: the main branch)."""
    name, _, ref = repo.partition("@")
    return name, ref or None


def dataset_parts(name: str, entry: Entry) -> list[Part]:
    """Return the parts of a data set's ``hub`` entry; [] for one that the hub does not have.

    The entry is ``{repo, parts: {part: {files: [pattern, …], repo?, rows?, first?,
    columns?}}}``. Raises
    UserError for any other form.
    """
    hub = entry.get("hub")
    if not hub:
        return []
    if not isinstance(hub, Mapping):
        raise UserError(f"datasets.{name}.hub: expected the keys repo and parts, got {hub!r}")
    return _parts(f"datasets.{name}.hub", hub, hub.get("repo"))


def package_parts(name: str, entry: Entry) -> list[Part]:
    """Return the parts of a data set's ``package`` entry; UserError for one of another form."""
    package = entry["package"]
    return _parts(f"datasets.{name}.package", package, package["name"])


def _parts(where: str, source: Mapping[str, Any], default: Any) -> list[Part]:
    parts = []
    known = {"files", "repo", "rows", "first", "columns", "at"}
    given = source.get("parts")
    for part, options in given.items() if isinstance(given, Mapping) else ():
        options = options if isinstance(options, Mapping) else {}
        repo = options.get("repo", default)
        files: Any = options.get("files")
        counts = [options.get(key) for key in ("rows", "first")]
        good = isinstance(repo, str) and isinstance(files, list | tuple) and len(files) > 0
        columns = options.get("columns", ())
        good = good and set(options) <= known and isinstance(columns, list | tuple)
        good = good and all(isinstance(one, str) for one in (*files, *columns))
        good = good and (not columns or _PART.fullmatch(str(part)) is not None)  # it names a file
        if not good or not all(one is None or (type(one) is int and one > 0) for one in counts):
            raise UserError(
                f"{where}.parts.{part}: expected files (a list of patterns), repo "
                "here or above, rows and first as numbers from 1, columns as a list, of the keys "
                f"{', '.join(sorted(known))}, got {options!r}"
            )
        parts.append(
            Part(
                part,
                *split_ref(repo),
                tuple(files),
                options.get("rows"),
                options.get("first"),
                tuple(columns),
                options.get("at"),
            )
        )
    if not parts:
        raise UserError(f"{where}: expected the key parts with the files of each, got {source!r}")
    return parts


def select(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that the first pattern with any match matches, sorted."""
    names = sorted(names)
    for pattern in patterns:
        found = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
        if found:
            return found
    return []
