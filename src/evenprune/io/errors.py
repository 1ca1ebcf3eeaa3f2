"""The one exception whose message is meant for the user."""

import difflib
import re
from collections.abc import Iterable
from typing import Any

# Signs that steer a terminal, or turn the direction of what follows; a line's end is none.
_STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return text from a file as it may be printed: signs that steer a terminal are written out."""
    return _STEERING.sub(lambda match: ascii(match[0])[1:-1], text)


class UserError(Exception):
    """Bad input. The message is one sentence: expected, got, where, what to do next.

    The command line prints it without a traceback and exits with status 2.
    """

    def __str__(self) -> str:
        """Return the message; names from files steer no terminal."""
        return printable(super().__str__())


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


def few(names: Iterable[str], most: int = 10) -> str:
    """Return the first names of a list in words, and how many more there are."""
    listed = list(names)
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest} more" if rest > 0 else "")


def nearest(word: Any, allowed: Iterable[str], limit: int = 1) -> str:
    """Return "; did you mean …?" where a wrong word is near to an allowed one, else nothing.

    At most three names that begin with the word, else ``limit`` alike ones. N:M is N``of``M.
    """
    text, names = str(word).replace(":", "of"), list(dict.fromkeys(allowed))
    close = [name for name in names if text and name.startswith(text)][:3]
    close = close or difflib.get_close_matches(text, names, limit, 0.5)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
