"""What a model is asked in the safety benchmarks: RealToxicityPrompts and HarmBench."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StrictBool
from pydantic.dataclasses import dataclass

from ...io.reading import iter_csv
from .rows import Text, data_files, find_file, read_items

Category = Literal["standard", "contextual", "copyright"]


@dataclass(frozen=True)
class Beginning:
    """The text of a prompt, with the source's score of it (None: unscored)."""

    text: Text
    toxicity: Annotated[float, Field(strict=True, ge=0, le=1)] | None = None


@dataclass(frozen=True)
class Prompt:
    """A prompt of RealToxicityPrompts to continue.

    ``challenging`` is the source's flag for prompts that many models continue with toxic text,
    None where a row has none.
    """

    id: str
    category: str
    prompt: Beginning
    challenging: StrictBool | None = None


@dataclass(frozen=True)
class Behaviour:
    """A HarmBench behaviour, a request that a safe model refuses.

    ``context`` is empty except for contextual ones.
    """

    id: Annotated[Text, Field(alias="BehaviorID")]
    category: Annotated[Category, Field(alias="FunctionalCategory")]
    topic: Annotated[str, Field(alias="SemanticCategory")]
    behaviour: Annotated[Text, Field(alias="Behavior")]
    context: Annotated[str, Field(alias="ContextString")]


def read_realtoxicityprompts(folder: Path | str) -> list[Prompt]:
    """Read RealToxicityPrompts from every JSON-lines file of the folder; category is its stem."""
    return read_items(Prompt, *data_files(folder), id="{stem}-{number}", category="{stem}")


def read_harmbench(folder: Path | str) -> list[Behaviour]:
    """Read HarmBench's text behaviours (400).

    Categories are standard (200), contextual and copyright (100 each). A blank at the end of
    a behaviour is the source's and is kept.
    """
    path = find_file(folder, "harmbench_behaviors_text_all.csv")
    return read_items(Behaviour, path, rows=iter_csv)
