"""Chat templates: programs in a tokenizer's files that may fail, or drop what they are given."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from ..io.errors import UserError

LONG = "A long question. " * 50
PROBES = (f"{LONG}What the first one asks.", f"{LONG}Another question.")


@contextlib.contextmanager
def template_errors(whose: str) -> Iterator[None]:
    """Turn whatever a chat template raises into one UserError; ``whose`` model has it."""
    try:
        yield
    except UserError:
        raise
    # A template is a program: a wrong one raises TypeError as well as jinja2's own errors.
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(
            f"the chat template of {whose} does not render a conversation ({said}); repair it in "
            "the tokenizer's files or do without (chat_template: false)"
        ) from error


def user_turns(tokenizer: Any, contents: Sequence[str]) -> list[str]:
    """Return each content as a user turn with the head of an answer turn after it, as text.

    Raises UserError for a tokenizer without a template, and for a template that fails or drops
    what is asked: two long probes that differ in few words must look different.
    """
    if not tokenizer.chat_template:
        raise UserError(
            "a chat template was asked for, but this tokenizer has none; leave --chat-template out "
            "(in the configuration chat_template: false, or auto)"
        )
    turns = [[{"role": "user", "content": text}] for text in (*PROBES, *contents)]
    with template_errors("this tokenizer"):
        shown = [
            str(tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True))
            for turn in turns
        ]
    # Two questions that become one prompt: white space alone may be trimmed by a template.
    seen: dict[str, str] = {}
    for (turn,), text in zip(turns, shown, strict=True):
        content = " ".join(turn["content"].split())
        if seen.setdefault(text, content) != content:
            raise UserError(
                "the chat template gives two different questions the same prompt, so it drops "
                "what is asked; repair it in the tokenizer's files or do without "
                "(chat_template: false)"
            )
    return shown[len(PROBES) :]
