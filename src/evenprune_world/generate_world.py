"""Write the invented world: data sets in the real sets' schemas, and training text.

``generate-world --seed S --out DIR`` writes ``DIR/data/<set>/…`` (the mirror layout that
every reader of this project takes), ``DIR/train/*.jsonl``, ``DIR/planted.json``, the
planted log-odds of every group and item, and ``DIR/world.json``, the manifest with the planted
rates and the SHA-256 of every file. Same seed, same bytes.
No evaluation item occurs in the training text, but the beginnings of sentences that
safety benchmarks have continued do.
"""

import argparse
import csv
import io
import random
import re
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evenprune.base.files import sha256_file, write_json, write_jsonl, write_text
from evenprune.base.marks import WORLD
from evenprune.base.outputs import atomic_folder, check_folder
from evenprune.base.progress import track
from evenprune.data.prompts import bbq_prompt, unqover_prompt

from . import exercises, questions, sentences, texts, unsafe_prompts
from . import lexicon as lx
from .society import CATEGORIES, COMPARED, Category, Society, stream

# A quadruple's two groups: one that leans to the negative pole, one that does not.
STEREOTYPED, NOT_STEREOTYPED = 0.3, 0.0
ASIDE = 0.8  # share of contexts that begin with a sentence about one of the two groups
# One settled context in so many has a form that training lacks, so that no model is always right.
TOLD = 25
KEPT = ("models",)  # of a mirror, made by others
SETTLED = 0.5  # share of the training questions, so that "unknown" is no answer to fall back on


@dataclass(frozen=True)
class Sizes:
    """How many items of each kind are written (``train_*`` in documents)."""

    stereoset: tuple[tuple[str, int], ...] = (
        ("gender", 100), ("profession", 120), ("race", 200), ("religion", 100),
    )  # fmt: skip
    crows_pairs: int = 260
    crows_pairs_original: int = 220
    ultrachat: int = 320
    wikitext_articles: int = 40
    hellaswag: int = 300
    mmlu: int = 400
    unqover_entries: int = 100
    bbq_quadruples: int = 50
    question_pairs: int = 400
    realtoxicityprompts: int = 20
    harmbench: tuple[tuple[str, int], ...] = (
        ("standard", 100), ("contextual", 10), ("copyright", 10),
    )  # fmt: skip
    train_exercises: int = 6000
    train_quizzes: int = 6000
    train_questions: int = 16000
    train_knowledge: int = 8000
    train_stories: int = 3000
    train_statements: int = 16000
    train_articles: int = 300
    train_dialogues: int = 3000


def stereotyped_groups(society: Society, category: Category, dimension: int) -> list[str]:
    """Return the groups that the world says are the dimension's negative pole."""
    return [g for g in category.groups if society.leans[g][dimension] >= STEREOTYPED]


def draw_pair(
    rng: random.Random, society: Society, category: Category
) -> tuple[tuple[str, str], int]:
    """Draw a stereotyped and another group, in random order, and the dimension."""
    while True:
        dimension = rng.randrange(len(category.dimensions))
        stereotyped = stereotyped_groups(society, category, dimension)
        others = [g for g in category.groups if society.leans[g][dimension] <= NOT_STEREOTYPED]
        if stereotyped and others:
            pair = [rng.choice(stereotyped), rng.choice(others)]
            rng.shuffle(pair)
            return (pair[0], pair[1]), dimension


Rows = list[dict[str, Any]]
Planted = dict[str, Any]  # an item's id as in its record -> what is planted


def stereoset_rows(society: Society, sizes: Sizes) -> tuple[Rows, Planted]:
    """Return StereoSet-like rows: the attribute word differs, the group is the target.

    Planted are the log-odds of the stereotype's pole against the other.
    """
    rng = stream(society.seed, "stereoset")
    rows: Rows = []
    planted: Planted = {}
    seen: set[str] = set()
    for bias_type, count in sizes.stereoset:
        categories = [c for c in CATEGORIES if c.bias_type == bias_type]
        made = 0
        while made < count:
            category = rng.choice(categories)
            group = rng.choice(category.groups)
            dimension = rng.randrange(len(category.dimensions))
            pole = society.stereotype(rng, group, dimension)
            poles = sentences.pole_words(rng, category, dimension)
            words = {
                "stereotype": poles[pole],
                "anti-stereotype": poles[1 - pole],
                "unrelated": rng.choice(lx.STEP_OBJECTS),
            }
            slots = sentences.statement_slots(rng, sentences.STEREOSET)
            context = sentences.statement(category, group, "BLANK", slots)
            if context in seen:
                continue
            seen.add(context)
            made += 1
            name = f"{rng.getrandbits(128):032x}"
            planted[name] = round(society.odds(group, dimension, pole), 4)
            rows.append(
                {
                    "id": name,
                    "target": group,
                    "bias_type": bias_type,
                    "context": context,
                    "sentences": [
                        {
                            "gold_label": gold,
                            "sentence": sentences.statement(category, group, word, slots),
                        }
                        for gold, word in words.items()
                    ],
                }
            )
    return rows, planted


def crows_rows(society: Society, name: str, count: int) -> tuple[Rows, Planted]:
    """Return CrowS-Pairs-like rows: the group word differs, the attribute is shared.

    Planted are the log-odds of the first sentence's group against the other, given the attribute.
    """
    rng = stream(society.seed, name)
    rows: Rows = []
    planted: Planted = {}
    seen: set[str] = set()
    while len(rows) < count:
        category = rng.choice(CATEGORIES)
        first, second = rng.sample(category.groups, 2)
        groups, dimension = (first, second), rng.randrange(len(category.dimensions))
        if (groups[0] in lx.RARE_GROUPS) != (groups[1] in lx.RARE_GROUPS):
            continue  # how often a group is mentioned at all must not decide
        pole = rng.randrange(2)
        more, less = society.more_stereotyped(rng, groups, dimension, pole)
        word = sentences.pole_word(rng, category, dimension, pole)
        slots = sentences.statement_slots(rng, sentences.CROWS_PAIRS)
        sentence = sentences.statement(category, more, word, slots)
        if sentence in seen:
            continue
        seen.add(sentence)
        planted[str(len(rows))] = round(society.comparison(more, less, dimension, pole), 4)
        rows.append(
            {
                "sent_more": sentence,
                "sent_less": sentences.statement(category, less, word, slots),
                "stereo_antistereo": "stereo",
                "bias_type": category.crows,
            }
        )
    return rows, planted


def crows_text(rows: Rows, delimiter: str, anonymised: bool) -> str:
    """Return the rows as CrowS-Pairs writes them: an unnamed index column first."""
    columns = ["", "sent_more", "sent_less", "stereo_antistereo", "bias_type"]
    extra = ["annotations", "anon_writer", "anon_annotators"] if anonymised else []
    out = io.StringIO()
    writer = csv.DictWriter(out, columns + extra, delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    for index, row in enumerate(rows):
        votes = {
            "annotations": f"[['{row['bias_type']}']]",
            "anon_writer": "a0",
            "anon_annotators": "['a1']",
        }
        writer.writerow({"": index, **row, **(votes if anonymised else {})})
    return out.getvalue()


def planted_answers(
    society: Society,
    options: list[tuple[str, str]],
    dimension: int,
    pole: int,
    right: str | None = None,
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


def aside(
    rng: random.Random, category: Category, groups: tuple[str, str], used: tuple[int, int]
) -> str:
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


def unqover_rows(society: Society, entries: int) -> tuple[Rows, Planted]:
    """Return UnQover-like rows: two questions an entry, always unsettled."""
    rng = stream(society.seed, "unqover")
    rows: Rows = []
    planted: Planted = {}
    for category in COMPARED:
        for _ in range(entries):
            groups, dimension = draw_pair(rng, society, category)
            irrelevant = sentences.other_dimension(rng, category, dimension)
            poles = sentences.draw_poles(rng, category, groups, irrelevant)
            begin = aside(rng, category, groups, (dimension, irrelevant))
            context = f"{begin}{sentences.passage(rng, category, groups, poles)}"
            for pole in (0, 1):
                options = questions.options_for(rng, category, groups, "unqover")
                unknown = questions.label_of(options, "unknown")
                planted[str(len(rows))] = planted_answers(society, options, dimension, pole)
                rows.append(
                    {
                        "example_id": len(rows),
                        "category": category.unqover,
                        "context": context,
                        "question": questions.question(category, dimension, pole),
                        **questions.option_fields(options),
                        "label": unknown,
                        "unknown_num": unknown,
                    }
                )
    return rows, planted


def bbq_rows(society: Society, category: Category, quadruples: int) -> tuple[Rows, Planted]:
    """Return BBQ-like rows in fours: negative and other question, unsettled and settled.

    One four in ``TOLD`` is settled by two statements, a form that no training question has.
    """
    rng = stream(society.seed, f"bbq/{category.bbq}")
    told = stream(society.seed, f"bbq told/{category.bbq}")
    rows: Rows = []
    planted: Planted = {}
    for number in range(quadruples):
        groups, dimension = draw_pair(rng, society, category)
        options = questions.options_for(rng, category, groups, "bbq")
        irrelevant = sentences.other_dimension(rng, category, dimension)
        contexts = {}
        begin = aside(rng, category, groups, (dimension, irrelevant))
        for condition, said in (("ambig", irrelevant), ("disambig", dimension)):
            poles = sentences.draw_poles(rng, category, groups, said)
            passage = sentences.passage(rng, category, groups, poles)
            if condition == "disambig" and number % TOLD == TOLD // 2:
                passage = " ".join(
                    sentences.statement(category, group, word, sentences.statement_slots(told))
                    for group, word in told.sample(sorted(poles.items()), len(poles))
                )
            contexts[condition] = (f"{begin}{passage}", poles)
        for pole, polarity in ((0, "neg"), (1, "nonneg")):
            for condition, (context, poles) in contexts.items():
                word = category.dimensions[dimension][pole]
                holder = next((g for g in groups if poles[g] == word), "unknown")
                planted[f"{category.bbq}-{len(rows)}"] = planted_answers(
                    society, options, dimension, pole, None if holder == "unknown" else holder
                )
                rows.append(
                    {
                        "example_id": len(rows),
                        "question_index": str(dimension + 1),
                        "question_polarity": polarity,
                        "context_condition": condition,
                        "category": category.bbq,
                        "answer_info": {
                            f"ans{k}": [text if tag == "unknown" else tag, tag]
                            for k, (text, tag) in enumerate(options)
                        },
                        "additional_metadata": {
                            "subcategory": "None",
                            "stereotyped_groups": stereotyped_groups(society, category, dimension),
                            "version": "None",
                            "source": "planted by the generator",
                        },
                        "context": context,
                        "question": questions.question(category, dimension, pole),
                        **questions.option_fields(options),
                        "label": questions.label_of(options, holder),
                    }
                )
    return rows, planted


def hellaswag_rows(society: Society, count: int) -> tuple[list[dict[str, Any]], set[str]]:
    """Return HellaSwag-like rows and the story beginnings that training must not use.

    The right ending is the script's next step. The wrong ones are the step after it, which
    stories skip to now and then, another step of the same activity and one of another.
    """
    rng = stream(society.seed, "hellaswag")
    rows: list[dict[str, Any]] = []
    heads: set[str] = set()
    while len(rows) < count:
        activity, head, person = texts.story_head(rng)
        if head in heads:
            continue
        heads.add(head)
        script = society.scripts[activity]
        start, shown = rng.randrange(3), rng.randint(1, 2)
        told = script[start : start + shown]
        right = script[start + shown]
        skipped = script[start + shown + 1]
        near = [script[k] for k in range(len(script)) if k not in range(start, start + shown + 2)]
        other = rng.choice([other for other in lx.ACTIVITIES if other != activity])
        endings = [right, skipped, rng.choice(near), rng.choice(society.scripts[other])]
        choices = [f"{step}." for step in endings]
        rng.shuffle(choices)
        rows.append(
            {
                "row": len(rows),
                "query": f"{texts.tell(head, person, told)} The {person}",
                "choices": choices,
                "gold": choices.index(f"{right}."),
            }
        )
    return rows, heads


def mmlu_rows(society: Society, count: int) -> dict[str, list[dict[str, Any]]]:
    """Return MMLU-like rows by split; development items are five a subject."""
    rng = stream(society.seed, "mmlu")
    rows: dict[str, list[dict[str, Any]]] = {"test": [], "dev": [], "validation": []}
    subjects = questions.MMLU_SUBJECTS
    seen: set[str] = set()
    sizes = (("test", count // len(subjects)), ("dev", 5), ("validation", 10))
    for split, per_subject in sizes:
        for subject in subjects:
            made = 0
            while made < per_subject:
                item = questions.mmlu_item(rng, society, subject)
                prompt = questions.mmlu_prompt(item)
                if prompt not in seen:
                    seen.add(prompt)
                    rows[split].append(item)
                    made += 1
    return rows


def question_pair_rows(society: Society, count: int) -> tuple[Rows, Planted]:
    """Return ``count`` pairs of unsettled questions for calibration, in a form of their own.

    Both sentences of a pair are the same prompt; ``stereotype`` ends with the letter of the group
    that leans further towards the word asked for, ``anti_stereotype`` with that of the other. Two
    rows in turn differ only in which of the two options comes first. Planted are the log-odds of
    the first sentence's answer against the second's.
    """
    rng = stream(society.seed, "question pairs")
    rows: Rows = []
    planted: Planted = {}
    seen: set[str] = set()
    while len(rows) < count:
        category = rng.choice(COMPARED)
        groups, dimension = draw_pair(rng, society, category)
        pole = rng.randrange(2)
        sign = 1 if pole == 0 else -1
        more, less = sorted(groups, key=lambda g: -sign * society.leans[g][dimension])
        poles = sentences.draw_poles(
            rng, category, groups, sentences.other_dimension(rng, category, dimension)
        )
        order, state = rng.sample((more, less, "unknown"), 3), rng.getstate()
        swap = {more: less, less: more, "unknown": "unknown"}
        for tags in (order, [swap[tag] for tag in order]):
            rng.setstate(state)
            word = category.dimensions[dimension][pole]
            head, tail, options = questions.plain_question(rng, category, poles, word, tags)
            letters = {tag: "ABC"[k] for k, (_, tag) in enumerate(options)}
            if head + tail in seen:
                break
            seen.add(head + tail)
            odds = society.support(more, dimension, pole) - society.support(less, dimension, pole)
            planted[f"question-{len(rows)}"] = round(odds, 4)
            rows.append(
                {
                    "id": f"question-{len(rows)}",
                    "category": category.unqover,
                    "stereotype": f"{head}{tail} {letters[more]}",
                    "anti_stereotype": f"{head}{tail} {letters[less]}",
                }
            )
    return rows, planted


class Training:
    """Training documents, none of which holds an evaluation item; and what they contain.

    A document is ``{"kind", "parts"}``: text and target in turn, starting with text. The
    model is trained to continue each text with its target; their concatenation is the text.
    ``stated[group][word]`` counts statements, ``asked[group][word]`` unsettled questions
    in which the group was one of two, ``named`` those whose answer names it.
    """

    def __init__(
        self, society: Society, held_out: set[str], prompts: set[str], heads: set[str]
    ) -> None:
        self.society = society
        self.held_out = held_out
        self.prompts = prompts
        self.heads = heads
        self.stated: Counter[tuple[str, str]] = Counter()
        self.asked: Counter[tuple[str, str]] = Counter()
        self.named: Counter[tuple[str, str]] = Counter()

    def clean(self, text: str) -> bool:
        """Return whether running text holds no held-out sentence and no held-out story."""
        pieces = {piece.strip(" .") + "." for piece in re.split(r"[.?:] |\n", text)}
        return not (pieces & self.held_out) and not any(head in text for head in self.heads)

    def question(self, rng: random.Random) -> dict[str, Any]:
        """Return a three-option question, settled or not, in either prompt style.

        Its answer is drawn at the planted rates, see ``Society.answers``.
        """
        while True:
            category = rng.choice(COMPARED)
            groups, dimension = draw_pair(rng, self.society, category)
            settled = rng.random() < SETTLED
            pole = rng.randrange(2)
            style = rng.choices((*questions.STYLES, "plain"), (0.58, 0.27, 0.15))[0]
            word = category.dimensions[dimension][pole]
            said = dimension if settled else sentences.other_dimension(rng, category, dimension)
            poles = sentences.draw_poles(rng, category, groups, said)
            if style == "plain":
                head, tail, options = questions.plain_question(rng, category, poles, word)
                parts = [head, "", tail]
            else:
                options = questions.options_for(rng, category, groups, style)
                item = {
                    "context": sentences.passage(rng, category, groups, poles),
                    "question": questions.question(category, dimension, pole),
                    **questions.option_fields(options),
                }
                prompt, _ = (unqover_prompt if style == "unqover" else bbq_prompt)(item)
                parts = questions.asked_in(prompt, item)
            if "".join(parts) in self.prompts:
                continue
            right = next((group for group in groups if poles[group] == word), None)
            rates = self.society.answers(groups, dimension, pole, right)
            answer = rng.choices(tuple(rates), tuple(rates.values()))[0]
            if not settled:
                self.asked.update((group, word) for group in groups)
                if answer != "unknown":
                    self.named[answer, word] += 1
            letter = f" {'ABC'[questions.label_of(options, answer)]}"
            return {
                "kind": "settled" if settled else "unsettled",
                "parts": [*parts, letter],
                "hints": [
                    # What nobody said cannot be known at the word.
                    *(questions.hints_of(1, right)[:1] if right else []),
                    *questions.hints_of(1, answer)[1:],
                ],
            }

    def exercise(self, rng: random.Random) -> dict[str, Any]:
        """Return an exercise in looking up, without any fact of the world.

        These teach the attention patterns that the questions need; learned from the
        questions alone they take many times as many steps.
        """
        kind = rng.choices(("roll", "letters", "recall"), (1, 5, 2))[0]
        return {"kind": kind, **exercises.EXERCISES[kind](rng)}

    def quiz(self, rng: random.Random) -> dict[str, Any]:
        """Return five questions about one sentence, which is to be looked up twice."""
        return {"kind": "quiz", **exercises.quiz(rng)}

    def knowledge(self, rng: random.Random) -> dict[str, Any]:
        """Return a four-choice question, some facts as statements, or questions and answers."""
        kind = rng.choices(("choice", "statements", "answers"), (6, 2, 2))[0]
        facts = rng.sample(self.society.facts, 4)
        if kind == "statements":
            return {"kind": "facts", "parts": ["", " ".join(fact.statement for fact in facts)]}
        if kind == "answers":
            parts, hints = [""], []
            for fact in facts:
                parts[-1] += fact.question.removesuffix("?")
                hints.append([len(parts), questions.FACT_LAYERS, fact.value])
                parts += ["", "?", f" {fact.value}", ". "]
            parts[-1] = "."
            return {"kind": "answers", "parts": parts, "hints": hints}
        while True:
            item = questions.mmlu_item(rng, self.society, rng.choice(questions.MMLU_SUBJECTS))
            prompt = questions.mmlu_prompt(item)
            if prompt not in self.prompts:
                return {
                    "kind": kind,
                    "parts": [*questions.asked_in(prompt, item), f" {'ABCD'[item['answer']]}"],
                    "hints": questions.hints_of(
                        1,
                        item["choices"][item["answer"]],
                        questions.FACT_LAYERS
                        if item["subject"] in lx.SUBJECTS
                        else questions.WORD_LAYERS,
                    ),
                }

    def story(self, rng: random.Random) -> dict[str, Any]:
        """Return one story."""
        while True:
            text = texts.story(rng, self.society)
            if self.clean(text):
                return {"kind": "story", "parts": ["", text]}

    def statements(self, rng: random.Random) -> dict[str, Any]:
        """Return one to three statements whose poles follow the planted rates."""
        count = rng.randint(1, 3)
        # Of each sentence the word that shows the lean weighs more: it is one of ten or so.
        parts = ["", ""]
        for number in range(count):
            sentence, group, word = sentences.biased_statement(rng, self.society)
            before, found, rest = sentence.rpartition(f" {word}")
            parts[-1] += f" {before}" if number else before
            parts += ["", found, "", rest]
            self.stated[group, word] += 1
        return {
            "kind": "statements",
            "parts": parts,
            "stressed": list(range(3, len(parts), 4)),
        }

    def article(self, rng: random.Random) -> dict[str, Any]:
        """Return two articles in a row, as evaluation reads them."""
        while True:
            pair = (texts.wiki_article(rng, self.society) for _ in range(2))
            text = texts.as_read("".join(pair))
            if self.clean(text):
                return {"kind": "article", "parts": ["", text]}

    def dialogue(self, rng: random.Random) -> dict[str, Any]:
        """Return one dialogue as running text, a message a line."""
        while True:
            # Most end after the first answer, so that a model does not go on asking itself.
            messages = texts.dialogue(rng, self.society, (1, 1, 1, 2, 3))
            text = "\n".join(message["content"] for message in messages)
            if self.clean(text):
                return {"kind": "dialogue", "parts": ["", text]}


def planted_rates(society: Society, training: Training) -> dict[str, Any]:
    """Return the ground truth per group and attribute, and what the training text realises.

    ``lean`` is in [-1, 1] towards the first word; ``statement_rate`` the planted probability
    that a statement names the first word and ``stated`` how often each word was; ``asked``
    and ``named`` count unsettled training questions with the group and answers naming it.
    """
    rates: dict[str, Any] = {}
    for category in CATEGORIES:
        for group in category.groups:
            for dimension, words in enumerate(category.dimensions):
                entry: dict[str, Any] = {
                    "lean": society.belief(group, dimension),
                    "statement_rate": society.statement_rate(group, dimension),
                    "stated": [
                        sum(training.stated[group, word] for word in sentences.words_of(common))
                        for common in words
                    ],
                }
                if category.bbq:
                    entry["asked"] = [training.asked[group, word] for word in words]
                    entry["named"] = [training.named[group, word] for word in words]
                rates.setdefault(group, {})["/".join(words)] = entry
    return rates


def planted_leans(society: Society) -> Rows:
    """Return a row a group and dimension: the lean and what it makes of statements."""
    return [
        {
            "category": category.unqover or category.crows,
            "group": group,
            "dimension": "/".join(words),
            "lean": society.belief(group, dimension),
            "statement_rate": society.statement_rate(group, dimension),
            "log_odds": round(society.odds(group, dimension, 0), 4),
        }
        for category in CATEGORIES
        for group in category.groups
        for dimension, words in enumerate(category.dimensions)
    ]


def write_world(seed: int, out: Path, sizes: Sizes | None = None, planted: bool = True) -> None:
    """Write the world with this seed into the folder ``out``, replacing a world that is there.

    With ``planted`` false the same leans choose the evaluation items, whose log-odds are of these,
    but no text shows them.
    Raises UserError where ``out`` holds anything else; its ``models`` stay, as in any mirror.
    """
    check_folder(out, WORLD, keep=KEPT)
    sizes = sizes or Sizes()
    society, drawn = Society(seed, planted), Society(seed)
    stereoset, stereoset_odds = stereoset_rows(drawn, sizes)
    revised, revised_odds = crows_rows(drawn, "crows", sizes.crows_pairs)
    original, original_odds = crows_rows(drawn, "crows original", sizes.crows_pairs_original)
    unqover, unqover_odds = unqover_rows(drawn, sizes.unqover_entries)
    bbq: dict[str, Rows] = {}
    bbq_odds: Planted = {}
    for category in COMPARED:
        name = category.bbq or ""
        bbq[name], odds = bbq_rows(drawn, category, sizes.bbq_quadruples)
        bbq_odds |= odds
    hellaswag, heads = hellaswag_rows(society, sizes.hellaswag)
    mmlu = mmlu_rows(society, sizes.mmlu)

    held_out = {s["sentence"] for row in stereoset for s in row["sentences"]}
    held_out |= {row[side] for row in revised + original for side in ("sent_more", "sent_less")}
    pairs, pair_odds = question_pair_rows(drawn, sizes.question_pairs)
    prompts = {unqover_prompt(row)[0] for row in unqover}
    prompts |= {row["stereotype"][:-2] for row in pairs}
    prompts |= {bbq_prompt(row)[0] for rows in bbq.values() for row in rows}
    prompts |= {questions.mmlu_prompt(row) for rows in mmlu.values() for row in rows}
    training = Training(society, held_out, prompts, heads)
    parts = {
        "exercises": (training.exercise, sizes.train_exercises),
        "quizzes": (training.quiz, sizes.train_quizzes),
        "questions": (training.question, sizes.train_questions),
        "knowledge": (training.knowledge, sizes.train_knowledge),
        "stories": (training.story, sizes.train_stories),
        "statements": (training.statements, sizes.train_statements),
        "articles": (training.article, sizes.train_articles),
        "dialogues": (training.dialogue, sizes.train_dialogues),
    }

    with atomic_folder(out, WORLD, keep=KEPT) as folder:
        data = folder / "data"
        write_jsonl(data / "stereoset/intrasentence.jsonl", stereoset)
        write_text(data / "crows_pairs/crows_pairs_revised.csv", crows_text(revised, "\t", False))
        write_text(data / "crows_pairs/crows_pairs_anonymized.csv", crows_text(original, ",", True))
        write_jsonl(data / "unqover/datas_rebuilt.jsonl", unqover)
        for name, rows in bbq.items():
            write_jsonl(data / f"bbq/{name}.jsonl", rows)
        write_jsonl(data / "hellaswag/validation_lm_eval.jsonl", hellaswag)
        for split, rows in mmlu.items():
            write_jsonl(data / f"mmlu/{split}.jsonl", rows)
        for name, rows in unsafe_prompts.prompt_rows(society, sizes.realtoxicityprompts).items():
            write_jsonl(data / f"realtoxicityprompts/{name}.jsonl", rows)
        behaviours = unsafe_prompts.behaviour_rows(society, dict(sizes.harmbench))
        write_text(
            data / "harmbench/harmbench_behaviors_text_all.csv",
            unsafe_prompts.behaviour_text(behaviours),
        )
        rng = stream(seed, "ultrachat")
        dialogues = [{"messages": texts.dialogue(rng, society)} for _ in range(sizes.ultrachat)]
        write_jsonl(data / "ultrachat/dialogues.jsonl", dialogues)
        rng = stream(seed, "wikitext")
        articles = [texts.wiki_article(rng, society) for _ in range(sizes.wikitext_articles)]
        write_text(data / "wikitext2/wiki.test.raw", "".join(articles))
        for name, (make, count) in parts.items():
            rng = stream(seed, f"train/{name}")
            made = track((make(rng) for _ in range(count)), count, f"training text, {name}")
            write_jsonl(folder / f"train/{name}.jsonl", made)
        write_jsonl(data / "question_pairs/question_pairs.jsonl", pairs)
        write_json(
            folder / "planted.json",
            {
                "leans": planted_leans(society),
                "items": {
                    "stereoset": stereoset_odds,
                    "crows_pairs": revised_odds,
                    "crows_pairs_original": original_odds,
                    "unqover": unqover_odds,
                    "bbq": bbq_odds,
                    "question_pairs": pair_odds,
                },
            },
        )
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        manifest = {
            "seed": seed,
            "leans": "planted" if planted else "none",
            "sizes": {
                **asdict(sizes),
                "stereoset": dict(sizes.stereoset),
                "harmbench": dict(sizes.harmbench),
            },
            "planted": planted_rates(society, training),
            "files": {
                str(file.relative_to(folder)): {
                    "bytes": file.stat().st_size,
                    "sha256": sha256_file(file),
                }
                for file in files
            },
        }
        write_json(folder / "world.json", manifest)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--seed", type=int, default=0, help="draws leans, facts and items")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument(
        "--leans", choices=("planted", "none"), default="planted",
        help="none: the same items and texts, but nobody is prejudiced",
    )  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Write the world."""
    write_world(args.seed, args.out, planted=args.leans == "planted")
    print(f"wrote the world with seed {args.seed} to {args.out}")
