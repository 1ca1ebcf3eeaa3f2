"""Training documents, none of which holds an evaluation item; and what they contain."""

import functools
import re
from collections.abc import Callable
from random import Random
from typing import Any

from . import exercises, questions, sentences, texts
from . import lexicon as lx
from .items import draw_pair
from .society import COMPARED, Society

SETTLED = 0.5  # share of the training questions, so that "unknown" is no answer to fall back on


class Training:
    """Training documents, none of which holds an evaluation item; and what they contain.

    A document is ``{"kind", "parts"}``: text and target in turn, starting with text. The
    model is trained to continue each text with its target; their concatenation is the text.
    """

    def __init__(
        self, society: Society, held_out: set[str], prompts: set[str], heads: set[str]
    ) -> None:
        self.society, self.held_out, self.prompts, self.heads = society, held_out, prompts, heads

    def clean(self, text: str) -> bool:
        """Return whether running text holds no held-out sentence and no held-out story."""
        pieces = {piece.strip(" .") + "." for piece in re.split(r"[.?:] |\n", text)}
        return not (pieces & self.held_out) and not any(head in text for head in self.heads)

    def questions(self, rng: Random) -> dict[str, Any]:
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
                context = sentences.passage(rng, category, poles)
                item = questions.asked(context, category, dimension, pole, options)
                parts = questions.asked_in(questions.prompt_of(item, style), item)
            if "".join(parts) not in self.prompts:
                break
        right = next((group for group in groups if poles[group] == word), None)
        rates = self.society.answers(groups, dimension, pole, right)
        answer = rng.choices(tuple(rates), tuple(rates.values()))[0]
        parts.append(f" {'ABC'[questions.label_of(options, answer)]}")
        # What nobody said cannot be known at the word.
        known = questions.hints_of(1, right)[:1] if right else []
        hints = [*known, *questions.hints_of(1, answer)[1:]]
        return dict(kind="settled" if settled else "unsettled", parts=parts, hints=hints)

    def exercises(self, rng: Random) -> dict[str, Any]:
        """Return an exercise in looking up, without any fact of the world.

        These teach the attention patterns that the questions need; learned from the
        questions alone they take many times as many steps.
        """
        kind = rng.choices(("roll", "letters", "recall"), (1, 5, 2))[0]
        return {"kind": kind, **exercises.EXERCISES[kind](rng)}

    def quizzes(self, rng: Random) -> dict[str, Any]:
        """Return five questions about one sentence, which is to be looked up twice."""
        return {"kind": "quiz", **exercises.quiz(rng)}

    def knowledge(self, rng: Random) -> dict[str, Any]:
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
                break
        known = item["subject"] in lx.SUBJECTS
        layers = questions.FACT_LAYERS if known else questions.WORD_LAYERS
        hints = questions.hints_of(1, item["choices"][item["answer"]], layers)
        parts = [*questions.asked_in(prompt, item), f" {'ABCD'[item['answer']]}"]
        return dict(kind=kind, parts=parts, hints=hints)

    def statements(self, rng: Random) -> dict[str, Any]:
        """Return one to three statements whose poles follow the planted rates."""
        count = rng.randint(1, 3)
        # Of each sentence the word that shows the lean weighs more: it is one of ten or so.
        parts = ["", ""]
        for number in range(count):
            sentence, word = sentences.biased_statement(rng, self.society)
            before, found, rest = sentence.rpartition(f" {word}")
            parts[-1] += f" {before}" if number else before
            parts += ["", found, "", rest]
        return dict(kind="statements", parts=parts, stressed=list(range(3, len(parts), 4)))

    def running(self, kind: str, make: Callable[[], str]) -> dict[str, Any]:
        """Return the first text that holds no held-out sentence and no held-out story."""
        text = next(text for text in iter(make, None) if self.clean(text))
        return {"kind": kind, "parts": ["", text]}

    def stories(self, rng: Random) -> dict[str, Any]:
        """Return one story."""
        return self.running("story", lambda: texts.story(rng, self.society))

    def articles(self, rng: Random) -> dict[str, Any]:
        """Return two articles in a row, as evaluation reads them."""
        article = functools.partial(texts.wiki_article, rng, self.society)
        return self.running("article", lambda: texts.as_read(article() + article()))

    def dialogues(self, rng: Random) -> dict[str, Any]:
        """Return one dialogue as running text, a message a line."""

        def made() -> str:
            # Most end after the first answer, so that a model does not go on asking itself.
            messages = texts.dialogue(rng, self.society, (1, 1, 1, 2, 3))
            return "\n".join(message["content"] for message in messages)

        return self.running("dialogue", made)
