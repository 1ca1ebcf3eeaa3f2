"""The one exception whose message is meant for the user."""

from typing import Any


class UserError(Exception):
    """Bad input. The message is one sentence: expected, got, where, what to do next.

    The command line prints it without a traceback and exits with status 2.
    """


def shown(value: Any, limit: int = 120) -> str:
    """Return a value as it stands in a message: texts quoted, a long one cut."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
