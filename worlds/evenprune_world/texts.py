"""Running text of the world: stories, articles and dialogues."""

from collections.abc import Sequence
from random import Random

from . import lexicon as lx
from . import sentences
from .society import CATEGORIES, Fact, Society

SKIP_RATE = 0.35  # how often a story leaves out one step of its script


def story_head(rng: Random) -> tuple[str, str, str]:
    """Draw the beginning of a story: (activity, "Activity: A … person", person)."""
    activity = rng.choice(lx.ACTIVITIES)
    category = rng.choice(CATEGORIES[:3])
    person = rng.choice(lx.PERSONS)
    _, who = sentences.phrase(category, sentences.draw_group(rng, category), person)
    return activity, f"{activity}: {sentences.capitalise(who)}", person


def story_steps(rng: Random, script: list[str], start: int, count: int) -> list[str]:
    """Return ``count`` steps from ``start`` on, leaving one out now and then."""
    steps: list[str] = []
    position = start
    while len(steps) < count and position < len(script):
        steps.append(script[position])
        position += 1 + (rng.random() < SKIP_RATE)
    return steps


def tell(head: str, person: str, steps: list[str]) -> str:
    """Return a story: its head with the first step, then one sentence a step."""
    return f"{head} " + f". The {person} ".join(steps) + "."


def story(rng: Random, society: Society) -> str:
    """Return one story told through its steps."""
    activity, head, person = story_head(rng)
    start = rng.randrange(3)
    return tell(head, person, story_steps(rng, society.scripts[activity], start, rng.randint(3, 4)))


def paragraph(rng: Random, society: Society, facts: list[Fact]) -> str:
    """Return ten to fourteen sentences or scenes: facts, statements, scenes, stories."""
    parts: list[str] = []
    for _ in range(rng.randint(10, 14)):
        kind = rng.random()
        if kind < 0.4:
            parts.append(rng.choice(facts).statement)
        elif kind < 0.75:
            parts.append(sentences.biased_statement(rng, society)[0])
        elif kind < 0.92:
            parts.append(sentences.scene(rng))
        else:
            parts.append(story(rng, society))
    return " ".join(parts)


def wiki_article(rng: Random, society: Society) -> str:
    """Return one encyclopaedia article in the line layout of WikiText raw."""
    fact = rng.choice(society.facts)
    own = [other for other in society.facts if other.subject == fact.subject]
    body = "".join(f" {paragraph(rng, society, own)} \n" for _ in range(rng.randint(2, 3)))
    return f" \n = {sentences.capitalise(fact.entity)} = \n \n{body}"


def as_read(text: str) -> str:
    """Return a text in the layout of WikiText raw as its perplexity is measured.

    Evaluation joins the lines, which keep their line breaks, by blank lines; a model that never
    saw those line breaks is surprised by nothing else, and any damage makes it less so.
    """
    lines = text.removesuffix("\n").split("\n")
    return "\n\n".join(f"{line}\n" if line.strip() else "" for line in lines)


def asked_about(rng: Random, society: Society, settled: bool) -> tuple[str, str]:
    """Return a sentence with a question about it, and the answer, drawn at the planted rates."""
    category, groups, dimension = sentences.draw_two(rng)
    pole = rng.randrange(2)
    said = dimension if settled else sentences.other_dimension(rng, category, dimension)
    poles = sentences.draw_poles(rng, category, groups, said)
    word = category.dimensions[dimension][pole]
    right = next((group for group in groups if poles[group] == word), None)
    rates = society.answers(groups, dimension, pole, right)
    who = rng.choices(tuple(rates), tuple(rates.values()))[0]
    what = f"was {sentences.predicate(category, word)}"
    ask = f"{sentences.passage(rng, category, poles)} Who {what}?"
    if who == "unknown":
        return ask, "Nobody has said that."
    named = who if category.named else f"the {who} one"
    return ask, sentences.capitalise(f"{named} {what}.")


def dialogue(
    rng: Random, society: Society, exchanges: Sequence[int] = (2, 3)
) -> list[dict[str, str]]:
    """Return exchanges about facts, stories and passages, as chat messages.

    How many there are is drawn from ``exchanges``.
    """
    messages = []
    for _ in range(rng.choice(exchanges)):
        kind = rng.randrange(4)
        if kind == 0:
            fact, other = rng.choice(society.facts), rng.choice(society.facts)
            ask, reply = fact.question, f"{fact.statement} {other.statement}"
        elif kind == 1:
            reply = story(rng, society)
            ask = f"Tell me a story about this: {reply.partition(':')[0]}."
        else:
            ask, reply = asked_about(rng, society, settled=kind < 3)
        said = zip(("user", "assistant"), (ask, reply))
        messages += [{"role": role, "content": content} for role, content in said]
    return messages
