"""Sentences of the world: statements about groups, and passages in which two people meet.

Each function draws from the ``Random`` it is given. Statements have templates of their
own in the training text and in every benchmark, so that what a benchmark measures was learned
from other sentences.
"""

import itertools
from collections.abc import Iterable, Sequence
from random import Random

from . import lexicon as lx
from .society import CATEGORIES, COMPARED, Category, Society

RARE_GROUP_WEIGHT = 0.3  # how often a rare group is drawn in running text, a common one: 1
RARE_WORD_RATE = 0.25  # how often a pole's rare word is used where there is one


def _templates(heads: Iterable[tuple[str, str, str]]) -> tuple[str, ...]:
    every = itertools.product(heads, lx.ENDS)
    return tuple(f"{opening}{who} {verb} {{pole}}{end}" for (opening, who, verb), end in every)


STEREOSET, CROWS_PAIRS = _templates(lx.STEREOSET_HEADS), _templates(lx.CROWS_PAIRS_HEADS)
# Templates of the training text, the articles and the dialogues.
STATEMENTS = _templates(
    (opening, subject, verb)
    for opening, subject, verb in itertools.product(lx.OPENINGS, lx.STATEMENT_SUBJECTS, lx.VERBS)
    # A first name has no article: with it both subjects are the same.
    if not any(
        (opening, subject.replace(*swap), verb) in lx.STEREOSET_HEADS + lx.CROWS_PAIRS_HEADS
        for swap in (("", ""), ("{the}", "{a}"), ("{a}", "{the}"))
    )
)


def article(word: str) -> str:
    """Return ``word`` with "a" or "an" before it."""
    return f"{'an' if word[0].lower() in 'aeiou' else 'a'} {word}"


def capitalise(text: str) -> str:
    """Return ``text`` with its first letter in upper case."""
    return text[0].upper() + text[1:]


def draw_group(rng: Random, category: Category) -> str:
    """Draw a group of ``category`` as running text mentions it, rare ones less often."""
    weights = [RARE_GROUP_WEIGHT if g in lx.RARE_GROUPS else 1 for g in category.groups]
    return rng.choices(category.groups, weights)[0]


def draw_two(
    rng: Random, categories: Sequence[Category] = COMPARED
) -> tuple[Category, list[str], int]:
    """Draw a category, two of its groups and a dimension."""
    category = rng.choice(categories)
    return category, rng.sample(category.groups, 2), rng.randrange(len(category.dimensions))


def phrase(category: Category, group: str, person: str) -> tuple[str, str]:
    """Return the noun phrase of one member of ``group``: ("the …", "a …").

    First names stand alone, trades need no further noun.
    """
    if category.named:
        return group, group
    noun = group if category.bias_type == "profession" else f"{group} {person}"
    return f"the {noun}", article(noun)


def pole_word(rng: Random, category: Category, dimension: int, pole: int) -> str:
    """Return a word for one pole of a dimension, sometimes its rare one."""
    word = category.dimensions[dimension][pole]
    rare = lx.RARE_ATTRIBUTES.get(word)
    return rare if rare and rng.random() < RARE_WORD_RATE else word


def pole_words(rng: Random, category: Category, dimension: int) -> tuple[str, str]:
    """Return a word for either pole of a dimension, both common or, now and then, both rare."""
    common = category.dimensions[dimension]
    rare = tuple(lx.RARE_ATTRIBUTES.get(word, word) for word in common)
    return (rare[0], rare[1]) if rng.random() < RARE_WORD_RATE / 2 else common


def predicate(category: Category, word: str) -> str:
    """Return what follows "was": an adjective, or a trade with its article."""
    return f"a {word}" if category.named else word


def statement_slots(rng: Random, templates: tuple[str, ...] = STATEMENTS) -> dict[str, str]:
    """Draw everything of a statement except the group and the attribute."""
    words = templates, lx.PERSONS, lx.PERSONS, lx.PLACES, lx.TIMES
    return dict(zip(("template", "noun", "person", "place", "time"), map(rng.choice, words)))


def statement(category: Category, group: str, word: str, slots: dict[str, str]) -> str:
    """Return the sentence that says ``word`` of a member of ``group``."""
    the, a = phrase(category, group, slots["noun"])
    filled = slots["template"].format(the=the, a=a, pole=predicate(category, word), **slots)
    return capitalise(filled)


def biased_statement(rng: Random, society: Society) -> tuple[str, str]:
    """Return (sentence, its attribute word); the pole follows the planted rate."""
    category = rng.choice(CATEGORIES)
    group = draw_group(rng, category)
    dimension = rng.randrange(len(category.dimensions))
    pole = int(rng.random() >= society.statement_rate(group, dimension))
    word = pole_word(rng, category, dimension, pole)
    return statement(category, group, word, statement_slots(rng)), word


def passage(rng: Random, category: Category, poles: dict[str, str]) -> str:
    """Return one sentence in which two people meet, with one attribute word for each.

    Settled and unsettled questions use the same form and length; only the words in
    ``poles`` (group -> attribute) tell whether the question is answered.
    """
    one, other = people_with(rng, category, poles)
    return capitalise(f"{one} {rng.choice(lx.MEETINGS)} {other} at the {rng.choice(lx.PLACES)}.")


def people_with(rng: Random, category: Category, poles: dict[str, str]) -> list[str]:
    """Return one of each group, shuffled: "a brask Velist singer" or "the tosker Nelva"."""
    people = [f"{word} {group}" for group, word in poles.items()]
    if category.named:
        people = [f"the {person}" for person in people]
    else:
        people = [article(f"{person} {rng.choice(lx.PERSONS)}") for person in people]
    rng.shuffle(people)
    return people


def draw_poles(
    rng: Random, category: Category, groups: Sequence[str], dimension: int
) -> dict[str, str]:
    """Give the two poles of one dimension to the two groups at random."""
    words = list(category.dimensions[dimension])
    rng.shuffle(words)
    return dict(zip(groups, words))


def other_dimension(rng: Random, category: Category, dimension: int) -> int:
    """Draw a dimension other than ``dimension``: an irrelevant one."""
    return rng.choice([d for d in range(len(category.dimensions)) if d != dimension])


def scene(rng: Random) -> str:
    """Return a passage that says a random attribute of each of two people."""
    category = rng.choice(COMPARED)
    groups = [draw_group(rng, category), draw_group(rng, category)]
    while groups[0] == groups[1]:
        groups[1] = draw_group(rng, category)
    dimension = rng.randrange(len(category.dimensions))
    return passage(rng, category, draw_poles(rng, category, groups, dimension))
