"""Write reference/commands.md, the options of all subcommands, from the program's own parsers.

`python docs/commands.py` writes the page again.
"""

import argparse
import re

from pages import REPO, write

from evenprune.cli import PEOPLE, parsers

PAGE = REPO / "docs/reference/commands.md"
HEAD = """\
# Commands

Made from the program's parsers by `make docs`; `--help` after a command says the same. Those of
`python -m evenprune.steps` are steps of the workflow, called by its rules, and can be called alone.
Exit status: 0, or 2 and one sentence on stderr for bad input, 130 after Ctrl-C.
"""


def page() -> str:
    """Return the page of all subcommands: those for people, then the steps."""
    found = parsers()
    names = sorted(found, key=lambda name: name not in PEOPLE)
    return "\n".join([HEAD, *(section(name, found[name]) for name in names)])


def section(name: str, command: argparse.ArgumentParser) -> str:
    """Return one subcommand: what it does, how it is called, and its options as a table."""
    options = [one for one in command._actions if not isinstance(one, argparse._HelpAction)]
    program = "evenprune" if name in PEOPLE else "python -m evenprune.steps"
    call = " ".join([program, name, *(word for one in options if (word := needed(one)))])
    lines = [f"## {name}", "", "```", call, "```", "", said(command.description or ""), ""]
    if options:
        lines += ["| option | meaning |", "| --- | --- |", *map(row, options), ""]
    return "\n".join(lines)


def needed(option: argparse.Action) -> str:
    """Return an option as a call must have it, nothing where it may be left out."""
    if not option.option_strings:
        return "" if option.nargs in ("?", "*") else value(option)
    return f"{option.option_strings[-1]} {value(option)}".strip() if option.required else ""


def value(option: argparse.Action) -> str:
    """Return what stands for an option's value: its own word, its choices, or its name."""
    if option.nargs == 0:
        return ""
    if option.metavar is None and option.choices is not None:
        word = "{" + ",".join(map(str, option.choices)) + "}"
    else:
        plain = option.dest.upper() if option.option_strings else option.dest
        word = option.metavar if isinstance(option.metavar, str) else plain
    return word + {"+": " …", "*": " …"}.get(str(option.nargs), "")


def row(option: argparse.Action) -> str:
    """Return an option's line of the table."""
    names = ", ".join(option.option_strings)
    call = " ".join(word for word in (names, value(option)) if word)
    text = (option.help or "") % {**vars(option), "prog": "evenprune"}
    if option.required and option.option_strings:
        text = f"{text} (required)".strip()
    cells = (f"`{call}`", escaped(text))
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def said(description: str) -> str:
    """Return a module's docstring as Markdown: ``names`` in one pair of backquotes."""
    return escaped(description.replace("``", "`"))


def escaped(text: str) -> str:
    """Return a text whose words in angle brackets, outside of code, are no HTML."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else part.replace("<", "&lt;").replace("*", r"\*")
        for part in parts
    )


if __name__ == "__main__":
    write(PAGE, page())
