"""What the shells complete, asked of bash itself."""

import argparse
import contextlib
import shutil
import subprocess

import pytest

from evenprune.cli import PEOPLE, main
from evenprune.cli import parsers as parsers_of_all
from evenprune.completion import script


def parsers():
    first, second = argparse.ArgumentParser(), argparse.ArgumentParser()
    first.add_argument("--colour", choices=("red", "green"))
    first.add_argument("--out")
    second.add_argument("shell", choices=("bash", "zsh"))
    return {"paint": first, "sing-song": second}


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pa"], ["paint"]),
        (["--v"], ["--version"]),
        (["paint", "--o"], ["--out"]),
        (["paint", "--colour", ""], ["red", "green"]),
        (["--quiet", "paint", "--colour", "g"], ["green"]),
        (["sing-song", "z"], ["zsh"]),
    ],
)
def test_bash_completes(words, expected, tmp_path):
    typed = " ".join(f"'{word}'" for word in ["evenprune", *words])
    asked = f"COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _evenprune; echo ${{COMPREPLY[@]}}"
    text = f"{script('bash', parsers())}\n{asked}\n"
    done = subprocess.run(["bash"], input=text, text=True, capture_output=True, cwd=tmp_path)
    assert done.stdout.split() == expected, done.stderr


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_a_file_name_with_blanks_is_one_word(tmp_path):
    (tmp_path / "my pruned model").touch()
    asked = "COMP_WORDS=(evenprune paint --out my); COMP_CWORD=3; _evenprune"
    text = f"{script('bash', parsers())}\n{asked}; printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    done = subprocess.run(["bash"], input=text, text=True, capture_output=True, cwd=tmp_path)
    assert done.stdout.splitlines() == ["my pruned model"], done.stderr


def test_nothing_asked_is_the_help(capsys):
    assert main([], PEOPLE) == 0
    assert "One model:" in capsys.readouterr().out


def test_zsh_takes_the_same():
    first, _, rest = script("zsh", parsers()).partition("\n")
    assert "bashcompinit" in first
    assert rest.partition("\n")[2] == script("bash", parsers()).partition("\n")[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["prun"], "invalid choice: 'prun'; did you mean 'prune'?"),
        (["prune", "--modle", "x"], "prune has no option --modle; did you mean '--model'?"),
        (["explain", "mian"], "invalid choice: 'mian'; did you mean 'main'?"),
        (["completion", "bahs"], "invalid choice: 'bahs'; did you mean 'bash'?"),
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
    [("2:4", "2of4"), ("50%", "u50"), ("0.5", "u50"), ("0.25", "u25"), ("1of4", "1of4")],
)
def test_a_regime_is_taken_as_people_write_it(said, regime):
    words = ["--model", "m", "--method", "sparsegpt", "--out", "o", "--regime", said]
    assert parsers_of_all()["prune"].parse_args(words).regime == regime


def test_an_option_that_does_nothing_is_refused(capsys, tmp_path):
    words = ["prune", "--model", "m", "--method", "sparsegpt", "--regime", "2of4"]
    assert main([*words, "--bias-weight", "3", "--out", str(tmp_path / "o")]) == 2
    assert "--bias-weight does nothing in the method sparsegpt" in capsys.readouterr().err


def test_the_help_is_ten_commands_on_one_screen(capsys):
    with contextlib.suppress(SystemExit):
        main(["--help"], PEOPLE)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    for name in PEOPLE:
        assert any(line.split()[:2] == ["evenprune", name] for line in lines), name
