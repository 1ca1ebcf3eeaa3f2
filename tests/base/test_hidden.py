"""What a step does not need is not loaded; a library that needs it gets it."""

import subprocess
import sys

from evenprune.base.hidden import hidden, unhide


def run(text):
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_command_loads_transformers_without_scikit_learn_and_leaves_it_to_be_loaded():
    assert run(
        "import sys\n"
        "from evenprune import cli\n"
        "def step(argv, commands):\n"
        "    from transformers import AutoModelForCausalLM\n"
        "    print('sklearn.base' in sys.modules, 'pandas' in sys.modules)\n"
        "    return 0\n"
        "cli._run = step\n"
        "cli.main([])\n"
        "from sklearn.metrics import f1_score\n"
        "print(f1_score([1, 0], [1, 0]))\n"
    ) == ["False", "False", "1.0"]


def test_the_harness_gets_it_while_a_command_runs():
    assert run(
        "from evenprune.base.hidden import hidden, unhide\n"
        "with hidden('sklearn'):\n"
        "    unhide('sklearn')\n"
        "    from lm_eval.api.metrics import f1_score\n"
        "    print(f1_score([(1, 1), (0, 0)]))\n"
    ) == ["1.0"]


def test_what_was_imported_before_is_neither_hidden_nor_dropped(monkeypatch):
    module = type(sys)("a_package")
    monkeypatch.setitem(sys.modules, "a_package", module)
    with hidden("a_package"):
        assert sys.modules["a_package"] is module
        unhide("a_package")
        assert sys.modules["a_package"] is module
    assert sys.modules["a_package"] is module
