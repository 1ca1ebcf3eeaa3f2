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
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any

from ..data.readers.unqover import UnqoverItem
from ..io.errors import UserError
from ..io.reading import read_text

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

    def files(self, folder: Path) -> list[Path]:
        """Return the files of templates, activities and subjects."""
        subjects = [folder / "nouns" / "subjects" / f"{name}.txt" for name in self.subjects]
        activities = folder / "activities" / f"{self.activities}.txt"
        return [folder / "slots" / f"{self.slots}.txt", activities, *subjects]


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
    people: tuple[str, ...]
    questions: list[str]
    activity: str


def read_lines(path: Path) -> list[str]:
    """Return a word list's lines without blank lines and comments.

    Raises UserError if the file is missing or holds nothing.
    """
    lines = map(str.strip, read_text(path, "a word list of allenai/unqover").splitlines())
    kept = [line for line in lines if line and not line.startswith("#")]
    if not kept:
        raise UserError(f"expected entries in the word list {path}, but it is empty")
    return kept


def read_forms(path: Path) -> dict[str, list[Forms]]:
    """Return slot type -> subjects or activities, each with its forms.

    Of ``[p_act]`` for example the forms ``[p_act]`` and ``[p_act:neg]``. A term is what stands
    behind the slot and any ``|``.
    """
    types: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for number, line in enumerate(read_lines(path), 1):
        slot, _, rest = line.partition(" ")
        term = rest.rpartition("|")[2].strip()
        if not slot.startswith("[") or not term:
            raise UserError(
                f"expected '[slot] term' as entry {number} of {path}, got {line!r}; mend it"
            )
        types[re.sub(r":\w+\]$", "]", slot)][slot].append(term)
    for columns in types.values():
        sizes = {len(terms) for terms in columns.values()}
        if len(sizes) > 1:
            raise UserError(f"expected as many entries of each form in {path}, got {sorted(sizes)}")
    return {
        slot: [dict(zip(columns, terms)) for terms in zip(*columns.values())]
        for slot, columns in types.items()
    }


def _fill(template: str, number: int, subject: Forms) -> tuple[str, str]:
    """Put a subject into its slot; return the text and the form that was used."""
    for slot, form in subject.items():
        marked = slot.replace("[subj", f"[subj{number}")
        if marked in template:
            return template.replace(marked, form), form
    raise UserError(f"the template {template!r} has no slot for subject {number}")


def word_list_files(folder: Path) -> list[Path]:
    """Return the word lists that the categories read; UserError for a missing or empty one."""
    files = [path for category in CATEGORIES for path in category.files(folder)]
    for path in files:
        read_lines(path)
    return files


class Generator:
    """The instances of one category, in UnQover's order."""

    def __init__(self, folder: Path, category: WordLists) -> None:
        templates, activities, *subjects = category.files(folder)
        fillings = read_forms(activities)
        lists = [next(iter(read_forms(path).values())) for path in subjects]
        self.pairs = list(combinations(lists[0], 2) if len(lists) == 1 else product(*lists))
        # A template takes the activities whose slot, or its negated form, it contains.
        self.fitting = [
            (template, activity)
            for template in read_lines(templates)
            for slot, rows in fillings.items()
            if slot in template or f"{slot[:-1]}:" in template
            for activity in rows
        ]

    def __len__(self) -> int:
        return len(self.pairs) * len(self.fitting)

    def make(self, index: int, flipped: int = 0) -> Instance:
        """Return an instance by its number; with ``flipped`` the other subject comes first."""
        pair, number = divmod(index, len(self.fitting))
        text, activity = self.fitting[number]
        for slot, words in activity.items():
            text = text.replace(slot, words)
        subjects, people = self.pairs[pair], []
        for place, subject in enumerate(subjects[::-1] if flipped else subjects, 1):
            text, form = _fill(text, place, subject)
            people.append(form)
        # "an" before a word that begins with a vowel
        text = re.sub(r"(?<![^ ])([Aa]) (?=[aeiouAEIOU])", r"\1n ", text)
        context, *questions = text.split("\t")
        return Instance(context, tuple(people), questions, next(iter(activity.values())))


def option_order(example_id: int | str) -> tuple[int, ...]:
    """Return one of the six orders of (first, second, unknown), a hash of the id."""
    value = hashlib.sha256(f"unqover/{example_id}".encode()).digest()[:8]
    return ORDERS[int.from_bytes(value) % len(ORDERS)]


def _item(example_id: int | str, category: str, instance: Instance, negated: int) -> UnqoverItem:
    texts = (*instance.people, UNKNOWN)
    one, two, three = (texts[k] for k in option_order(example_id))
    place = (one, two, three).index(UNKNOWN)
    asked = instance.context, instance.questions[negated]
    return UnqoverItem(*asked, one, two, three, place, str(example_id), category, place)


def head_items(folder: Path) -> Iterator[UnqoverItem]:
    """Yield CAL's 40,008 questions from the word lists in ``folder``, in the order of their ids.

    Ids, contexts, questions and answer sets are CAL's; its random option order is not
    recoverable, so ours is ``option_order``.
    """
    for number, category in enumerate(CATEGORIES):
        generator = Generator(folder, category)
        for k in range(min(HEAD_INSTANCES, len(generator))):
            for negated in (0, 1):
                example_id = 2 * HEAD_INSTANCES * number + 2 * k + negated
                yield _item(example_id, category.name, generator.make(k), negated)


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
        draw = random.Random(f"{seed}/{category.name}")
        for index in sorted(draw.sample(range(len(generator)), min(blocks, len(generator)))):
            straight = generator.make(index)
            block, people = f"{category.name}-{index}", straight.people
            cluster = [category.name, *sorted(people), straight.activity]
            for flipped, negated in product((0, 1), repeat=2):
                instance = generator.make(index, flipped)
                item = _item(f"{block}-{flipped}{negated}", category.name, instance, negated)
                places = {f"x{k}_idx": item.answers.index(x) for k, x in enumerate(people, 1)}
                head = {"block": block, "flipped": flipped, "negated": negated}
                head |= {"activity": straight.activity, "x1": people[0], "x2": people[1]}
                yield item, {**head, **places, "cluster": " | ".join(cluster)}
