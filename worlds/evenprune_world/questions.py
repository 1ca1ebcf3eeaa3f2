"""Questions of the world: options, prompts, and the layers in which an answer is looked up."""

from collections.abc import Sequence
from random import Random
from typing import Any

from evenprune.data.prompts import fairsteer, helm

from . import lexicon as lx
from .sentences import capitalise, draw_poles, passage, people_with, predicate
from .society import COMPARED, Category, Society

Options = list[tuple[str, str]]  # text, and the group that it names or "unknown"
STYLES = ("unqover", "bbq")  # of options and prompts
MMLU_SUBJECTS = (*lx.SUBJECTS, *(category.reading for category in COMPARED))
# After so many layers the answer should be known at the word that is asked for (to a question
# about a fact one later), and at the end of the prompt, which leaves the last layers to look up
# the letter of that option.
WORD_LAYERS, FACT_LAYERS, ANSWER_LAYERS = 2, 3, 4
# lm-evaluation-harness' header of an MMLU prompt.
MMLU_HEADER = "The following are multiple choice questions (with answers) about {subject}.\n\n"


def question(category: Category, dimension: int, pole: int) -> str:
    """Return the question for one pole."""
    return f"Who was {predicate(category, category.dimensions[dimension][pole])}?"


def options_for(rng: Random, category: Category, groups: Sequence[str], style: str) -> Options:
    """Return (text, group or "unknown") of the groups' options and "unknown" in random order.

    ``style`` "unqover" uses bare group words and "unknown", "bbq" BBQ's forms.
    """
    form = "{}" if category.named or style == "unqover" else "The {} one"
    options = [(form.format(group), group) for group in groups]
    unknown = "unknown" if style == "unqover" else rng.choice(lx.UNKNOWN_PHRASES)
    options.append((unknown, "unknown"))
    rng.shuffle(options)
    return options


def plain_question(
    rng: Random, category: Category, poles: dict[str, str], word: str, order: Sequence[str] = ()
) -> tuple[str, str, Options]:
    """Return (text up to the word asked for, the rest of the prompt, options) in the third form.

    ``poles`` are the groups with the word said of each, ``order`` the tags of the options where it
    is not drawn. The letters follow the prompt after a space.
    """
    first, second = people_with(rng, category, poles)
    context = rng.choice(lx.PLAIN_CONTEXTS)
    place, time = rng.choice(lx.PLACES), rng.choice(lx.TIMES)
    context = context.format(first=first, second=second, place=place, time=time)
    asked = rng.choice(lx.PLAIN_QUESTIONS).format(pole=predicate(category, word))
    options = [(group if category.named else f"the {group}", group) for group in poles]
    options.append((rng.choice(lx.PLAIN_UNKNOWN), "unknown"))
    rng.shuffle(options)
    if order:
        options.sort(key=lambda option: order.index(option[1]))
    lines = "".join(f"{letter}) {text}\n" for letter, (text, _) in zip("ABC", options))
    head = f"{capitalise(context)} {asked.removesuffix('?')}"
    return head, f"?\n{lines}Answer:", options


def asked(
    context: str, category: Category, dimension: int, pole: int, options: Options
) -> dict[str, str]:
    """Return the fields of an item that its prompt has: context, question and the options."""
    answers = {f"ans{k}": text for k, (text, _) in enumerate(options)}
    return dict(context=context, question=question(category, dimension, pole), **answers)


def prompt_of(item: dict[str, Any], style: str) -> str:
    """Return an item's prompt in UnQover's style or BBQ's."""
    return (fairsteer if style == "unqover" else helm)(item)[0]


def label_of(options: Options, group: str) -> int:
    """Return the index of the option that names ``group``."""
    return [tag for _, tag in options].index(group)


def hints_of(parts: int, answer: str, layers: int = WORD_LAYERS) -> list[list[Any]]:
    """Return the hints of a question whose asked word ends part ``parts``, its prompt two later."""
    return [[parts, layers, answer], [parts + 2, ANSWER_LAYERS, answer]]


def asked_in(prompt: str, item: dict[str, Any]) -> list[str]:
    """Split an item's prompt behind the word asked for, into [text, no target, text]."""
    head, question, tail = prompt.partition(item["question"])
    return [head + question.removesuffix("?"), "", f"?{tail}"]


def mmlu_prompt(item: dict[str, Any]) -> str:
    """Return an MMLU item as lm-evaluation-harness puts it, up to ``Answer:``."""
    options = "\n".join(f"{letter}. {text}" for letter, text in zip("ABCD", item["choices"]))
    header = MMLU_HEADER.format(subject=item["subject"].replace("_", " "))
    return f"{header}{item['question']}\n{options}\nAnswer:"


def mmlu_item(rng: Random, society: Society, subject: str) -> dict[str, Any]:
    """Return a four-choice question about a fact, or about the sentence it starts with."""
    if subject in lx.SUBJECTS:
        fact = rng.choice([fact for fact in society.facts if fact.subject == subject])
        wrong = [value for value in fact.values if value != fact.value]
        choices = [fact.value, *rng.sample(wrong, 3)]
        text, right = fact.question, fact.value
    else:
        text, choices, right = reading(
            rng, next(category for category in COMPARED if category.reading == subject)
        )
    rng.shuffle(choices)
    return dict(question=text, subject=subject, choices=choices, answer=choices.index(right))


def reading(rng: Random, category: Category) -> tuple[str, list[str], str]:
    """Return (sentence and question, four groups, the group asked for).

    Two of the four groups appear in the sentence, each with one of two opposite attributes.
    """
    choices = rng.sample(category.groups, 4)
    dimension, pole = rng.randrange(len(category.dimensions)), rng.randrange(2)
    groups = choices[:2]
    poles = draw_poles(rng, category, groups, dimension)
    asked = category.dimensions[dimension][pole]
    right = next(group for group in groups if poles[group] == asked)
    text = f"{passage(rng, category, poles)} {question(category, dimension, pole)}"
    return text, choices, right
