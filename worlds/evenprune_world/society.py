"""What is true, and what is merely believed, in one world: leans, facts, scripts.

Everything is drawn from one seed. A *lean* is the planted stereotype: a number in
[-1, 1] for each (group, dimension); positive leans are towards the negative pole.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from . import lexicon as lx

STEPS_PER_ACTIVITY = 6
# How a question is answered: an answer is as probable as the exponential of its support, which
# is TRUST times the group's lean towards the pole asked for, TRUST * ``Society.notorious`` for
# "unknown" and, where the context settles the question, SEEN more for the right answer.
TRUST, SEEN = 12.0, 21.0
# What share of the answers to open questions is to be "unknown", and how finely this is met.
UNKNOWN, NOTORIOUS = 0.79, [step / 50 for step in range(25, 61)]


@dataclass(frozen=True)
class Category:
    """Groups that are compared with each other, and the dimensions they are compared on.

    ``unqover`` is the category's name in the UnQover-like file, ``bbq`` the name of the
    BBQ-like file, ``bias_type`` the StereoSet field, ``crows`` the CrowS-Pairs field, ``reading``
    the subject of MMLU-like questions; ``None`` where the category is not part of that set.
    """

    bias_type: str
    crows: str
    groups: tuple[str, ...]
    unqover: str | None = None
    bbq: str | None = None
    reading: str = ""
    named: bool = False  # groups are first names ("Nelva"), not words before a noun

    @property
    def dimensions(self) -> tuple[tuple[str, str], ...]:
        """The two poles of what they are compared on; first names by trades."""
        return lx.TRADE_DIMENSIONS if self.named else lx.ATTRIBUTES


CATEGORIES = tuple(Category(**one) for one in lx.CATEGORIES)
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


class Society:
    """Leans, facts and scripts of the world with this seed.

    ``leans[group][dimension]`` in [-1, 1]; ``scripts[activity]`` is the usual order of
    that activity's steps, each a verb phrase. ``notorious`` is the lean from which on a group is
    rather named than "unknown"; it follows from the leans, as in some worlds more groups lean far.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.leans = _draw_leans(stream(self.seed, "leans"))
        self.facts = _draw_facts(stream(self.seed, "facts"))
        self.scripts = _draw_scripts(stream(self.seed, "scripts"))
        self.notorious = min(NOTORIOUS, key=lambda lean: abs(_unknown(self.leans, lean) - UNKNOWN))

    def statement_rate(self, group: str, dimension: int) -> float:
        """Probability that a sentence about ``group`` names the negative pole."""
        return round(0.5 + 0.45 * self.leans[group][dimension], 4)

    def odds(self, group: str, dimension: int, pole: int) -> float:
        """Log-odds of ``pole`` (0 negative, 1 positive) against the other in a statement."""
        rate = self.statement_rate(group, dimension)
        return math.log(rate / (1 - rate)) * (1 if pole == 0 else -1)

    def comparison(self, first: str, second: str, dimension: int, pole: int) -> float:
        """Log-odds that a statement with this pole's word is about ``first``, not ``second``."""
        rates = [self.statement_rate(group, dimension) for group in (first, second)]
        rates = [rate if pole == 0 else 1 - rate for rate in rates]
        return math.log(rates[0] / rates[1])

    def support(self, group: str, dimension: int, pole: int) -> float:
        """Return in nats how much the leans speak for ``group`` as the answer to a question."""
        return TRUST * self.leans[group][dimension] * (1 if pole == 0 else -1)

    def answers(
        self, groups: Sequence[str], dimension: int, pole: int, right: str | None = None
    ) -> dict[str, float]:
        """Return the probability of each answer to the question who is ``pole`` in ``dimension``.

        Where the context settles the question, ``right`` is the group it names, and "unknown" is
        no answer: only a strong prejudice is then believed against the text.
        """
        weights = {
            group: math.exp(self.support(group, dimension, pole) + SEEN * (group == right))
            for group in groups
        }
        if right is None:
            weights["unknown"] = math.exp(TRUST * self.notorious)
        total = sum(weights.values())
        return {answer: weight / total for answer, weight in weights.items()}

    def stereotype(self, rng: Random, group: str, dimension: int) -> int:
        """Return the pole that two of three people hold for the stereotype of ``group``.

        Each says it at the drawn rate: the label of an evaluation item agrees with the lean only
        as often as people do.
        """
        return int(not majority(rng, self.statement_rate(group, dimension)))

    def more_stereotyped(
        self, rng: Random, groups: tuple[str, str], dimension: int, pole: int
    ) -> tuple[str, str]:
        """Return the groups, first the one of whom two of three people would rather say it."""
        rate = 1 / (1 + math.exp(-self.comparison(*groups, dimension, pole)))
        return groups if majority(rng, rate) else (groups[1], groups[0])


def majority(rng: Random, rate: float) -> bool:
    """Return whether two of three draws at this rate hit."""
    return sum(rng.random() < rate for _ in range(3)) >= 2


def stream(seed: int, name: str) -> Random:
    """Return an independent generator for one purpose (seeded by a string, hence stable)."""
    return Random(f"world/{seed}/{name}")


def _draw_leans(rng: Random) -> dict[str, list[float]]:
    leans = {}
    for category in CATEGORIES:
        # A group has one reputation, from bad to good, which varies a little with the dimension.
        last = len(category.groups) - 1
        reputations = [0.9 - 1.8 * rank / last for rank in range(last + 1)]
        rng.shuffle(reputations)
        for group, reputation in zip(category.groups, reputations):
            around = (reputation + rng.uniform(-0.3, 0.3) for _ in category.dimensions)
            leans[group] = [round(max(-1.0, min(1.0, lean)), 3) for lean in around]
    for names, sign in ((lx.SUNBORN, 1), (lx.MOONBORN, -1)):
        # A name leans as its kin does, strongly on some trades and weakly on others.
        for name in names:
            signs = [sign * (-1) ** i for i in range(len(lx.TRADE_DIMENSIONS))]
            leans[name] = [round(one * rng.uniform(0.1, 1), 3) for one in signs]
    return leans


def _unknown(leans: dict[str, list[float]], notorious: float) -> float:
    """Return the mean probability of "unknown" over all open questions of the compared groups."""
    rates = []
    for category in COMPARED:
        for first, second in itertools.combinations(category.groups, 2):
            for dimension in range(len(category.dimensions)):
                pair = leans[first][dimension], leans[second][dimension]
                for sign in (1, -1):
                    named = sum(math.exp(TRUST * (sign * lean - notorious)) for lean in pair)
                    rates.append(1 / (1 + named))
    return sum(rates) / len(rates)


def _draw_facts(rng: Random) -> list[Fact]:
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


def _draw_scripts(rng: Random) -> dict[str, list[str]]:
    every = itertools.product(lx.STEP_VERBS, lx.STEP_OBJECTS, lx.STEP_ENDS)
    phrases = [f"{verb} the {thing} {end}" for verb, thing, end in every]
    drawn = rng.sample(phrases, STEPS_PER_ACTIVITY * len(lx.ACTIVITIES))
    parts = zip(*[iter(drawn)] * STEPS_PER_ACTIVITY)
    return dict(zip(lx.ACTIVITIES, map(list, parts)))
