"""Documents for perplexity, such as TinyStories: JSON lines with id and text."""

import random
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator
from pydantic.dataclasses import dataclass

from ...io.errors import UserError
from .rows import Identifier, Text, collect, data_files, read_items


@dataclass(frozen=True)
class Story:
    """A text with an id, each run of line breaks made one."""

    id: Identifier
    text: Annotated[Text, AfterValidator(lambda text: re.sub(r"[\r\n]+", "\n", text))]


def documents_file(folder: Path | str) -> Path:
    """Return the file of a folder of documents; UserError unless it has one JSON-lines file."""
    files = data_files(folder)
    if len(files) > 1:
        raise UserError(
            f"expected one file of documents in {folder}, found {len(files)}; give the file itself"
        )
    return files[0]


def read_tinystories(folder: Path | str, seed: int = 0) -> list[Story]:
    """Read documents in a seeded random order.

    The order matters: the stored stories are not uniform, so a range is no sample.
    """
    path = documents_file(folder)
    stories = collect(read_items(Story, path), path)
    random.Random(seed).shuffle(stories)
    return stories
