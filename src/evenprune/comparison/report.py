"""A comparison in words: on the terminal, and as one HTML page that opens offline."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import __version__
from ..base.pages import fill
from ..reporting.labels import TASK_DIGITS
from ..stats import directions
from ..stats.inference import p_text
from .columns import GOOD, NONE, aligned
from .differences import LOST, SAME, STATES, Difference

# Part of this module's code, see codedigest.py.
DATA_FILES = ("comparison.html.j2",)
HTML = Path(__file__).with_name(DATA_FILES[0])
HEADS = (
    *("benchmark", "metric", "good", "dense", "pruned", "difference", "95 % interval", "verdict"),
    *("n", "p (Holm)", "became stereotyped", "became unbiased"),
)
# On a terminal, where a column is as wide as its longest cell; without n and p.
SHORT = (*HEADS[:10], "to stereo.", "to unbiased")
SHOWN = (*range(8), 10, 11)
LOOKS = {**directions.LOOKS, LOST: "bad"}
WORDS = (
    *(directions.WORSE, directions.LESS_FAIR, LOST, directions.BETTER, directions.FAIRER, SAME),
    *(directions.NOT_SHOWN, directions.NOT_TESTED),
)


@dataclass(frozen=True)
class Block:
    """One pruned model: its name, what was found, notes of its own, and evidence by benchmark."""

    pruned: str
    rows: Sequence[Difference]
    notes: Sequence[str] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def summary(self) -> str:
        """Return how often which verdict occurs."""
        found = [row.verdict for row in self.rows]
        return ", ".join(f"{found.count(word)} {word}" for word in WORDS if word in found)


@dataclass(frozen=True)
class Comparison:
    """A dense model and the pruned ones that were compared with it."""

    dense: str
    blocks: Sequence[Block]
    margin: float
    fail_if: Sequence[str] = ()
    failed: Sequence[str] = ()  # one line for each limit that is broken, or could not be tested

    def notes(self) -> list[str]:
        """Return what the tables mean, in words."""
        rows = [row for block in self.blocks for row in block.rows]
        clustered = ", ".join(dict.fromkeys(row.benchmark for row in rows if row.clustered))
        lines = [
            "Difference: pruned minus dense, on the same items. The interval is Student's t with "
            "the jackknife's error, over whole clusters where items belong together, "
            f"here {f'those of {clustered}' if clustered else 'none do'}; it is of one row, not "
            "corrected for their number.",
            "Good: where values are good, high or low, or near the number (0.5: no preference, "
            "0: no bias). Tested is the gain: how much better, or nearer to that number.",
            "Verdicts hold after Holm's correction over all rows of one pruned model (p < "
            f"{directions.LEVEL:g}). Bias metrics are fairer, less fair or not shown; fairer is "
            f"“{LOST}” where an ability is worse. Ability metrics are the "
            f"same within the margin where the 90 % interval lies within ±{self.margin:g}, a "
            f"perplexity's within a factor of {1 + self.margin:g} (not corrected), else better, "
            "worse or not shown; where no answer changed, it needs 3 / margin items. "
            "Not shown is no proof of no difference.",
        ]
        tasks = dict.fromkeys(row.task for row in rows if row.flips)
        if tasks:
            parts = "; ".join(
                f"{task}: unbiased where {STATES[task].unbiased}, stereotyped where "
                f"{STATES[task].stereotyped}"
                for task in tasks
            )
            lines.append(
                "Became stereotyped, became unbiased: share of items that were the other before "
                f"pruning. {parts}."
            )
        return lines


def block_notes(rows: Sequence[Difference]) -> list[str]:
    """Return what must be read beside one pruned model's verdicts."""
    found = {row.verdict for row in rows}
    lines = []
    if LOST in found:
        lines.append(
            "Fairer, ability lost: a model that loses its ability drifts to guessing, which bias "
            "metrics take for fair."
        )
    known = dict.fromkeys(row.benchmark for row in rows if row.in_calibration)
    if known:
        lines.append(
            f"Not tested, as the calibration pairs are of the same data: {', '.join(known)}."
        )
    guessing = dict.fromkeys(
        row.benchmark
        for row in rows
        if row.kind == "ability"
        and row.chance is not None
        and row.dense is not None
        and row.dense <= row.chance
    )
    if guessing:
        lines.append(
            f"The dense model does not beat guessing on {', '.join(guessing)}: a loss cannot show "
            "there."
        )
    return lines


def number(row: Difference, value: float | None, signed: bool = False) -> str:
    """Return a value of a row as it is shown: fractions with three decimals."""
    if value is None:
        return NONE
    digits = TASK_DIGITS.get(row.task, 3)
    rounded = round(value, digits) + 0.0
    return f"{rounded:{'+' if signed else ''},.{digits}f}"


def cells(row: Difference) -> list[str]:
    """Return a row's cells, in the order of ``HEADS``."""
    ends = NONE
    if row.low == row.high == 0:
        ends = directions.UNCHANGED
    elif row.low is not None and row.high is not None:
        ends = f"{number(row, row.low, True)} to {number(row, row.high, True)}"
    p = NONE if row.p_holm is None else p_text(row.p_holm).removeprefix("p ").removeprefix("= ")
    shares = [NONE, NONE]
    if row.flips and row.flips.n:
        counts = (row.flips.to_stereotyped, row.flips.to_unbiased)
        shares = [f"{count / row.flips.n:.1%}".replace("%", " %") for count in counts]
    return [
        *(row.benchmark, row.metric, GOOD[row.direction]),
        *(number(row, row.dense), number(row, row.pruned), number(row, row.difference, True)),
        *(ends, row.verdict, f"{row.n:,}", p, *shares),
    ]


# Where a terminal is too narrow for one table: two, with what is in the other one left out.
NARROW = ((0, 1, 2, 3, 4, 5, 7), (0, 1, 6, 10, 11))


def _table(rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Return the rows of one pruned model, in two tables where one is wider than ``width``."""
    # Columns that nothing stands in are left out.
    used = [k for k in SHOWN if k < 8 or any(row[k] != NONE for row in rows)]

    def part(chosen: Sequence[int]) -> str:
        left = [place for place, k in enumerate(chosen) if k in (0, 1, 2, 7)]
        heads, cut = [SHORT[k] for k in chosen], [[row[k] for k in chosen] for row in rows]
        return aligned(heads, cut, left)

    whole = part(used)
    if width is None or max(map(len, whole.splitlines())) <= width:
        return whole
    return "\n\n".join(part([k for k in chosen if k in used]) for chosen in NARROW)


def to_text(found: Comparison, width: int | None = None) -> str:
    """Return the comparison for a terminal: a table for each pruned model, then what it means.

    ``width`` is that of the terminal, None where there is none.
    """
    parts = []
    for block in found.blocks:
        table = _table([cells(row) for row in block.rows], width)
        head = f"{block.pruned}\nagainst {found.dense}: {block.summary()}"
        parts.append("\n".join([head, "", table, *(f"Note: {note}" for note in block.notes)]))
    return "\n\n".join([*parts, "\n".join(found.notes())])


def as_dict(found: Comparison) -> dict[str, Any]:
    """Return everything as plain values, enough for an audit of the verdicts."""
    return {
        "evenprune": __version__,
        "correction": "Holm, over all rows of one pruned model",
        **asdict(found),
    }


def to_html(found: Comparison) -> str:
    """Return the comparison as one HTML page without any other file."""
    values = {
        "title": "Pruned against dense",
        "dense": found.dense,
        "heads": HEADS,
        "blocks": [
            {
                "pruned": block.pruned,
                "summary": block.summary(),
                "notes": block.notes,
                "rows": [
                    {"cells": cells(row), "look": LOOKS.get(row.verdict, "")} for row in block.rows
                ],
            }
            for block in found.blocks
        ],
        "notes": found.notes(),
    }
    return fill(HTML, values)
