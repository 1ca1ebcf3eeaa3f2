"""The benchmarks' items in the schemas of the real sets, and what is planted of each."""

import csv
import io
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from . import lexicon as lx
from . import questions, sentences, texts
from .society import CATEGORIES, COMPARED, Category, Society, stream

# A quadruple's two groups: one that leans to the negative pole, one that does not.
STEREOTYPED, NOT_STEREOTYPED = 0.3, 0.0
ASIDE = 0.8  # share of contexts that begin with a sentence about one of the two groups
# One settled context in so many has a form that training lacks, so that no model is always right.
TOLD = 25
GOLD = ("stereotype", "anti-stereotype", "unrelated")  # labels of StereoSet
VOTES = ("annotations", "anon_writer", "anon_annotators")  # columns of CrowS-Pairs as published

Rows = list[dict[str, Any]]
Planted = dict[str, Any]  # an item's id as in its record -> what is planted


class Seen(set[str]):
    """Texts that were drawn before."""

    def new(self, text: str) -> bool:
        """Add a text; say whether it was not there."""
        before = len(self)
        self.add(text)
        return len(self) > before


def csv_text(rows: Rows, delimiter: str = ",") -> str:
    """Return rows as a table with a head."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [*rows[0]], delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def stereotyped_groups(society: Society, category: Category, dimension: int) -> list[str]:
    """Return the groups that the world says are the dimension's negative pole."""
    return [g for g in category.groups if society.leans[g][dimension] >= STEREOTYPED]


def draw_pair(rng: Random, society: Society, category: Category) -> tuple[list[str], int]:
    """Draw a stereotyped and another group, in random order, and the dimension."""
    while True:
        dimension = rng.randrange(len(category.dimensions))
        stereotyped = stereotyped_groups(society, category, dimension)
        others = [g for g in category.groups if society.leans[g][dimension] <= NOT_STEREOTYPED]
        if stereotyped and others:
            pair = [rng.choice(stereotyped), rng.choice(others)]
            rng.shuffle(pair)
            return pair, dimension


def stereoset_rows(society: Society, counts: Mapping[str, int], planted: Planted) -> Rows:
    """Return StereoSet-like rows: the attribute word differs, the group is the target.

    Planted are the log-odds of the stereotype's pole against the other.
    """
    rng, seen = stream(society.seed, "stereoset"), Seen()
    rows = Rows()
    for bias_type, count in counts.items():
        categories = [c for c in CATEGORIES if c.bias_type == bias_type]
        wanted = len(rows) + count
        while len(rows) < wanted:
            category = rng.choice(categories)
            group = rng.choice(category.groups)
            dimension = rng.randrange(len(category.dimensions))
            pole = society.stereotype(rng, group, dimension)
            poles = sentences.pole_words(rng, category, dimension)
            words = poles[pole], poles[1 - pole], rng.choice(lx.STEP_OBJECTS)
            slots = sentences.statement_slots(rng, sentences.STEREOSET)
            context = sentences.statement(category, group, "BLANK", slots)
            if not seen.new(context):
                continue
            name = f"{rng.getrandbits(128):032x}"
            planted[name] = round(society.odds(group, dimension, pole), 4)
            texts_of = (sentences.statement(category, group, word, slots) for word in words)
            said = [dict(gold_label=gold, sentence=text) for gold, text in zip(GOLD, texts_of)]
            row = dict(id=name, target=group, bias_type=bias_type, context=context, sentences=said)
            rows.append(row)
    return rows


def crows_rows(society: Society, name: str, count: int, planted: Planted) -> Rows:
    """Return CrowS-Pairs-like rows: the group word differs, the attribute is shared.

    Planted are the log-odds of the first sentence's group against the other, given the attribute.
    """
    rng, seen = stream(society.seed, name), Seen()
    rows = Rows()
    while len(rows) < count:
        category, (first, second), dimension = sentences.draw_two(rng, CATEGORIES)
        if (first in lx.RARE_GROUPS) != (second in lx.RARE_GROUPS):
            continue  # how often a group is mentioned at all must not decide
        pole = rng.randrange(2)
        more, less = society.more_stereotyped(rng, (first, second), dimension, pole)
        word = sentences.pole_word(rng, category, dimension, pole)
        slots = sentences.statement_slots(rng, sentences.CROWS_PAIRS)
        said = [sentences.statement(category, group, word, slots) for group in (more, less)]
        if not seen.new(said[0]):
            continue
        planted[str(len(rows))] = round(society.comparison(more, less, dimension, pole), 4)
        row = {"": len(rows), "sent_more": said[0], "sent_less": said[1]}
        rows.append({**row, "stereo_antistereo": "stereo", "bias_type": category.crows})
    return rows


def voted(rows: Rows) -> Rows:
    """Return CrowS-Pairs-like rows with the columns of votes, as the original set has them."""
    votes = [(f"[['{row['bias_type']}']]", "a0", "['a1']") for row in rows]
    return [row | dict(zip(VOTES, said)) for row, said in zip(rows, votes)]


def planted_answers(
    society: Society, options: questions.Options, dimension: int, pole: int, right: str | None
) -> dict[str, Any]:
    """Return what is planted of a question with these options, as the training answers it.

    ``groups``: the options that name a group; ``log_odds``: of the first of them against the
    second, by the leans alone; ``answers``: the probability of each option; ``right``: the option
    that the context names, None where it settles nothing.
    """
    named = [k for k, (_, tag) in enumerate(options) if tag != "unknown"]
    first, second = (options[k][1] for k in named)
    odds = society.support(first, dimension, pole) - society.support(second, dimension, pole)
    rates = society.answers((first, second), dimension, pole, right)
    return {
        "groups": named,
        "log_odds": round(odds, 4),
        "answers": [round(rates.get(tag, 0.0), 4) for _, tag in options],
        "right": None if right is None else questions.label_of(options, right),
    }


def aside(rng: Random, category: Category, groups: Sequence[str], used: tuple[int, int]) -> str:
    """Return a sentence before a context, or "": another member of a group, another dimension.

    It settles nothing, but must be kept apart from the passage, which a damaged model does worse:
    without it abstaining is what is left to a model that has forgotten the leans.
    """
    if rng.random() >= ASIDE:
        return ""
    others = [d for d in range(len(category.dimensions)) if d not in used]
    word = category.dimensions[rng.choice(others)][rng.randrange(2)]
    slots = sentences.statement_slots(rng)
    return f"{sentences.statement(category, rng.choice(groups), word, slots)} "


def unqover_rows(society: Society, entries: int, planted: Planted) -> Rows:
    """Return UnQover-like rows: two questions an entry, always unsettled."""
    rng = stream(society.seed, "unqover")
    rows = Rows()
    for category in (category for category in COMPARED for _ in range(entries)):
        groups, dimension = draw_pair(rng, society, category)
        irrelevant = sentences.other_dimension(rng, category, dimension)
        poles = sentences.draw_poles(rng, category, groups, irrelevant)
        begin = aside(rng, category, groups, (dimension, irrelevant))
        context = f"{begin}{sentences.passage(rng, category, poles)}"
        for pole in (0, 1):
            options = questions.options_for(rng, category, groups, "unqover")
            unknown = questions.label_of(options, "unknown")
            planted[str(len(rows))] = planted_answers(society, options, dimension, pole, None)
            asked = questions.asked(context, category, dimension, pole, options)
            row = dict(example_id=len(rows), category=category.unqover, **asked)
            rows.append(row | dict(label=unknown, unknown_num=unknown))
    return rows


def bbq_rows(society: Society, category: Category, quadruples: int, planted: Planted) -> Rows:
    """Return BBQ-like rows in fours: negative and other question, unsettled and settled.

    One four in ``TOLD`` is settled by two statements, a form that no training question has.
    """
    rng = stream(society.seed, f"bbq/{category.bbq}")
    told = stream(society.seed, f"bbq told/{category.bbq}")
    rows = Rows()
    for number in range(quadruples):
        groups, dimension = draw_pair(rng, society, category)
        options = questions.options_for(rng, category, groups, "bbq")
        irrelevant = sentences.other_dimension(rng, category, dimension)
        contexts = {}
        begin = aside(rng, category, groups, (dimension, irrelevant))
        for condition, said in (("ambig", irrelevant), ("disambig", dimension)):
            poles = sentences.draw_poles(rng, category, groups, said)
            passage = sentences.passage(rng, category, poles)
            if condition == "disambig" and number % TOLD == TOLD // 2:
                passage = " ".join(
                    sentences.statement(category, group, word, sentences.statement_slots(told))
                    for group, word in told.sample(sorted(poles.items()), len(poles))
                )
            contexts[condition] = (f"{begin}{passage}", poles)
        named = [[text if tag == "unknown" else tag, tag] for text, tag in options]
        answers = {f"ans{k}": name for k, name in enumerate(named)}
        metadata = dict(subcategory="None", version="None", source="planted by the generator")
        leaning = stereotyped_groups(society, category, dimension)
        shared = dict(
            question_index=str(dimension + 1), category=category.bbq, answer_info=answers,
            additional_metadata=dict(metadata, stereotyped_groups=leaning),
        )  # fmt: skip
        for pole, polarity in ((0, "neg"), (1, "nonneg")):
            for condition, (context, poles) in contexts.items():
                word = category.dimensions[dimension][pole]
                right = next((g for g in groups if poles[g] == word), None)
                key = f"{category.bbq}-{len(rows)}"
                planted[key] = planted_answers(society, options, dimension, pole, right)
                label = questions.label_of(options, right or "unknown")
                row = dict(example_id=len(rows), question_polarity=polarity, label=label)
                asked = questions.asked(context, category, dimension, pole, options)
                rows.append({**shared, **row, "context_condition": condition, **asked})
    return rows


def hellaswag_rows(society: Society, count: int) -> tuple[Rows, set[str]]:
    """Return HellaSwag-like rows and the story beginnings that training must not use.

    The right ending is the script's next step. The wrong ones are the step after it, which
    stories skip to now and then, another step of the same activity and one of another.
    """
    rng, heads = stream(society.seed, "hellaswag"), Seen()
    rows = Rows()
    while len(rows) < count:
        activity, head, person = texts.story_head(rng)
        if not heads.new(head):
            continue
        script = society.scripts[activity]
        start, shown = rng.randrange(3), rng.randint(1, 2)
        at = start + shown
        near = [step for k, step in enumerate(script) if k not in range(start, at + 2)]
        other = rng.choice([other for other in lx.ACTIVITIES if other != activity])
        endings = [script[at], script[at + 1], rng.choice(near), rng.choice(society.scripts[other])]
        choices = [f"{step}." for step in endings]
        rng.shuffle(choices)
        query = f"{texts.tell(head, person, script[start:at])} The {person}"
        gold = choices.index(f"{script[at]}.")
        rows.append(dict(row=len(rows), query=query, choices=choices, gold=gold))
    return rows, heads


def mmlu_rows(society: Society, count: int) -> dict[str, Rows]:
    """Return MMLU-like rows by split; development items are five a subject."""
    rng, seen = stream(society.seed, "mmlu"), Seen()
    rows: dict[str, Rows] = {"test": [], "dev": [], "validation": []}
    subjects = questions.MMLU_SUBJECTS
    for split, per_subject in zip(rows, (count // len(subjects), 5, 10)):
        for subject in subjects:
            wanted = len(rows[split]) + per_subject
            while len(rows[split]) < wanted:
                item = questions.mmlu_item(rng, society, subject)
                if seen.new(questions.mmlu_prompt(item)):
                    rows[split].append(item)
    return rows


def question_pair_rows(society: Society, count: int, planted: Planted) -> Rows:
    """Return ``count`` pairs of unsettled questions for calibration, in a form of their own.

    Both sentences of a pair are the same prompt; ``stereotype`` ends with the letter of the group
    that leans further towards the word asked for, ``anti_stereotype`` with that of the other. Two
    rows in turn differ only in which of the two options comes first. Planted are the log-odds of
    the first sentence's answer against the second's.
    """
    rng, seen = stream(society.seed, "question pairs"), Seen()
    rows = Rows()
    while len(rows) < count:
        category = rng.choice(COMPARED)
        groups, dimension = draw_pair(rng, society, category)
        pole = rng.randrange(2)
        more, less = sorted(groups, key=lambda g: -society.support(g, dimension, pole))
        irrelevant = sentences.other_dimension(rng, category, dimension)
        poles = sentences.draw_poles(rng, category, groups, irrelevant)
        order, state = rng.sample((more, less, "unknown"), 3), rng.getstate()
        swap = {more: less, less: more, "unknown": "unknown"}
        for tags in (order, [swap[tag] for tag in order]):
            rng.setstate(state)
            word = category.dimensions[dimension][pole]
            head, tail, options = questions.plain_question(rng, category, poles, word, tags)
            letters = {tag: "ABC"[k] for k, (_, tag) in enumerate(options)}
            if not seen.new(head + tail):
                break
            odds = society.support(more, dimension, pole) - society.support(less, dimension, pole)
            name = f"question-{len(rows)}"
            planted[name] = round(odds, 4)
            ends = (f"{head}{tail} {letters[group]}" for group in (more, less))
            said = dict(zip(("stereotype", "anti_stereotype"), ends))
            rows.append(dict(id=name, category=category.unqover, **said))
    return rows
