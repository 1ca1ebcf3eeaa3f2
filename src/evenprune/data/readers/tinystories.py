"""Documents for perplexity, such as TinyStories: JSON lines with id and text."""

import random
import re
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import UserError
from .rows import collect, json_rows, jsonl_files


@dataclass(frozen=True)
class Story:
    """A text with an id."""

    id: str
    text: str


def documents_file(folder: Path | str) -> Path:
    """Return the file of a folder of documents; UserError unless it has one JSON-lines file."""
    files = jsonl_files(folder)
    if len(files) > 1:
        raise UserError(
            f"expected one file of documents in {folder}, found {len(files)}; give the file itself"
        )
    return files[0]


def read_tinystories(folder: Path | str, seed: int = 0) -> list[Story]:
    """Read documents in a seeded random order, each run of line breaks made one.

    The order matters: the stored stories are not uniform, so a range is no sample.
    """
    path = documents_file(folder)
    stories = collect(
        (
            Story(row.identifier("id"), re.sub(r"[\r\n]+", "\n", row.text("text")))
            for row in json_rows(path, ("id", "text"))
        ),
        path,
    )
    random.Random(seed).shuffle(stories)
    return stories
