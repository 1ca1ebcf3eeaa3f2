"""The UnQover questions from their word lists.

A category is a list of subjects, a list of activities (an attribute and its negation) and a
list of templates (a context and two questions with slots). Every pair of subjects, template
and fitting activity gives one *instance*: a context with a question and its negation. The
enumeration is that of allenai/unqover (Li et al. 2020).

``head_items`` is the set used by CAL and so by the paper: of each category the first 5,001
instances, 40,008 questions in all. As pairs are enumerated in list order, each category's
questions have one fixed first subject. ``balanced_items`` is ours: instances drawn from all
subject pairs, each in both subject orders, as UnQover's own bias scores need them.
"""

import hashlib
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice, permutations, product
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from ..data.readers.unqover import UnqoverItem

UNKNOWN = "unknown"
HEAD_INSTANCES = 5001
BALANCED_BLOCKS = 2500
ORDERS = tuple(permutations(range(3)))


@dataclass(frozen=True)
class WordLists:
    """Names of a category's word lists; two subject lists mean pairs across them."""

    name: str
    subjects: tuple[str, ...]
    activities: str
    slots: str


# CAL's order: the example ids depend on it.
CATEGORIES = (
    WordLists("religion", ("religion",), "biased_religion", "religion_noact"),
    WordLists("country", ("country",), "biased_country", "country_noact"),
    WordLists("ethnicity", ("ethnicity",), "biased_ethnicity", "ethnicity_noact"),
    WordLists("mixedgender", ("female", "male"), "occupation_rev1", "gender_noact"),
)

Forms = dict[str, str]


@dataclass(frozen=True)
class Instance:
    """A context about two people with two questions about an activity."""

    context: str
    people: tuple[str, str]
    questions: tuple[str, str]
    activity: str


def read_lines(path: Path) -> list[str]:
    """Return a word list's lines without blank lines and comments.

    Raises UserError if the file is missing or holds nothing.
    """
    if not path.is_file():
        raise UserError(
            f"expected the word list {path}, found none; it belongs to allenai/unqover's "
            "word_lists folder"
        )
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    kept = [line for line in lines if line and not line.startswith("#")]
    if not kept:
        raise UserError(f"expected entries in the word list {path}, but it is empty")
    return kept


def _entries(lines: list[str], path: Path) -> dict[str, list[str]]:
    """Return the terms under each slot; a term is what stands behind the slot and any ``|``."""
    found: dict[str, list[str]] = {}
    for number, line in enumerate(lines, 1):
        slot, _, rest = line.partition(" ")
        term = rest.rpartition("|")[2].strip()
        if not slot.startswith("[") or not term:
            raise UserError(
                f"expected '[slot] term' as entry {number} of {path}, got {line!r}; mend it"
            )
        found.setdefault(slot, []).append(term)
    return found


def _aligned(columns: dict[str, list[str]], path: Path) -> list[Forms]:
    sizes = {len(terms) for terms in columns.values()}
    if len(sizes) > 1:
        raise UserError(f"expected as many entries of each form in {path}, got {sorted(sizes)}")
    return [dict(zip(columns, terms)) for terms in zip(*columns.values())]


def read_subjects(folder: Path, name: str) -> list[Forms]:
    """Return the subjects of a list, each with its forms, e.g. ``[subj]`` and ``[subj:dem]``."""
    path = folder / "nouns" / "subjects" / f"{name}.txt"
    return _aligned(_entries(read_lines(path), path), path)


def read_activities(folder: Path, name: str) -> dict[str, list[Forms]]:
    """Return slot type -> activities, each with its forms, e.g. ``[p_act]`` and ``[p_act:neg]``."""
    path = folder / "activities" / f"{name}.txt"
    types: dict[str, dict[str, list[str]]] = {}
    for slot, terms in _entries(read_lines(path), path).items():
        types.setdefault(re.sub(r":\w+\]$", "]", slot), {})[slot] = terms
    return {slot: _aligned(columns, path) for slot, columns in types.items()}


def _with_articles(text: str) -> str:
    """Turn "a" into "an" before a word that begins with a vowel."""
    return re.sub(r"(?<![^ ])([Aa]) (?=[aeiouAEIOU])", r"\1n ", text)


def _fill(template: str, number: int, subject: Forms) -> tuple[str, str]:
    """Put a subject into its slot; return the text and the form that was used."""
    for slot, form in subject.items():
        marked = slot.replace("[subj", f"[subj{number}")
        if marked in template:
            return template.replace(marked, form), form
    raise UserError(f"the template {template!r} has no slot for subject {number}")


def word_list_files(folder: Path) -> list[Path]:
    """Return the word lists that the categories read."""
    files = []
    for category in CATEGORIES:
        files += [folder / "nouns" / "subjects" / f"{name}.txt" for name in category.subjects]
        files.append(folder / "activities" / f"{category.activities}.txt")
        files.append(folder / "slots" / f"{category.slots}.txt")
    for path in files:
        read_lines(path)
    return files


class Generator:
    """The instances of one category."""

    def __init__(self, folder: Path, category: WordLists) -> None:
        self.name = category.name
        lists = [read_subjects(folder, name) for name in category.subjects]
        both = combinations(lists[0], 2) if len(lists) == 1 else product(*lists)
        self.pairs = list(both)
        path = folder / "slots" / f"{category.slots}.txt"
        self.templates = read_lines(path)
        activities = read_activities(folder, category.activities)
        # A template takes the activities whose slot, or its negated form, it contains.
        self.fitting = [
            [
                activity
                for slot, rows in activities.items()
                if slot in template or f"{slot[:-1]}:" in template
                for activity in rows
            ]
            for template in self.templates
        ]

    @property
    def per_pair(self) -> int:
        """The number of instances of one ordered pair of subjects."""
        return sum(map(len, self.fitting))

    def make(self, first: Forms, second: Forms, number: int) -> Instance:
        """Return instance ``number`` (below ``per_pair``) of two subjects in this order."""
        index = 0
        while number >= len(self.fitting[index]):
            number -= len(self.fitting[index])
            index += 1
        rows = self.fitting[index]
        text = self.templates[index]
        for slot, words in rows[number].items():
            text = text.replace(slot, words)
        text, one = _fill(text, 1, first)
        text, two = _fill(text, 2, second)
        context, question, negated = _with_articles(text).split("\t")
        activity = next(iter(rows[number].values()))
        return Instance(context, (one, two), (question, negated), activity)

    def instances(self) -> Iterator[Instance]:
        """Yield all instances of the unflipped pairs, in UnQover's order."""
        for first, second in self.pairs:
            for number in range(self.per_pair):
                yield self.make(first, second, number)


def option_order(example_id: int | str) -> tuple[int, ...]:
    """Return one of the six orders of (first, second, unknown), a hash of the id."""
    value = hashlib.sha256(f"unqover/{example_id}".encode()).digest()[:8]
    return ORDERS[int.from_bytes(value) % len(ORDERS)]


def _item(example_id: int | str, category: str, instance: Instance, negated: int) -> UnqoverItem:
    texts = (*instance.people, UNKNOWN)
    one, two, three = (texts[k] for k in option_order(example_id))
    place = (one, two, three).index(UNKNOWN)
    asked = instance.context, instance.questions[negated]
    return UnqoverItem(str(example_id), category, *asked, one, two, three, place, place)


def head_items(folder: Path) -> Iterator[UnqoverItem]:
    """Yield CAL's 40,008 questions from the word lists in ``folder``, in the order of their ids.

    Ids, contexts, questions and answer sets are CAL's; its random option order is not
    recoverable, so ours is ``option_order``.
    """
    for number, category in enumerate(CATEGORIES):
        instances = islice(Generator(folder, category).instances(), HEAD_INSTANCES)
        for k, instance in enumerate(instances):
            for negated in (0, 1):
                example_id = 2 * HEAD_INSTANCES * number + 2 * k + negated
                yield _item(example_id, category.name, instance, negated)


def balanced_items(
    folder: Path, blocks: int = BALANCED_BLOCKS, seed: int = 0
) -> Iterator[tuple[UnqoverItem, dict[str, Any]]]:
    """Yield ``blocks`` complete blocks of four questions per category, drawn without repetition.

    A block is one pair of subjects, template and activity in both subject orders, each with
    the attribute and its negation. With each question come further fields of its record:
    ``block`` (text), ``flipped`` and ``negated`` (0 or 1), ``activity``, ``x1`` and ``x2`` (the
    unflipped subjects) and the ``cluster``.
    """
    for category in CATEGORIES:
        generator = Generator(folder, category)
        total = len(generator.pairs) * generator.per_pair
        draw = random.Random(f"{seed}/{category.name}")
        for index in sorted(draw.sample(range(total), min(blocks, total))):
            pair, number = divmod(index, generator.per_pair)
            first, second = generator.pairs[pair]
            straight = generator.make(first, second, number)
            block, people = f"{category.name}-{index}", straight.people
            cluster = [category.name, *sorted(people), straight.activity]
            for flipped, negated in product((0, 1), repeat=2):
                instance = generator.make(second, first, number) if flipped else straight
                item = _item(f"{block}-{flipped}{negated}", category.name, instance, negated)
                places = {f"x{k}_idx": item.answers.index(x) for k, x in enumerate(people, 1)}
                head = {"block": block, "flipped": flipped, "negated": negated}
                head |= {"activity": straight.activity, "x1": people[0], "x2": people[1]}
                yield item, {**head, **places, "cluster": " | ".join(cluster)}
