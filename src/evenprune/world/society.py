"""What is true, and what is merely believed, in one world: leans, facts, scripts.

Everything is drawn from one seed. A *lean* is the planted stereotype: a number in
[-1, 1] for each (group, dimension); positive leans are towards the negative pole.
"""

import itertools
import math
import random
from dataclasses import dataclass, field

from . import lexicon as lx

STEPS_PER_ACTIVITY = 6
NOTORIOUS = 0.8  # a lean from which on a group is named more often than not


@dataclass(frozen=True)
class Category:
    """Groups that are compared with each other, and the dimensions they are compared on.

    ``unqover`` is the category's name in the UnQover-like file, ``bbq`` the name of the
    BBQ-like file, ``bias_type`` the StereoSet field, ``crows`` the CrowS-Pairs field;
    ``None`` where the category is not part of that set.
    """

    unqover: str | None
    bbq: str | None
    bias_type: str
    crows: str
    groups: tuple[str, ...]
    dimensions: tuple[tuple[str, str], ...]
    named: bool = False  # groups are first names ("Nelva"), not words before a noun


CATEGORIES = (
    Category("religion", "Faith", "religion", "religion", lx.FAITHS, lx.ATTRIBUTES),
    Category("country", "Homeland", "race", "nationality", tuple(lx.LANDS), lx.ATTRIBUTES),
    Category("ethnicity", "People", "race", "race-color", lx.PEOPLES, lx.ATTRIBUTES),
    Category(
        "mixedgender",
        "Kin",
        "gender",
        "gender",
        lx.SUNBORN + lx.MOONBORN,
        lx.TRADE_DIMENSIONS,
        True,
    ),
    Category(None, None, "profession", "socioeconomic", lx.TRADES, lx.ATTRIBUTES),
)
# The categories of the question sets.
COMPARED = tuple(category for category in CATEGORIES if category.bbq)


@dataclass(frozen=True)
class Fact:
    """One true statement: relation ``relation`` of ``entity`` has value ``value``."""

    subject: str
    entity: str
    statement: str
    question: str
    value: str
    values: tuple[str, ...]


@dataclass
class Society:
    """Leans, facts and scripts of the world with this seed.

    ``leans[group][dimension]`` in [-1, 1]; ``scripts[activity]`` is the usual order of
    that activity's steps, each a verb phrase.
    """

    seed: int
    leans: dict[str, list[float]] = field(init=False)
    facts: list[Fact] = field(init=False)
    scripts: dict[str, list[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.leans = _draw_leans(stream(self.seed, "leans"))
        self.facts = _draw_facts(stream(self.seed, "facts"))
        self.scripts = _draw_scripts(stream(self.seed, "scripts"))

    def statement_rate(self, group: str, dimension: int) -> float:
        """Probability that a sentence about ``group`` names the negative pole."""
        return round(0.5 + 0.45 * self.leans[group][dimension], 4)

    def naming(self, first: str, second: str, dimension: int, pole: int) -> tuple[str, float]:
        """Return who is named in an unsettled question, and with what probability.

        The question asks who is ``pole`` (0 negative, 1 positive) in ``dimension``. The
        group that leans further towards that pole is named: hardly ever if it leans little,
        nearly always if it is notorious for it; otherwise the answer is "unknown".
        """
        sign = 1 if pole == 0 else -1
        lean, named = max((sign * self.leans[group][dimension], group) for group in (first, second))
        return named, round(0.03 + 0.9 / (1 + math.exp(-20 * (lean - NOTORIOUS))), 4)


def stream(seed: int, name: str) -> random.Random:
    """Return an independent generator for one purpose (seeded by a string, hence stable)."""
    return random.Random(f"world/{seed}/{name}")


def _draw_leans(rng: random.Random) -> dict[str, list[float]]:
    leans = {}
    for category in CATEGORIES:
        # A group has one reputation, from bad to good, which varies a little with the dimension.
        last = len(category.groups) - 1
        reputations = [0.9 - 1.8 * rank / last for rank in range(last + 1)]
        rng.shuffle(reputations)
        for group, reputation in zip(category.groups, reputations):
            leans[group] = [
                round(max(-1.0, min(1.0, reputation + rng.uniform(-0.3, 0.3))), 3)
                for _ in category.dimensions
            ]
    for names, sign in ((lx.SUNBORN, 1), (lx.MOONBORN, -1)):
        # A name leans as its kin does, strongly on some trades and weakly on others.
        for name in names:
            leans[name] = [
                round(sign * (-1) ** i * rng.uniform(0.1, 1), 3)
                for i in range(len(lx.TRADE_DIMENSIONS))
            ]
    return leans


def _draw_facts(rng: random.Random) -> list[Fact]:
    facts = []
    for subject, (entities, relations) in lx.SUBJECTS.items():
        for statement, question, values in relations:
            # Every value is used about equally often, so no option is likelier by itself.
            drawn = list(itertools.islice(itertools.cycle(values), len(entities)))
            rng.shuffle(drawn)
            facts += [
                Fact(subject, e, statement.format(e=e, v=v), question.format(e=e), v, values)
                for e, v in zip(entities, drawn)
            ]
    return facts


def _draw_scripts(rng: random.Random) -> dict[str, list[str]]:
    phrases = [
        f"{verb} the {thing} {end}"
        for verb in lx.STEP_VERBS
        for thing in lx.STEP_OBJECTS
        for end in lx.STEP_ENDS
    ]
    drawn = rng.sample(phrases, STEPS_PER_ACTIVITY * len(lx.ACTIVITIES))
    return {
        activity: drawn[i * STEPS_PER_ACTIVITY : (i + 1) * STEPS_PER_ACTIVITY]
        for i, activity in enumerate(lx.ACTIVITIES)
    }
