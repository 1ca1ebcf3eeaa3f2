"""Another environment's Python, for tests of peers that want other versions than this project."""

import os
import subprocess

import pytest

VERSION = "from importlib.metadata import version; print(version('llmcompressor'))"


def llmcompressor_python(repo, name, version, recipe):
    """Return the Python of .venv-NAME, or of EVENPRUNE_NAME_PYTHON, with that llm-compressor.

    ``version`` is the wanted one or its beginning, ``recipe`` the file whose head says how the
    environment is made. Skips the test where there is none.
    """
    variable = f"EVENPRUNE_{name.upper()}_PYTHON"
    python = os.environ.get(variable) or repo / f".venv-{name}/bin/python"
    how = f"make .venv-{name} as the head of {recipe} says, or set {variable}"
    if not os.path.exists(python):
        pytest.skip(f"no environment with llm-compressor {version} at {python}; {how}")
    found = subprocess.run([python, "-c", VERSION], capture_output=True, text=True, check=False)
    installed = found.stdout.strip() or "none"
    if not f"{installed}.".startswith(f"{version}."):
        pytest.skip(f"expected llm-compressor {version} in {python}, got {installed}; {how}")
    return python
