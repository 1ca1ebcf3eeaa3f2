"""``python -m evenprune.steps NAME``: one step of the workflow, as its rules call it."""

from .cli import COMMANDS, entry

if __name__ == "__main__":
    raise SystemExit(entry(None, COMMANDS))
