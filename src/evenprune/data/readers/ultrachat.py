"""UltraChat: conversations, of which calibration takes texts."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator
from pydantic.dataclasses import dataclass

from .rows import Text, collect, data_files, fixed, read_items


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


def read_ultrachat(folder: Path | str) -> list[Dialogue]:
    """Read UltraChat dialogues from every JSON-lines file of the folder, in name order.

    The id is file stem and row number, since the mirror's rows have none.
    """
    items: list[Dialogue] = []
    for path in data_files(folder):
        stem = path.name.split(".")[0]
        items += read_items(Dialogue, path, added=fixed(id=f"{stem}-{{}}"), without=("id",))
    return collect(items, folder)
