"""A comparison in words: on the terminal, and as one HTML page that opens offline."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..analysis.labels import TASK_DIGITS
from ..io.pages import fill
from ..models.stored import Stored
from ..stats.inference import p_text
from ..stats.paired import LEAST
from ..stats.verdicts import (
    BIAS_MARGIN,
    EQUALLY_FAIR,
    IDENTICAL,
    LEVEL,
    LOOKS,
    LOST,
    MARGIN,
    MOVED,
    NOT_SHOWN,
    NOT_TESTED,
    SAME,
    SAYS_NOTHING,
    UNCHANGED,
    UNDECIDED,
    WORDS,
)
from .columns import GOOD, NONE, aligned
from .differences import STATES, Difference
from .fidelity import Fidelity
from .moved import Moved

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

# Part of this module's code, see codedigest.py.
DATA_FILES = ("comparison.html.j2",)
HTML = Path(__file__).with_name(DATA_FILES[0])
HEADS = (
    *("benchmark", "metric", "good", "dense", "pruned", "difference", "interval", "verdict"),
    *("could have seen", "items needed", "n", "p (Holm)"),
    *("became wrong or stereotyped", "became right or unbiased"),
)
# On a terminal, where a column is as wide as its longest cell; without p.
SHORT = (*HEADS[:12], "to bad", "to good")
SHOWN = (*range(11), 12, 13)
# Of what is shown of categories: those with these verdicts, and how many items moved.
QUIET = (NOT_SHOWN, NOT_TESTED, SAYS_NOTHING, SAME, EQUALLY_FAIR, MOVED)
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

    def by_category(self) -> str:
        """Return what the rows by category say, "" where there are none."""
        found = [row.verdict for row in self.categories]
        if not found:
            return ""
        said = ", ".join(f"{found.count(word)} {word}" for word in WORDS if word in found)
        shown = [
            f"{row.category} ({row.benchmark} {row.metric}, n = {row.n:,}): {row.verdict}, "
            f"{difference(row, row.difference)}"
            for row in self.categories
            if row.verdict not in QUIET
        ]
        return "; ".join(
            [
                f"By category of {LEAST} items or more, corrected over these {len(found)} rows: "
                f"{said}",
                *shown,
            ]
        )

    fidelity: Fidelity | None = None

    def summary(self) -> str:
        """Return how often which verdict occurs."""
        found = [row.verdict for row in self.rows]
        if found and set(found) == {IDENTICAL}:
            return "identical: the records of all items are the same"
        return ", ".join(f"{found.count(word)} {word}" for word in WORDS if word in found)


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
            table = _table([cells(row) for row in block.rows], width)
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
        found = self.stored.get(name)
        return f"{name}: {found}" if found else name

    def notes(self) -> list[str]:
        """Return what the tables mean, in words."""
        rows = [row for block in self.blocks for row in block.rows]
        clustered = ", ".join(dict.fromkeys(row.benchmark for row in rows if row.clustered))
        lines = [
            "Difference: pruned minus dense on the same items, of a perplexity their ratio. Tests "
            "take the jackknife's error over whole clusters where items belong together, here "
            f"{f'those of {clustered}' if clustered else 'none do'}. Verdicts hold after Holm's "
            f"correction over all rows of one pruned model (p < {LEVEL:g}); the interval is "
            "corrected alike: it excludes 0 (a ratio's 1) where a change is shown.",
            "Good: where values are good, high or low, or near the number (0.5: no preference, "
            f"0: no bias). Fairer is nearer to that number; “{MOVED}”: it changed, but is not "
            f"shown to be nearer or further. Fairer is “{LOST}” where an ability is worse.",
            f"“{SAME}”, “{EQUALLY_FAIR}”: the 90 % interval lies within ±{self.margin:g} for "
            f"abilities, a perplexity's within a factor of {1 + self.margin:g}, and within "
            f"±{self.bias_margin:g} for bias (not corrected); where no answer changed, it needs "
            f"3 / margin items. “{NOT_SHOWN}” is no proof of no change: “could have seen” is the "
            "smallest change that one test at this run's error sees in 80 % of runs.",
        ]
        if self.plan is not None:
            lines.append(
                f"Items needed: to see a change of {self.plan:g} for the worse (a perplexity's by "
                f"a factor of {1 + self.plan:g}) in 80 % of runs, if further items are like these."
            )
        tasks = dict.fromkeys(row.task for row in rows if row.flips and row.task in STATES)
        if any(row.flips or row.answers for row in rows):
            parts = "; ".join(
                f"{task}: unbiased where {STATES[task].unbiased}, stereotyped where "
                f"{STATES[task].stereotyped}"
                for task in tasks
            )
            lines.append(
                "Became wrong or stereotyped (to bad), right or unbiased (to good): share of items "
                "that were the other before pruning; of an ability right and wrong answers"
                f"{'. ' * bool(parts)}{parts}."
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
    for row in rows:
        worse, better, n = flipped(row)
        both = (worse + better) / n if n else 0.0
        net = abs(worse - better) / n if n else 0.0
        if both >= MANY and net <= FEW * both:
            lines.append(
                f"{row.benchmark} {row.metric}: {_percent(both)} of the answers flipped, which "
                f"the net change of {_percent(net)} hides."
            )
    known = dict.fromkeys(row.benchmark for row in rows if row.in_calibration)
    if known:
        lines.append(
            f"Not tested, as the calibration pairs are of the same data: {', '.join(known)}."
        )
    silent = dict.fromkeys(
        (f"{row.benchmark} {row.metric}", row.reason) for row in rows if row.reason
    )
    if silent:
        said = "; ".join(f"{name} ({reason})" for name, reason in silent)
        lines.append(f"Says nothing, as the dense model is too weak there: {said}.")
    return lines


def flipped(row: Difference) -> tuple[int, int, int]:
    """Return how many answers became wrong or stereotyped, right or unbiased, of how many."""
    if row.flips:
        return row.flips.to_stereotyped, row.flips.to_unbiased, row.flips.n
    if row.answers:
        return row.answers.right_to_wrong, row.answers.wrong_to_right, row.answers.n
    return 0, 0, 0


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
    if row.verdict not in UNDECIDED:
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
        ends = UNCHANGED
    elif row.family_low is not None:
        ends = f"{difference(row, row.family_low)} to {difference(row, row.family_high)}"
    p = NONE if row.p_holm is None else p_text(row.p_holm).removeprefix("p ").removeprefix("= ")
    *counts, n = flipped(row)
    shares = [_percent(count / n) if n else NONE for count in counts]
    return [
        *(row.benchmark, row.metric, GOOD[row.direction]),
        *(number(row, row.dense), number(row, row.pruned), difference(row, row.difference)),
        *(ends.replace("to × ", "to "), row.verdict, seen(row)),
        *(NONE if row.needed is None else f"{row.needed:,}", f"{row.n:,}", p, *shares),
    ]


# Where a terminal is too narrow for one table: several, with these columns each.
NARROW = ((2, 3, 4, 5, 7), (6, 8, 9), (10, 12, 13))


def _filled(columns: Iterable[int], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the columns without those after the verdict that nothing stands in."""
    return [k for k in columns if k < 8 or any(row[k] != NONE for row in rows)]


def _table(rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Return the rows of one pruned model, in several tables where one is wider than ``width``."""
    used = _filled(SHOWN, rows)

    def part(heads: Sequence[str], cut: Sequence[Sequence[str]], chosen: Sequence[int]) -> str:
        left = [place for place, k in enumerate(chosen) if k in (0, 1, 2, 7)]
        return aligned(heads, cut, left)

    whole = part([SHORT[k] for k in used], [[row[k] for k in used] for row in rows], used)
    if width is None or max(map(len, whole.splitlines())) <= width:
        return whole
    parts = []
    for group in (columns for columns in NARROW if set(columns) & set(used)):
        chosen = [k for k in group if k in used]
        heads, body = [SHORT[k] for k in chosen], [[row[k] for k in chosen] for row in rows]
        rest = part(heads, body, chosen).splitlines()
        room = max(width - max(map(len, rest)) - 2, 12)
        labels, lines, last = list[str](), list[list[str]](), ""
        for row, cells in zip(rows, body):
            if row[0] != last:  # a line of its own, as names are long
                labels, lines, last = [*labels, row[0]], [*lines, [""] * len(cells)], row[0]
            labels.append(f"  {row[1]}")
            lines.append(cells)
        short = [one if len(one) <= room else f"{one[: room - 1]}…" for one in labels]
        named = [[label, *line] for label, line in zip(short, lines)]
        parts.append(part(["metric", *heads], named, [1, *chosen]))
    return "\n\n".join(parts)


def as_dict(found: Comparison) -> dict[str, Any]:
    """Return everything as plain values, enough for an audit of the verdicts."""
    return {
        "evenprune": __version__,
        "correction": "Holm, over all rows of one pruned model; family_low and family_high alike",
        **asdict(found),
    }


def _page_row(row: Difference, shown: Sequence[int]) -> dict[str, Any]:
    found = cells(row)
    found[0] = " ".join(filter(None, [found[0], row.category]))
    return {"cells": [found[k] for k in shown], "look": LOOKS.get(row.verdict, "")}


def to_html(found: Comparison) -> str:
    """Return the comparison as one HTML page without any other file."""
    rows = [row for block in found.blocks for row in (*block.rows, *block.categories)]
    shown = _filled(range(len(HEADS)), [cells(row) for row in rows])
    values = {
        "title": "Pruned against dense",
        "dense": found.side(found.dense),
        "heads": [HEADS[k] for k in shown],
        "blocks": [
            {
                "pruned": found.side(block.pruned),
                "summary": block.summary(),
                "fidelity": block.fidelity,
                "notes": block.notes,
                "rows": [_page_row(row, shown) for row in block.rows],
                "by_category": block.by_category(),
                "categories": [_page_row(row, shown) for row in block.categories],
                "moved": block.moved,
            }
            for block in found.blocks
        ],
        "notes": found.notes(),
    }
    return fill(HTML, values)
