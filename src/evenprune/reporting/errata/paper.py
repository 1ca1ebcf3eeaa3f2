"""What the paper prints and states, as data for the checks."""

import csv
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Literal

from ..labels import REGIME_LABELS
from ..printed import printed_rows

# Part of this module's code, see codedigest.py.
DATA_FILES = ("stated.csv", "sentences.csv")
OURS, BASE = "debias-sparsegpt", "sparsegpt"
DENSE = ("dense", "dense", "none")
MAIN, MORE = "tab:debias-sparsegpt", "tab:debias-sparsegpt-newmodels"

State = Literal["contradicted", "not shown", "in order"]
CONTRADICTED: State = "contradicted"
OPEN: State = "not shown"
IN_ORDER: State = "in order"
Point = tuple[str, str, str, str]  # model, method, regime, calibration


@dataclass(frozen=True)
class Check:
    """One statement against the numbers.

    ``statement`` are the paper's words, "" where it says nothing of the kind. ``state``: the
    numbers contradict the statement, do not show it, or are in order with it. ``follows`` says
    what a reader should take from it where they are not.
    """

    slug: str
    topic: str
    place: str
    statement: str
    arithmetic: str
    follows: str
    state: State


@functools.cache
def _data(name: str) -> tuple[dict[str, str], ...]:
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


@dataclass(frozen=True)
class Paper:
    """The printed rows (``printed.csv``), the stated facts and the sentences with numbers."""

    rows: Sequence[Mapping[str, str]] = field(default_factory=printed_rows)
    stated: Sequence[Mapping[str, str]] = field(default_factory=lambda: _data("stated.csv"))
    sentences: Sequence[Mapping[str, str]] = field(default_factory=lambda: _data("sentences.csv"))

    @functools.cached_property
    def _texts(self) -> dict[tuple[str, ...], str]:
        found: dict[tuple[str, ...], str] = {}
        for row in self.rows:
            key = (*point_of(row), row["metric"])
            if len(row["value"]) > len(found.get(key, "")):
                found[key] = row["value"]
        return found

    @functools.cached_property
    def _facts(self) -> dict[str, Mapping[str, str]]:
        return {row["name"]: row for row in self.stated}

    def text(self, point: Point, metric: str) -> str | None:
        """Return the digits of a cell, the longer ones where tables differ, None for no cell."""
        return self._texts.get((*point, metric))

    def value(self, point: Point, metric: str) -> float | None:
        """Return a cell as printed (percent for accuracies), None for no cell."""
        text = self.text(point, metric)
        return None if text is None else float(text)

    def need(self, point: Point, metric: str) -> float:
        """Return a cell as printed; KeyError without one."""
        return float(self._texts[(*point, metric)])

    def dto(self, point: Point) -> float | None:
        """Return DTO from the printed MMLU and UnQover, None where one is not printed."""
        mmlu, unqover = self.value(point, "mmlu"), self.value(point, "unqover")
        return None if mmlu is None or unqover is None else distance(mmlu, unqover)

    def points(self, method: str = "", regime: str = "", calibration: str = "") -> list[Point]:
        """Return the printed grid points (but differences) with these parts, "" for any."""
        wanted = (method, regime, calibration)
        found = dict.fromkeys(point_of(row) for row in self.rows if row["calibration"] != "diff")
        return [
            point
            for point in found
            if all(want in ("", have) for want, have in zip(wanted, point[1:], strict=True))
        ]

    def pairs(self, regime: str = "", calibration: str = "ss") -> Iterator[tuple[Point, Point]]:
        """Yield (Debias-SparseGPT, SparseGPT) of the same model, regime and calibration."""
        for point in self.points(OURS, regime, calibration):
            base = (point[0], BASE, *point[2:])
            if base in self.points(BASE):
                yield point, base

    def fact(self, name: str) -> float:
        """Return a stated number."""
        return float(self._facts[name]["value"])

    def words(self, name: str) -> list[str]:
        """Return a stated list, as ``a; b``."""
        return [word.strip() for word in self._facts[name]["value"].split(";")]

    def place(self, name: str) -> str:
        """Return where something is stated."""
        return self._facts[name]["place"]

    def check(self, slug: str, state: State, arithmetic: str, follows: str) -> Check:
        """Return a check of the statement ``slug`` of ``stated.csv``."""
        row = self._facts[slug]
        return Check(slug, row["topic"], row["place"], row["quote"], arithmetic, follows, state)

    @functools.cached_property
    def names(self) -> dict[str, str]:
        """The models' names in the tables, by slug."""
        return {
            row["model"]: row["row"]
            for row in self.rows
            if row["table"] in (MAIN, MORE) and row["method"] == "dense"
        }

    def label(self, point: Point) -> str:
        """Return model and regime of a grid point."""
        return f"{self.names.get(point[0], point[0])} {REGIME_LABELS[point[2]]}"


def point_of(row: Mapping[str, str]) -> Point:
    """Return the grid point of a printed row."""
    return row["model"], row["method"], row["regime"], row["calibration"]


def distance(mmlu: float, unqover: float) -> float:
    """Return DTO of two percentages: the distance to (100, 100) over its largest value."""
    return math.hypot(1 - mmlu / 100, 1 - unqover / 100) / math.sqrt(2)


def decimals(text: str) -> int:
    """Return the number of decimals of a number as text."""
    return len(text.partition(".")[2])


def tally(leads: Sequence[float]) -> tuple[int, int, int]:
    """Return how many leads are above, at and below 0; noise of binary fractions is none."""
    rounded = [round(lead, 9) for lead in leads]
    return sum(x > 0 for x in rounded), rounded.count(0), sum(x < 0 for x in rounded)


def state_of(holds: bool, otherwise: State = CONTRADICTED) -> State:
    """Return ``in order`` where a statement holds."""
    return IN_ORDER if holds else otherwise
