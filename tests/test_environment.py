"""The locked environments: every package has a hash, conda's file has the locked versions."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml

LOCKS = ("core", "torch", "vllm-cpu", "vllm-cuda", "torch-cpu", "docs")


def packages(text):
    """Return the entries of a lock file, each with its lines."""
    return re.split(r"\n(?=\S)", text.strip())


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_a_hash(repo, lock):
    for entry in packages((repo / f"requirements/{lock}.lock").read_text()):
        assert re.match(r"[\w.-]+==\S+", entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


def test_every_install_checks_hashes(repo):
    """The one exception is this package itself, without its dependencies."""
    text = (repo / "Makefile").read_text() + (repo / "requirements/torch-cpu.sh").read_text()
    installs = [line for line in text.splitlines() if re.search(r"(pip|asked) install ", line)]
    assert len(installs) >= 4
    for line in installs:
        assert "--require-hashes" in line or "--no-deps --no-build-isolation -e ." in line, line


def test_direct_dependencies_are_the_locked_ones(repo):
    folder = repo / "requirements"
    torch = (folder / "torch-cpu.lock").read_text()
    for name in ("core", "vllm-cpu", "vllm-cuda", "docs"):
        lock = (folder / f"{name}.lock").read_text()
        asked = (folder / f"{name}.in").read_text()
        for package, version in re.findall(r"(?m)^([^#\s]+)==(\S+)$", asked):
            if package == "torch" and name != "vllm-cuda":
                assert f"torch=={version}+cpu " in torch
                assert f"torch=={version} " in (folder / "torch.lock").read_text()
                continue
            wanted = rf"(?m)^{re.escape(package.split('[')[0])}=={re.escape(version)} (; .*)?\\$"
            assert re.search(wanted, lock), package
    assert f"TORCH := {torch.split('==')[1].split('+')[0]}\n" in (repo / "Makefile").read_text()


def test_the_environment_of_conda_users_is_made_from_the_locks(repo):
    path = repo / "requirements/environment.py"
    spec = importlib.util.spec_from_file_location("environment", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (repo / "environment.yml").read_text()
    assert text == module.environment(), "run `python requirements/environment.py`"
    listed = yaml.safe_load(text)["dependencies"][-1]["pip"]
    both = module.locked("core", "torch"), module.locked("vllm-cuda")
    for package, version in (line.split("==") for line in listed):
        assert version in [lock[package] for lock in both if package in lock]


@pytest.mark.slow
def test_a_built_wheel_has_all_that_commands_read(repo, tmp_path):
    """Outside of a checkout: every file of the package that is no code, and the catalogue."""
    source, site, outside = tmp_path / "source", tmp_path / "site", tmp_path / "outside"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("src", "config"):
        shutil.copytree(repo / name, source / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repo / name, source / name)
    outside.mkdir()
    pip = [sys.executable, "-m", "pip", "--quiet", "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--no-build-isolation", "--target", site, source], check=True)
    wanted = {
        path.relative_to(repo / "src")
        for path in (repo / "src/evenprune").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {path for path in wanted if (site / path).is_file()} == wanted != set()
    assert not (site / "evenprune_world").exists()
    assert (site / "evenprune/shipped/config/catalogue.yaml").is_file()
    code = "from evenprune.config.config import default_config as d; print(*d().models)"
    asked = {"cwd": outside, "env": os.environ | {"PYTHONPATH": str(site)}, "text": True}
    said = subprocess.check_output([sys.executable, "-c", code], **asked)
    assert "smollm2-135m" in said.split()
