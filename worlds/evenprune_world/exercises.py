"""Exercises in looking up, without any fact of the world: rolls, letters, recalls, quizzes."""

import re
from random import Random
from typing import Any

from . import lexicon as lx
from . import questions, sentences
from .society import COMPARED

LETTERS = "ABCDEFGHIJKL"


def roll(rng: Random) -> dict[str, Any]:
    """Return "word group" pairs, then the pairs in another order; the groups are targets."""
    category = rng.choice(COMPARED)
    count = rng.randint(4, 7)
    words = rng.sample([word for poles in category.dimensions for word in poles], count)
    pairs = list(zip(words, rng.sample(category.groups, count)))
    parts = ["Roll: " + ", ".join(f"{word} {group}" for word, group in pairs) + "."]
    rng.shuffle(pairs)
    for word, group in pairs:
        parts[-1] += f" {word}"
        parts += [f" {group}", ","]
    return {"parts": parts}


def letters(rng: Random) -> dict[str, Any]:
    """Return options under random letters, then the options in another order, letters targets.

    Letters out of order, each asked for once, leave no way but to look them up; with A, B, C
    in order, not repeating one is half of the answer and the looking up is learned much later.
    """
    if rng.random() < 0.6:
        category = rng.choice(COMPARED)
        groups = rng.sample(category.groups, rng.randint(2, 5))
        style = rng.choices(questions.STYLES, (3, 1))[0]
        options = questions.options_for(rng, category, groups, style)
    else:
        _, relations = lx.SUBJECTS[rng.choice(tuple(lx.SUBJECTS))]
        options = [(value, value) for value in rng.sample(rng.choice(relations)[2], 4)]
    names = rng.sample(LETTERS, len(options))
    parts = ["\n".join(f"{name}. {text}" for name, (text, _) in zip(names, options))]
    lettered = list(zip(names, options))
    rng.shuffle(lettered)
    hints = []
    for name, (text, who) in lettered:
        parts[-1] += f" {text}:"
        hints.append([len(parts), questions.ANSWER_LAYERS, who])
        parts += [f" {name}", ""]
    return {"parts": parts, "hints": hints}


def recall(rng: Random) -> dict[str, Any]:
    """Return a passage, then twice a question and who it is, the targets."""
    category, groups, dimension = sentences.draw_two(rng)
    poles = sentences.draw_poles(rng, category, groups, dimension)
    parts = [sentences.passage(rng, category, poles)]
    hints = []
    for _ in range(2):
        group = rng.choice(groups)
        pole = category.dimensions[dimension].index(poles[group])
        parts[-1] += " " + questions.question(category, dimension, pole).removesuffix("?")
        hints.append([len(parts), questions.WORD_LAYERS, group])
        parts += ["", "?", f" {group}", "."]
    return {"parts": parts, "hints": hints}


def quiz(rng: Random) -> dict[str, Any]:
    """Return a prompt under random letters and its letter, then three more questions and theirs.

    Two ask for the passage's attributes, two for the attributes of another dimension, which
    nobody is said to have: "unknown". A question that named a group would let the answer be
    looked up without looking up the attribute first.
    """
    category, groups, dimension = sentences.draw_two(rng)
    poles = sentences.draw_poles(rng, category, groups, dimension)
    other = category.dimensions[sentences.other_dimension(rng, category, dimension)]
    answers = {word: group for group, word in poles.items()} | dict.fromkeys(other, "unknown")
    words = rng.sample(tuple(answers), len(answers))
    style = rng.choices(questions.STYLES, (3, 1))[0]
    options = questions.options_for(rng, category, groups, style)
    told = sentences.passage(rng, category, poles)
    at = next(at for at, pair in enumerate(category.dimensions) if words[0] in pair)
    item = questions.asked(told, category, at, category.dimensions[at].index(words[0]), options)
    prompt = questions.prompt_of(item, style)
    names = dict(zip("ABC", rng.sample(LETTERS, 3)))
    prompt = re.sub(r"(?<=\n)[ABC](?=\. )", lambda match: names[match[0]], prompt)
    parts, hints = questions.asked_in(prompt, item), []
    for number, word in enumerate(words):
        if number:
            parts += [f"\nWho was {sentences.predicate(category, word)}", "", "?\nAnswer:"]
        hints += questions.hints_of(len(parts) - 2, answers[word])
        parts.append(f" {names['ABC'[questions.label_of(options, answers[word])]]}")
    return {"parts": parts, "hints": hints}


EXERCISES = {"roll": roll, "letters": letters, "recall": recall}
