"""Fixtures shared by all tests."""

import os
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import settings
from tqdm import tqdm

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# tqdm's own lock is one for all processes forked from this one: a child killed while it holds it
# would stop all others for ever.
tqdm.set_lock(threading.RLock())
os.register_at_fork(after_in_child=lambda: tqdm.set_lock(threading.RLock()))

REPO = Path(__file__).resolve().parents[1]

# How long an example takes says how busy the machine is.
settings.register_profile("untimed", deadline=None, max_examples=30)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def repo() -> Path:
    return REPO


@pytest.fixture(scope="session")
def shared() -> Path:
    """A mirror of the real data sets and small models beside the checkout, if there is one."""
    folder = Path(os.environ.get("EVENPRUNE_MIRROR", REPO.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(
            f"no mirror of the real data sets at {folder} (set EVENPRUNE_MIRROR to use one)"
        )
    return folder


@pytest.fixture(scope="session")
def prunable(tmp_path_factory) -> Path:
    """A random Llama of three blocks in one file, its head untied."""
    from pruning_models import save_model

    return save_model(tmp_path_factory.mktemp("prunable"), "llama2", num_hidden_layers=3)


@pytest.fixture
def base(prunable, tmp_path) -> Path:
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(prunable, tmp_path / "base"))


@pytest.fixture(scope="session")
def pairs(tmp_path_factory) -> Path:
    from pruning_models import random_pairs, write_rows

    return write_rows(tmp_path_factory.mktemp("pairs") / "pairs.jsonl", random_pairs(12))


@pytest.fixture(scope="session")
def checkpoint(prunable, pairs, tmp_path_factory) -> Path:
    """The random Llama pruned by debias-sparsegpt, 2:4, in four files."""
    from pruning_models import prune_command

    from evenprune.cli import main

    folder = tmp_path_factory.mktemp("checkpoint") / "out"
    assert main(prune_command(prunable, folder, pairs)) == 0
    return folder


@pytest.fixture
def torch_products(monkeypatch):
    """Products and factors of torch's own library, as on the fake GPU: bytes can be compared."""
    from evenprune.io import onednn
    from evenprune.methods import factor

    monkeypatch.setattr(factor, "LEAF", 1 << 20)
    monkeypatch.setenv(onednn.ONEDNN, "0")
    onednn.is_faster.cache_clear()
    yield
    onednn.is_faster.cache_clear()


@pytest.fixture(scope="session")
def vllm_python() -> str:
    """The interpreter of an environment with vLLM, if there is one."""
    from evenprune.serving.environment import built_environment

    python = os.environ.get("EVENPRUNE_VLLM_PYTHON") or built_environment([REPO])
    if not python:
        pytest.skip("no vLLM environment (run `make vllm-env`, or set EVENPRUNE_VLLM_PYTHON)")
    return str(python)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With --dist loadscope: tests of a file that makes something once for all of them stay in one
    process, others go out one by one. (xdist_group has no effect with pytest 9.2 and xdist 3.8.)"""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class BySharing(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            return file if 'scope="module"' in (REPO / file).read_text() else nodeid

    return BySharing(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    import importlib.util

    # The longest first, so that no process is left alone with one of them at the end.
    items.sort(key=lambda item: not {"workflow", "reliability"} & set(item.path.parts))
    gpu = False
    if any("gpu" in item.keywords for item in items) and importlib.util.find_spec("torch"):
        import torch

        gpu = torch.cuda.is_available()
    for item in items:
        if "gpu" in item.keywords and not gpu:
            item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))


def pytest_terminal_summary(terminalreporter):
    """Write the names of skipped tests into the file EVENPRUNE_SKIPPED, for .ci/run to call."""
    if file := os.environ.get("EVENPRUNE_SKIPPED"):
        names = {report.nodeid for report in terminalreporter.stats.get("skipped", [])}
        Path(file).write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")
