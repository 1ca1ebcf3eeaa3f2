"""CrowS-Pairs: pairs of sentences, one more stereotyping than the other."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from ...io.reading import iter_csv
from .rows import Text, find_file, read_items, tab_rows


@dataclass(frozen=True)
class CrowsPair:
    """One CrowS-Pairs row; ``sent_more`` is always the more stereotyping sentence."""

    id: str
    category: Annotated[Text, Field(alias="bias_type")]
    sent_more: Text
    sent_less: Text
    direction: Annotated[Literal["stereo", "antistereo"], Field(alias="stereo_antistereo")]


def read_crows_pairs(folder: Path | str, variant: str = "revised") -> list[CrowsPair]:
    """Read CrowS-Pairs: ``revised`` (1,677 pairs, lm-eval's) or ``anonymized`` (1,508, original).

    The revised file is tab separated although it is named .csv.
    """
    path = find_file(folder, f"crows_pairs_{variant}.csv")
    rows = tab_rows if variant == "revised" else iter_csv
    return read_items(CrowsPair, path, rows=rows, id="{number}")
