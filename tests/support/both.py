"""The commands of both packages, for tests that take any of them."""

from evenprune import cli
from evenprune_world.__main__ import COMMANDS as WORLD

COMMANDS = {**cli.COMMANDS, **WORLD}


def main(argv):
    return cli.main(argv, COMMANDS)


def refused(capsys, argv, *words):
    """Run a command that must end with status 2 and one sentence with ``words``; return stderr."""
    capsys.readouterr()
    assert main([str(word) for word in argv]) == 2
    err = capsys.readouterr().err
    said = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    assert [word for word in map(str, words) if word not in said[0]] == [], said[0]
    return err
