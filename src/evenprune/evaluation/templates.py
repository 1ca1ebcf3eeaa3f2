"""Chat templates: programs in a tokenizer's files that may fail, or drop what they are given."""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from ..base.errors import UserError

PROBES = ("What the first one asks.", "Another question.")


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


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


class Distinct:
    """Notices a template that shows two different contents as the same text.

    Contents that differ in white space alone count as one: templates may trim it.
    """

    def __init__(self) -> None:
        self._shown: dict[bytes, bytes] = {}

    def add(self, content: str, rendered: str) -> None:
        """Note what became of a content; raise UserError if another one became the same."""
        own = _key(" ".join(content.split()))
        if self._shown.setdefault(_key(rendered), own) != own:
            raise UserError(
                "the chat template gives two different questions the same prompt, so it drops "
                "what is asked; repair it in the tokenizer's files or do without "
                "(chat_template: false)"
            )


def user_turn(tokenizer: Any, content: str) -> str:
    """Return a user turn with the head of an answer turn behind it, as text."""
    turns = [{"role": "user", "content": content}]
    return tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)


def user_turns(tokenizer: Any, contents: Sequence[str]) -> list[str]:
    """Return each content as a user turn; see ``user_turn``.

    Raises UserError for a tokenizer without a template, and for a template that fails or gives
    two contents the same text. Two probes are rendered along, so that one content is enough.
    """
    if not tokenizer.chat_template:
        raise UserError(
            "a chat template was asked for, but this tokenizer has none; leave --chat-template out "
            "(in the configuration chat_template: false, or auto)"
        )
    distinct = Distinct()
    with template_errors("this tokenizer"):
        shown = [user_turn(tokenizer, content) for content in (*PROBES, *contents)]
    for content, rendered in zip((*PROBES, *contents), shown):
        distinct.add(content, rendered)
    return shown[len(PROBES) :]
