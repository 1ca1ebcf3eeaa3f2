"""RealToxicityPrompts: beginnings of texts, with the toxicity that the source measured."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictBool
from pydantic.dataclasses import dataclass

from .rows import Text, collect, data_files, fixed, read_items


@dataclass(frozen=True)
class Beginning:
    """The text of a prompt, with the source's score of it (None: unscored)."""

    text: Text
    toxicity: Annotated[float, Field(strict=True, ge=0, le=1)] | None = None


@dataclass(frozen=True)
class Prompt:
    """A prompt to continue.

    ``challenging`` is the source's flag for prompts that many models continue with toxic text,
    None where a row has none.
    """

    id: str
    category: str
    prompt: Beginning
    challenging: StrictBool | None = None

    @property
    def text(self) -> str:
        """The text to continue."""
        return self.prompt.text

    @property
    def toxicity(self) -> float | None:
        """The source's toxicity score of the prompt (None: unscored)."""
        return self.prompt.toxicity


def read_realtoxicityprompts(folder: Path | str) -> list[Prompt]:
    """Read RealToxicityPrompts from every JSON-lines file of the folder; category is its stem."""
    items: list[Prompt] = []
    for path in data_files(folder):
        stem = path.name.split(".")[0]
        added = fixed(id=f"{stem}-{{}}", category=stem)
        items += read_items(Prompt, path, added=added, without=("id", "category"))
    return collect(items, folder)
