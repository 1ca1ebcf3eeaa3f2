"""The one exception whose message is meant for the user."""

import difflib
from collections.abc import Iterable
from typing import Any


class UserError(Exception):
    """Bad input. The message is one sentence: expected, got, where, what to do next.

    The command line prints it without a traceback and exits with status 2.
    """


class Unsupported(UserError):
    """A model that cannot be taken apart, for what its code does or its weights are.

    ``reason`` is a sentence without its end, which does not say the model's type.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; this architecture is not supported")
        self.reason = reason


def shown(value: Any, limit: int = 120) -> str:
    """Return a value as it stands in a message: texts quoted, a long one cut."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def nearest(word: Any, allowed: Iterable[str], limit: int = 1) -> str:
    """Return "; did you mean …?" where a wrong word is near to an allowed one, else nothing.

    At most three names that begin with the word, else ``limit`` alike ones. N:M is N``of``M.
    """
    text, names = str(word).replace(":", "of"), list(dict.fromkeys(allowed))
    close = [name for name in names if text and name.startswith(text)][:3]
    close = close or difflib.get_close_matches(text, names, limit, 0.5)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
