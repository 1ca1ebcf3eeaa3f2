"""Texts: documents such as TinyStories, WikiText-2, and the dialogues of UltraChat."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator
from pydantic.dataclasses import dataclass

from ...io.errors import UserError
from ...io.reading import read_text
from .rows import Identifier, Text, data_files, find_file, read_items


@dataclass(frozen=True)
class Story:
    """A text with an id, each run of line breaks made one."""

    id: Identifier
    text: Annotated[Text, AfterValidator(lambda text: re.sub(r"[\r\n]+", "\n", text))]


@dataclass(frozen=True)
class Turn:
    """What one side says."""

    role: Text
    content: str


def _some_text(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    if not any(turn.content.strip() for turn in turns):
        raise ValueError("a turn with some text")
    return turns


@dataclass(frozen=True)
class Dialogue:
    """One conversation."""

    id: str
    messages: Annotated[tuple[Turn, ...], AfterValidator(_some_text)]

    @property
    def text(self) -> str:
        """The contents of all turns, joined by line breaks."""
        return "\n".join(turn.content for turn in self.messages)


def documents_file(folder: Path | str) -> Path:
    """Return the file of a folder of documents; UserError unless it has one JSON-lines file."""
    files = data_files(folder)
    if len(files) > 1:
        raise UserError(
            f"expected one file of documents in {folder}, found {len(files)}; give the file itself"
        )
    return files[0]


def read_tinystories(folder: Path | str) -> list[Story]:
    """Read documents, JSON lines with id and text; the stored ones are not uniform in order."""
    return read_items(Story, documents_file(folder))


def read_wikitext(folder: Path | str) -> list[str]:
    """Read the raw WikiText-2 test set as the hub serves it: 4,358 rows.

    A non-blank line keeps its line break, a blank one becomes "".
    """
    path = find_file(folder, "wiki.test.raw")
    lines = read_text(path).removesuffix("\n").split("\n")
    if not any(line.strip() for line in lines):
        raise UserError(f"expected text in {path}, but it is blank; fetch or make it again")
    return [f"{line}\n" if line.strip() else "" for line in lines]


def read_ultrachat(folder: Path | str) -> list[Dialogue]:
    """Read UltraChat dialogues from every JSON-lines file of the folder, in name order.

    The id is file stem and row number, since the mirror's rows have none.
    """
    return read_items(Dialogue, *data_files(folder), id="{stem}-{number}")
