"""What a step does not need is not loaded; a library that needs it gets it."""

import subprocess
import sys

import pytest

from evenprune.base.hidden import hidden, unhide
from evenprune.models.trust import trusting_folders


@pytest.mark.slow
def test_a_command_does_without_scikit_learn_and_a_library_that_needs_it_gets_it():
    text = (
        "import sys\n"
        "from evenprune import cli\n"
        "from evenprune.base.hidden import unhide\n"
        "def step(argv, commands):\n"
        "    from transformers import AutoModelForCausalLM\n"
        "    print(*(name in sys.modules for name in ('sklearn.base', 'pandas', 'scipy.stats')))\n"
        "    import evenprune.analysis.fidelity\n"
        "    unhide('sklearn')\n"
        "    from lm_eval.api.metrics import f1_score\n"
        "    print(f1_score([(1, 1), (0, 0)]))\n"
        "    return 0\n"
        "cli._run = step\n"
        "cli.main([])\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False", "False", "1.0"], done.stderr


@pytest.mark.parametrize("module", ["comparison.differences", "stats.verdicts", "stats.inference"])
def test_what_computes_with_scipy_gets_it_whoever_asks(module):
    """`evaluate --baseline` imports the tests of a comparison after its model has run."""
    text = (
        "from evenprune.base.hidden import hidden\n"
        "with hidden('scipy'):\n"
        f"    import evenprune.{module}\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_was_imported_before_is_neither_hidden_nor_dropped(monkeypatch):
    module = type(sys)("a_package")
    monkeypatch.setitem(sys.modules, "a_package", module)
    with hidden("a_package"):
        assert sys.modules["a_package"] is module
        unhide("a_package")
        assert sys.modules["a_package"] is module
    assert sys.modules["a_package"] is module


def test_a_model_whose_own_code_is_trusted_may_import_what_is_hidden(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "sklearn", raising=False)
    with hidden("sklearn"):
        with trusting_folders([]):
            assert sys.modules["sklearn"] is None
        with trusting_folders([tmp_path]):
            assert sys.modules.get("sklearn", "there") is not None
