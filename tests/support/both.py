"""The commands of both packages, for tests that take any of them."""

from evenprune import cli
from evenprune_world.__main__ import COMMANDS as WORLD

COMMANDS = {**cli.COMMANDS, **WORLD}


def main(argv):
    return cli.main(argv, COMMANDS)
