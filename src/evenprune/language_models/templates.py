"""Chat templates: programs in a tokenizer's files that fail, never end, or drop what is asked.

Some write the day into the conversation: to them it is always ``DAY``, so that no number depends on
when it was had.
"""

import contextlib
import multiprocessing
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import patch

from ..io.errors import UserError

PROBE = "A long question. " * 50 + "What it asks."
# Of the process that renders: seconds, conversations in a further one, bytes beyond ours.
SECONDS, EACH, MEMORY = 10, 100, 1 << 30
DAY = datetime(2024, 7, 26)  # which Llama's templates write where they see no clock
REMEDY = "repair it in the tokenizer's files or do without (chat_template: false)"


@contextlib.contextmanager
def template_errors(whose: str) -> Iterator[None]:
    """Turn whatever a chat template raises into one UserError; ``whose`` model has it.

    Inside it is ``DAY``. Raises UserError for a template that draws at random too.
    """
    import jinja2
    from transformers.utils import chat_template_utils

    def draw(*_: Any) -> NoReturn:
        raise UserError(
            f"the chat template of {whose} draws at random, so that no result could be had again; "
            f"{REMEDY}"
        )

    try:
        with (
            patch.object(chat_template_utils, "datetime", SimpleNamespace(now=lambda: DAY)),
            patch.object(jinja2.filters, "random", SimpleNamespace(choice=draw)),
            patch.object(jinja2.utils, "randrange", draw),
        ):
            yield
    except UserError:
        raise
    # A template is a program: a wrong one raises TypeError as well as jinja2's own errors.
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(
            f"the chat template of {whose} does not render a conversation ({said}); {REMEDY}"
        ) from error


def bounded(render: Callable[[], list[str]], count: int) -> list[str]:
    """Return what ``render`` makes of ``count`` conversations, in a process that cannot run on.

    Raises UserError for a template that fails or takes too long or too much memory.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def work() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        for name, most in (
            (resource.RLIMIT_CPU, SECONDS + count // EACH),
            (resource.RLIMIT_AS, pages * resource.getpagesize() + MEMORY),
            (resource.RLIMIT_CORE, 0),
        ):
            hard = resource.getrlimit(name)[1]
            resource.setrlimit(name, (most if hard < 0 else min(most, hard), hard))
        try:
            with template_errors("this tokenizer"):  # unless it is said whose
                theirs.send(render())
        except UserError as error:
            theirs.send(error)

    child = context.Process(target=work)
    child.start()
    theirs.close()
    try:
        found: list[str] | UserError = ours.recv()
    except (EOFError, OSError):  # it was killed
        raise UserError(
            f"the chat template of this tokenizer does not come to an end; {REMEDY}"
        ) from None
    finally:
        child.join()
    if isinstance(found, UserError):
        raise found
    return found


def require_whole(turns: Sequence[Mapping[str, Any]], text: str) -> None:
    """Raise UserError unless a rendered conversation has all that the user says, but for blanks."""
    shown = " ".join(text.split())
    for turn in turns:
        if turn["role"] == "user" and " ".join(str(turn["content"]).split()) not in shown:
            raise UserError(
                f"the chat template of this tokenizer drops or changes what is asked; {REMEDY}"
            )


def user_turns(tokenizer: Any, contents: Sequence[str]) -> list[str]:
    """Return each content as a user turn with the head of an answer turn after it, as text.

    Raises UserError for a tokenizer without a template, and for a template that fails, does not
    end or drops what is asked.
    """
    if not tokenizer.chat_template:
        raise UserError(
            "a chat template was asked for, but this tokenizer has none; leave --chat-template out "
            "(in the configuration chat_template: false, or auto)"
        )
    turns = [[{"role": "user", "content": text}] for text in (PROBE, *contents)]

    def render() -> list[str]:
        return [
            str(tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True))
            for turn in turns
        ]

    shown = bounded(render, len(turns))
    for turn, text in zip(turns, shown, strict=True):
        require_whole(turn, text)
    return shown[1:]
