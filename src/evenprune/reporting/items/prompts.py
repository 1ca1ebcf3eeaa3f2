"""Prompts as patterns, into which the page puts an item's texts: as sent, but stored once."""

import re

from ...data.prompts import STYLES
from ...data.readers.own_questions import LETTERS

# A pattern's parts: text, or the number of one of the item's fields, options behind them.
Pattern = list[str | int]
FIRST = 0xE000  # of the characters that stand for texts while a pattern is made
# As lm-eval's tasks make them (a test compares), without what tokenizer and template add.
MMLU = "The following are multiple choice questions (with answers) about {}.\n\n{}\n" + (
    "A. {}\nB. {}\nC. {}\nD. {}\nAnswer:"
)
HARNESS = {
    **{"hellaswag": ("{}", 1), "mmlu": (MMLU, 6)},
    "multiple_choice": ("{}", 1),
}
LETTERED = {"mmlu": [" A", " B", " C", " D"]}  # what is scored behind a prompt, where not options


def _signs(count: int) -> list[str]:
    return [chr(FIRST + number) for number in range(count)]


def _pattern(text: str) -> Pattern:
    parts = re.split(f"([{chr(FIRST)}-{chr(FIRST + 15)}])", text)
    return [
        ord(part) - FIRST if len(part) == 1 and FIRST <= ord(part) < FIRST + 16 else part
        for part in parts
        if part
    ]


def prompt_of(task: str, style: str | None) -> tuple[Pattern | None, list[str] | None]:
    """Return a task's prompt and what is scored behind it.

    No prompt where whole sentences are scored; None for the latter where it is each option behind a
    blank. An item with fewer options than these has the first ones.
    """
    if task in ("unqover", "bbq") and style in STYLES:
        names = ("context", "question", "ans0", "ans1", "ans2")
        prefix, candidates = STYLES[style](dict(zip(names, _signs(5), strict=True)))
        return _pattern(prefix), candidates
    if task in HARNESS:
        text, count = HARNESS[task]
        behind = LETTERED.get(task)
        if task == "multiple_choice" and style == "letters":
            behind = [f" {letter}" for letter in LETTERS]
        return _pattern(text.format(*_signs(count))), behind
    return None, None
