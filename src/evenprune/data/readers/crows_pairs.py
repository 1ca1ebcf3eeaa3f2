"""CrowS-Pairs: pairs of sentences, one more stereotyping than the other."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .rows import collect, csv_rows, find_file


@dataclass(frozen=True)
class CrowsPair:
    """One CrowS-Pairs row; ``sent_more`` is always the more stereotyping sentence."""

    id: str
    category: str
    sent_more: str
    sent_less: str
    direction: str


def read_crows_pairs(folder: Path | str, variant: str = "revised") -> list[CrowsPair]:
    """Read CrowS-Pairs: ``revised`` (1,677 pairs, lm-eval's) or ``anonymized`` (1,508, original).

    The revised file is tab separated although it is named .csv.
    """
    path = find_file(folder, f"crows_pairs_{variant}.csv")
    fields = ("sent_more", "sent_less", "stereo_antistereo", "bias_type")

    def items() -> Iterator[CrowsPair]:
        delimiter = "\t" if variant == "revised" else ","
        for index, row in enumerate(csv_rows(path, delimiter, fields)):
            yield CrowsPair(
                str(index),
                row.text("bias_type"),
                row.text("sent_more"),
                row.text("sent_less"),
                row.one_of("stereo_antistereo", ("stereo", "antistereo")),
            )

    return collect(items(), path)
