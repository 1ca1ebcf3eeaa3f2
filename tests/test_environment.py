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
GOOD = "sha256:" + "0" * 64


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
    versions = dict(line.split("==") for line in listed)
    both = module.locked("core", "torch"), module.locked("vllm-cuda")
    assert set(versions) == {*both[0], *both[1]}
    for package, version in versions.items():
        assert version in [lock[package] for lock in both if package in lock]
    for name in ("torch", "transformers", "snakemake", "lm-eval", "vllm", "codecarbon"):
        assert name in versions


# torch-cpu.sh, with a pip that says what it is told to say


@pytest.fixture
def script(repo, tmp_path):
    folder = tmp_path / "requirements"
    folder.mkdir()
    file = folder / "torch-cpu.sh"
    file.write_text((repo / "requirements/torch-cpu.sh").read_text())
    (folder / "torch-cpu.lock").write_text(f"torch==9.9+cpu \\\n    --hash={GOOD}\n")
    return file


def fake_pip(tmp_path, body):
    file = tmp_path / "pip"
    file.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n{body}\n')
    file.chmod(0o755)
    return str(file)


def call(script, *words):
    return subprocess.run(
        ["sh", str(script), *words],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "TMPDIR": str(script.parents[1])},
    )


MISSING = "echo 'ERROR: {} torch==9.9+cpu' >&2; exit 1"
OTHER = "echo 'ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE FILE' >&2; exit 1"


@pytest.mark.parametrize(
    ("pip", "status", "said", "others"),
    [
        ("exit 0", 0, "", 0),
        # Another file than the locked one is no reason to ask elsewhere.
        (OTHER, 2, "make lock-torch", 0),
        (MISSING.format("No matching distribution found for"), 3, "", 1),
        (MISSING.format("ResolutionImpossible: see"), 3, "", 1),
        ("echo 'no space left' >&2; exit 1", 2, "no space left", 1),
    ],
)
def test_the_cpu_build_is_installed_by_its_hash_or_it_is_said_why_not(
    script, tmp_path, pip, status, said, others
):
    done = call(script, "install", fake_pip(tmp_path, pip), "index")
    assert done.returncode == status
    assert said in done.stderr
    asked = (tmp_path / "asked").read_text()
    assert "--no-deps --require-hashes -r" in asked
    assert asked.count("--index-url index") == others


@pytest.mark.parametrize("folder", ["python3.12", "python3"])
def test_make_takes_any_python_that_runs(repo, tmp_path, folder):
    """The first of 3.11 to 3.14 that answers; one that is there but does not run is passed over."""
    for name, body in (("python3.11", "exit 127"), (folder, "exit 0")):
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)
    tools = {tool: shutil.which(tool) for tool in ("sh", "make")}
    for tool, path in tools.items():
        (tmp_path / tool).symlink_to(path)
    done = subprocess.run(
        [tools["make"], "-C", repo, "-n", "env", "VENV=none"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(tmp_path), "VARIANT": "cpu"},
    )
    assert f"\n{folder} -m venv none\n" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"HOME": "{}"}, ""),
        ({}, "{}/.cache"),
        ({"HOME": "{}/none", "XDG_CACHE_HOME": "{}/mine"}, "{}/mine"),
    ],
)
def test_make_keeps_caches_in_the_folder_where_the_home_directory_cannot(
    repo, tmp_path, given, expected
):
    """Snakemake ends with a traceback where it can make no cache."""
    shutil.copy(repo / "Makefile", tmp_path)
    said = subprocess.check_output(
        ["make", "--eval=said: ; @echo $$XDG_CACHE_HOME", "said"],
        text=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]} | {key: v.format(tmp_path) for key, v in given.items()},
    )
    assert said.strip() == expected.format(tmp_path)


def test_a_python_of_a_bare_machine_is_no_link_into_its_folder(repo, tmp_path):
    """Else an environment that it makes would break with that folder."""
    folder = subprocess.check_output([repo / ".ci/bare", tmp_path / "bin"], text=True).strip()
    ask = ["python3", "-c", "import sys; print(sys.executable)"]
    python = subprocess.check_output(ask, text=True, env={"PATH": folder}).strip()
    assert os.path.isabs(python)
    assert not python.startswith(folder)


@pytest.mark.parametrize(("version", "hashes"), [("9.9", 2), ("9.10", 1)])
def test_lock_adds_the_hash_of_what_the_index_has(script, tmp_path, version, hashes):
    pip = fake_pip(tmp_path, 'for folder; do :; done; mkdir "$folder"; echo wheel >"$folder/a.whl"')
    done = call(script, "lock", pip, version)
    assert done.returncode == 0, done.stderr
    entry = (script.parent / "torch-cpu.lock").read_text()
    assert entry.startswith(f"torch=={version}+cpu \\\n")
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", entry)) == hashes
    again = call(script, "lock", pip, version)
    assert again.returncode == 0
    assert (script.parent / "torch-cpu.lock").read_text() == entry


@pytest.mark.slow
def test_a_built_wheel_has_all_that_commands_read(repo, tmp_path):
    """Outside of a checkout: every file of the package that is no code, and the catalogue."""
    source, site, outside = tmp_path / "source", tmp_path / "site", tmp_path / "outside"
    for name in ("src", "config"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(repo / name, source / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repo / name, source / name)
    outside.mkdir()
    pip = [sys.executable, "-m", "pip", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, source]
    subprocess.run(build, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run(
        [*pip, "install", "--no-deps", "--no-index", "--target", site, wheel], check=True
    )
    for package in ("evenprune", "evenprune_world"):
        wanted = {
            path.relative_to(repo / "src")
            for path in (repo / "src" / package).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert wanted, package
        assert not [str(path) for path in sorted(wanted) if not (site / path).is_file()]
    assert (site / "evenprune/shipped/config/catalogue.yaml").is_file()
    code = "from evenprune.plan.config import default_config as d; print(*d().models)"
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=outside,
        env=environment,
    )
    assert "smollm2-135m" in done.stdout.split()
