"""Bad arguments are one sentence and exit status 2; signals, streams. Files: tests/reliability."""

import contextlib
import os
import shutil
import subprocess
import sys

import argcomplete
import pytest
from both import refused
from evaluation_fixtures import checkpoint_command, save_model
from pruning_models import prune_command, random_pairs, write_rows

from evenprune.cli import main, parsers
from evenprune.io.errors import UserError


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """Good inputs of prune and evaluate-checkpoint in one folder."""
    root = tmp_path_factory.mktemp("ground")
    save_model(root / "model")
    write_rows(root / "pairs.jsonl", random_pairs(4))
    return root


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("[" * 100_000, "recursion limit exceeded"),
        ("\udcff", "arguments in UTF-8"),
        ("[]", "must be a JSON object"),
    ],
)
def test_json_and_text_in_arguments(argument, message, ground, capsys):
    argv = checkpoint_command(ground / "model", ground / "out", argument)
    refused(capsys, argv, message)
    assert not (ground / "out").exists()


def test_a_path_of_the_user_that_cannot_be_used_is_one_sentence(ground, tmp_path, capsys):
    long = tmp_path / ("x" * 300)
    refused(capsys, prune_command(ground / "model", "x", long), "file name too long")
    argv = ["check", f"--model={long}", f"--base={long}", f"--out={tmp_path}/a"]
    refused(capsys, argv, "file name too long")


# A process of its own, in which the line takes the place of a command.
STAND_IN = """
import os, signal, sys
from evenprune import cli
from evenprune_world import shipped_world_model as step
from evenprune_world.__main__ import COMMANDS
# A shell's background jobs start with this signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
step.run = lambda args: {line}
sys.exit(cli.entry(['shipped-world-model', '--world=a', '--out=b'], COMMANDS))
"""
MUCH = "print('x' * 200000)"
AGAIN = b", then run the same command again\n"
BROKEN = b"error: could not read a file or write the output: Input/output error; check that disk"
FULL = b"error: could not write the output: No space left on device; free some space"
KILLED = "(os.kill(os.getpid(), signal.SIGINT), signal.pause())"


@pytest.mark.parametrize(
    ("line", "redirect", "status", "out", "message"),
    [
        (KILLED, "", 130, b"", b"interrupted; run the same command again to resume\n"),
        ("print('0.5 ± 0.1 →')", "", 0, b"0.5 \\xb1 0.1 \\u2192\n", b""),
        (MUCH, "> /dev/full", 2, b"", FULL + AGAIN),
        ("print('x', file=sys.stderr)", "2> /dev/full", 2, b"", b""),
        ("open('/proc/self/mem', 'rb').read(1)", "", 2, b"", BROKEN + AGAIN),
        (MUCH, "| true", 141, b"", b""),
    ],
    ids=["ctrl_c", "ascii", "full", "full_log", "broken", "closed_pipe"],
)
def test_signals_and_streams(line, redirect, status, out, message, tmp_path):
    """On a terminal that takes ASCII only."""
    (tmp_path / "step.py").write_text(STAND_IN.format(line=line))
    # An environment without buffers would hide what Python does with them when it ends.
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; '{sys.executable}' '{tmp_path}/step.py' {redirect}"],
        capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUNBUFFERED": ""},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (status, out, message)


@pytest.mark.parametrize("value", ["two", "-1"])
def test_threads_that_are_no_number(value, monkeypatch):
    from evenprune.models.loading import limit_threads

    monkeypatch.setenv("OMP_NUM_THREADS", value)
    with pytest.raises(UserError, match="expected OMP_NUM_THREADS to be a number"):
        limit_threads()


@pytest.mark.parametrize("value", ["1e38", "nan"])
def test_a_bias_weight_beyond_float32_is_named(value, ground, capsys):
    argv = prune_command(ground / "model", ground / "out", ground / "pairs.jsonl")
    refused(capsys, [*argv, f"--bias-weight={value}"], "error: --bias-weight: got")
    assert not (ground / "out").exists()


# What the shells complete, asked of bash itself; near misses


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("pru", ["prune "]),
        ("prune --ou", ["--out "]),
        ("evaluate --device ", ["cpu", "cuda"]),
        ("check --out my", [r"my\ pruned\ model "]),
    ],
)
def test_bash_completes(typed, expected, repo, tmp_path):
    """Names with blanks are one word."""
    (tmp_path / "my pruned model").touch()
    line = f"evenprune {typed}"
    asked = f"COMP_WORDS=({line}); COMP_LINE='{line}'; COMP_POINT={len(line)}; COMP_TYPE=9"
    script = argcomplete.shellcode(["evenprune"], shell="bash")
    text = (
        f'evenprune() {{ "{sys.executable}" -m evenprune "$@"; }}\n{script}\n'
        f"{asked}; _python_argcomplete evenprune; printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    )
    done = subprocess.run(["bash"], input=text, text=True, capture_output=True, cwd=tmp_path)
    assert done.stdout.splitlines() == expected, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["prun"], "invalid choice: 'prun'; did you mean 'prune'?"),
        (["prune", "--modle", "x"], "prune has no option --modle; did you mean '--model'?"),
        (["explain", "mian"], "invalid choice: 'mian'; did you mean 'main'?"),
    ],
)
def test_a_near_miss_is_one_sentence(words, said, capsys):
    with contextlib.suppress(SystemExit):  # argparse's own
        assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("said", "regime"), [("2:4", "2of4"), ("50%", "u50"), ("0.25", "u25")])
def test_a_regime_is_taken_as_people_write_it(said, regime):
    words = ["--model", "m", "--method", "sparsegpt", "--out", "o", "--regime", said]
    assert parsers()["prune"].parse_args(words).regime == regime


def test_an_option_that_does_nothing_is_refused(capsys, tmp_path):
    argv = prune_command(tmp_path, tmp_path / "o", method="sparsegpt", bias_weight=3)
    refused(capsys, argv, "--bias-weight does nothing in the method sparsegpt")
