"""What the shells complete, asked of bash itself."""

import contextlib
import shutil
import subprocess
import sys

import argcomplete
import pytest

from evenprune.cli import main, parsers


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


@pytest.mark.parametrize(
    ("said", "regime"),
    [("2:4", "2of4"), ("50%", "u50"), ("0.25", "u25")],
)
def test_a_regime_is_taken_as_people_write_it(said, regime):
    words = ["--model", "m", "--method", "sparsegpt", "--out", "o", "--regime", said]
    assert parsers()["prune"].parse_args(words).regime == regime


def test_an_option_that_does_nothing_is_refused(capsys, tmp_path):
    words = ["prune", "--model", str(tmp_path), "--method", "sparsegpt", "--regime", "2of4"]
    assert main([*words, "--bias-weight", "3", "--out", str(tmp_path / "o")]) == 2
    assert "--bias-weight does nothing in the method sparsegpt" in capsys.readouterr().err
