"""A comparison in words: on the terminal, and as one HTML page that opens offline."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..analysis.labels import TASK_DIGITS
from ..config.tasks import FACTS
from ..io.pages import fill
from ..models.stored import Stored
from ..stats import verdicts
from ..stats.inference import p_text
from ..stats.paired import LEAST
from ..stats.verdicts import BIAS_MARGIN, MARGIN
from .columns import GOOD, NONE
from .differences import FLIPS, Difference
from .fidelity import Fidelity
from .moved import Moved

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

# Part of this module's code, see codedigest.py.
DATA_FILES = ("comparison.html.j2", "notes.txt.j2")
HTML, NOTES = (Path(__file__).with_name(name) for name in DATA_FILES)
HEADS = (
    *("benchmark", "metric", "good", "dense", "pruned", "difference", "interval", "verdict"),
    *("could have seen", "items needed", "n", "p (Holm)"),
    *("became wrong or stereotyped", "became right or unbiased"),
)
# On a terminal, where a column is as wide as its longest cell; without p.
SHORT = (*HEADS[:12], "to bad", "to good")
P_HOLM = HEADS.index("p (Holm)")
ABILITY_LOST = (
    "Fairer, ability lost: a model that loses its ability drifts to guessing, which bias metrics "
    "take for fair."
)
MANY, FEW = 0.1, 1 / 3  # flipped answers; a net change within which they hide


@dataclass(frozen=True)
class Block:
    """One pruned model: its name, what was found, notes of its own, and evidence by benchmark."""

    pruned: str
    rows: Sequence[Difference]
    notes: Sequence[str] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    categories: Sequence[Difference] = ()
    moved: Sequence[Moved] = ()
    fidelity: Fidelity | None = None

    def by_category(self) -> str:
        """Return what the rows by category say, "" where there are none."""
        shown = [
            f"{row.category} ({row.benchmark} {row.metric}, n = {row.n:,}): {row.verdict}, "
            f"{difference(row, row.difference)}"
            for row in self.categories
            if row.verdict in verdicts.LOOKS  # a change is shown
        ]
        head = f"By category of {LEAST} items or more, corrected over these {len(self.categories)} "
        said = f"{head}rows: {counted(self.categories)}"
        return "; ".join([said, *shown]) if self.categories else ""

    def summary(self) -> str:
        """Return how often which verdict occurs."""
        if self.rows and all(row.verdict == verdicts.IDENTICAL for row in self.rows):
            return "identical: the records of all items are the same"
        return counted(self.rows)


def counted(rows: Sequence[Difference]) -> str:
    """Return how often which verdict occurs, in words."""
    counts = Counter(row.verdict for row in rows)
    return ", ".join(f"{counts[word]} {word}" for word in verdicts.WORDS if word in counts)


@dataclass(frozen=True)
class Comparison:
    """A dense model and the pruned ones that were compared with it.

    Attributes
    ----------
    dense : str
        The dense model's name.
    blocks : sequence of Block
        For each pruned model its ``rows``, one a metric, ``notes``, rows by ``categories``, and
        the items that ``moved`` most.
    failed : sequence of str
        A line for each limit of ``fail_if`` that is broken, or could not be tested.
    """

    dense: str
    blocks: Sequence[Block]
    margin: float = MARGIN
    bias_margin: float = BIAS_MARGIN
    plan: float | None = None
    fail_if: Sequence[str] = ()
    failed: Sequence[str] = ()
    stored: Mapping[str, Stored | None] = field(default_factory=dict)  # of each side by its name

    def to_frame(self) -> "DataFrame":
        """Return all rows as a table of pandas, with the pruned model's name in each."""
        from pandas import DataFrame

        return DataFrame(
            {"model": block.pruned, **vars(row), **dict(zip(("flips", "answers"), flipped(row)))}
            for block in self.blocks
            for row in block.rows
        ).rename(columns={"flips": "to_bad", "answers": "to_good"})

    def plot(self) -> "Figure":
        """Return a figure: each metric's difference with its interval, coloured by verdict."""
        from .figure import drawn

        return drawn(self)

    def text(self, width: int | None = None) -> str:
        """Return a table for each pruned model, then what it means.

        ``width`` is that of the terminal, None where there is none.
        """
        parts = []
        for block in self.blocks:
            table = _table(block.rows, width)
            head = f"{self.side(block.pruned)}\nagainst {self.side(self.dense)}\n{block.summary()}"
            under = [f"\n{block.fidelity}"] if block.fidelity else []
            under += [one for one in (block.by_category(),) if one]
            notes = (f"Note: {note}" for note in block.notes)
            parts.append("\n".join([head, "", table, *under, *notes]))
        return "\n\n".join([*parts, "\n".join(self.notes())])

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        # A page of its own, whose style is not that of the notebook.
        return f'<iframe srcdoc="{escape(to_html(self))}" width="100%" height="600"></iframe>'

    def side(self, name: str) -> str:
        """Return a side's name, and what its weights take on disk."""
        form = self.stored.get(name)
        return f"{name}: {form}" if form else name

    def notes(self) -> list[str]:
        """Return what the tables mean, in words."""
        rows = [row for block in self.blocks for row in block.rows]
        tasks = dict.fromkeys(row.task for row in rows if row.flips)
        values = {
            "comparison": self,
            "clustered": ", ".join(dict.fromkeys(row.benchmark for row in rows if row.clustered)),
            "flipped": any(row.flips or row.answers for row in rows),
            "states": {one: FACTS[one] for one in tasks if one in FACTS and FACTS[one].unbiased},
            "verdicts": verdicts,
        }
        return fill(NOTES, values).splitlines()


def block_notes(rows: Sequence[Difference]) -> list[str]:
    """Return what must be read beside one pruned model's verdicts."""
    lines = [ABILITY_LOST] if any(row.verdict == verdicts.LOST for row in rows) else []
    for row in rows:
        worse, better, n = flipped(row)
        both, net = (worse + better) / max(n, 1), abs(worse - better) / max(n, 1)
        if both >= MANY and net <= FEW * both:
            said = f"{_percent(both)} of the answers flipped, which the net change of"
            lines.append(f"{row.benchmark} {row.metric}: {said} {_percent(net)} hides.")
    if known := dict.fromkeys(row.benchmark for row in rows if row.in_calibration):
        said = ", ".join(known)
        lines.append(f"Not tested, as the calibration pairs are of the same data: {said}.")
    silent = [f"{row.benchmark} {row.metric} ({row.reason})" for row in rows if row.reason]
    if silent:
        said = "; ".join(dict.fromkeys(silent))
        lines.append(f"Says nothing, as the dense model is too weak there: {said}.")
    return lines


def flipped(row: Difference) -> tuple[int, int, int]:
    """Return how many answers became wrong or stereotyped, right or unbiased, of how many."""
    n, bad, good = (row.flips or row.answers or dict.fromkeys(FLIPS, 0)).values()
    return bad, good, n


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def number(row: Difference, value: float | None, signed: bool = False) -> str:
    """Return a value of a row as it is shown: fractions with three decimals."""
    if value is None:
        return NONE
    digits = TASK_DIGITS.get(row.task, 3)
    rounded = round(value, digits) + 0.0
    return f"{rounded:{'+' if signed else ''},.{digits}f}"


def difference(row: Difference, value: float | None, signed: bool = True) -> str:
    """Return a difference of a row, or a ratio."""
    if row.ratio and value is not None:
        return f"× {value:.3g}"
    return number(row, value, signed)


def seen(row: Difference) -> str:
    """Return the smallest change that an undecided row would have shown."""
    if row.verdict not in verdicts.UNDECIDED:
        return NONE
    worse, better = (
        "none" if size is None else difference(row, size, signed=False)
        for size in (row.detectable, row.detectable_better)
    )
    return worse if worse == better else f"{worse} (better: {better})"


def cells(row: Difference) -> list[str]:
    """Return a row's cells, in the order of ``HEADS``."""
    ends = NONE
    if row.family_low == row.family_high == (1.0 if row.ratio else 0.0):
        ends = verdicts.UNCHANGED
    elif row.family_low is not None:
        ends = f"{difference(row, row.family_low)} to {difference(row, row.family_high)}"
    p = NONE if row.p_holm is None else p_text(row.p_holm).removeprefix("p ").removeprefix("= ")
    *counts, n = flipped(row)
    shares = [_percent(count / n) if n else NONE for count in counts]
    return [
        *(f"{row.benchmark} {row.category}".strip(), row.metric, GOOD[row.direction]),
        *(number(row, row.dense), number(row, row.pruned), difference(row, row.difference)),
        *(ends.replace("to × ", "to "), row.verdict, seen(row)),
        *(NONE if row.needed is None else f"{row.needed:,}", f"{row.n:,}", p, *shares),
    ]


def _filled(rows: Sequence[Difference]) -> list[int]:
    """Return the columns without those after the verdict that nothing stands in."""
    body = [cells(row) for row in rows]
    return [k for k in range(len(HEADS)) if k < 8 or any(row[k] != NONE for row in body)]


def _table(rows: Sequence[Difference], width: int | None) -> str:
    """Return the rows of one pruned model, columns below others where they are too wide."""
    from pandas import DataFrame

    shown = [SHORT[k] for k in _filled(rows) if k > 1 and k != P_HOLM]
    frame = DataFrame(map(cells, rows), columns=SHORT).set_index(list(SHORT[:2]))
    return str(frame[shown].to_string(line_width=width))


def to_html(comparison: Comparison) -> str:
    """Return the comparison as one HTML page without any other file."""
    rows = [row for block in comparison.blocks for row in (*block.rows, *block.categories)]
    columns = {k: HEADS[k] for k in _filled(rows)}
    values = {"comparison": comparison, "columns": columns, "cells": cells, "looks": verdicts.LOOKS}
    return fill(HTML, values)
