"""What the configuration says of the files of a source: on the hub, or in a Python package."""

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ..base.errors import UserError
from ..plan.catalogue import HubEntry, PackageData
from ..plan.field_errors import field_errors

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

    Raises UserError for an entry of another form than the configuration describes.
    """
    hub = entry.get("hub")
    return _parts(f"datasets.{name}.hub", HubEntry, hub) if hub else []


def package_parts(name: str, entry: Entry) -> list[Part]:
    """Return the parts of a data set's ``package`` entry; UserError for one of another form."""
    return _parts(f"datasets.{name}.package", PackageData, entry["package"])


def _parts(where: str, kind: type[HubEntry] | type[PackageData], given: Any) -> list[Part]:
    try:
        source = kind.model_validate(given)
    except ValidationError as error:
        raise UserError(f"{where}: {next(field_errors(error, kind))[1]}") from None
    default = source.name if isinstance(source, PackageData) else source.repo
    found = []
    for name, part in source.parts.items():
        if part.columns and not _PART.fullmatch(name):
            raise UserError(f"{where}.parts: expected a name for a file, got {name!r}")
        repo = getattr(part, "repo", None) or default or ""
        columns = tuple(part.columns or ())
        rows, first, at = part.rows, part.first, part.at
        found.append(Part(name, *split_ref(repo), tuple(part.files), rows, first, columns, at))
    return found


def select(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that the first pattern with any match matches, sorted."""
    names = sorted(names)
    for pattern in patterns:
        found = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
        if found:
            return found
    return []
