"""Write the completion script of a shell: subcommands, their options, and the values to choose.

bash: `source <(evenprune completion bash)`; zsh: the same with zsh. Files are completed where an
option takes anything else.
"""

import argparse

SHELLS = ("bash", "zsh")
_SCRIPT = """\
# Completion of evenprune, made by `evenprune completion {shell}`.
_evenprune() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command="" one
  for one in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$one" in -*) ;; *) command="$one"; break ;; esac
  done
  local words=""
  case "$command $before" in
{values}
    *) case "$command" in
      "") words="{commands}" ;;
{options}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  local IFS=$'\\n'
  [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -F _evenprune evenprune
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("shell", choices=SHELLS)


def run(args: argparse.Namespace) -> None:
    """Print the script."""
    from .cli import parsers

    print(script(args.shell, parsers()), end="")


def script(shell: str, commands: dict[str, argparse.ArgumentParser]) -> str:
    """Return the script of a shell for parsers by the names of their subcommands.

    One for bash, which zsh takes through its own ``bashcompinit``.
    """
    values, options = [], []
    for name, parser in commands.items():
        flags = []
        for action in parser._actions:  # argparse has no public list of them
            flags += [flag for flag in action.option_strings if flag.startswith("--")]
            if action.choices and action.option_strings:
                places = "|".join(f'"{name} {flag}"' for flag in action.option_strings)
                values.append(f'    {places}) words="{" ".join(map(str, action.choices))}" ;;')
            elif action.choices:
                flags += map(str, action.choices)
        options.append(f'      {name}) words="{" ".join(flags)}" ;;')
    text = _SCRIPT.format(
        shell=shell,
        commands=" ".join([*commands, "--help", "--quiet", "--version"]),
        values="\n".join(values),
        options="\n".join(options),
    )
    return f"autoload -Uz bashcompinit && bashcompinit\n{text}" if shell == "zsh" else text
