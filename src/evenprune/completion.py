"""Write the completion script of a shell: commands, their options, values to choose, and files.

bash: `source <(evenprune completion bash)`; zsh: the same with zsh. What completes is argcomplete,
which asks this program itself.
"""

import argparse

SHELLS = ("bash", "zsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("shell", choices=SHELLS)


def run(args: argparse.Namespace) -> None:
    """Print the script."""
    import argcomplete

    print(argcomplete.shellcode(["evenprune"], shell=args.shell))


def complete(parser: argparse.ArgumentParser) -> None:
    """Tell the shell that asks what may follow its line, and end the program."""
    import argcomplete

    argcomplete.autocomplete(parser)
