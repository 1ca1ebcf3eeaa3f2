"""What the configuration says of the files of a source: on the hub, or in a Python package."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ..config.catalogue import FilePart, HubEntry, PackageData
from ..config.field_errors import field_errors
from ..io.checksums import matching
from ..io.errors import UserError

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    """Some files of a hub repository or package, as the catalogue describes them."""

    name: str
    repo: str
    ref: str | None
    file: FilePart


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
    return [
        Part(name, *split_ref(getattr(part, "repo", None) or default or ""), part)
        for name, part in source.parts.items()
    ]


def select(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that the first pattern with any match matches, sorted."""
    names = list(names)
    return next(filter(None, (matching(names, [pattern]) for pattern in patterns)), [])
