"""The one exception whose message is meant for the user."""


class UserError(Exception):
    """Bad input. The message is one sentence: expected, got, where, what to do next.

    The command line prints it without a traceback and exits with status 2.
    """
