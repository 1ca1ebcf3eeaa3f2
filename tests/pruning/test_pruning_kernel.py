"""The Triton column loop against the plain one and the float64 reference.

Without a GPU Triton's interpreter runs the kernel. It counts only if TRITON_INTERPRET is set
before Triton is imported, so one test runs this file again in a process of its own.
"""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
import reference
import torch

from evenprune.config.facts import REGIMES
from evenprune.methods import find, solver
from evenprune.methods.options import Options

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
HAS_TRITON = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(
    not HAS_TRITON, reason="Triton is not installed (the CPU environment has none)"
)
runs_kernel = pytest.mark.skipif(
    not HAS_TRITON or (DEVICE == "cpu" and not INTERPRETED),
    reason="needs Triton and a GPU, or TRITON_INTERPRET=1 (test_in_the_interpreter sets it)",
)
regimes = pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES)

COMPILE = """
import sys
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from evenprune.methods.kernel import _columns

kinds = dict.fromkeys(("block", "factor", "inverse", "error"), "*fp32") | {"mask": "*i1"}
kinds |= dict.fromkeys(("size", "rows", "factor_row", "factor_column"), "i32")
for zeros in (0, 2):
    constants = {"ZEROS": zeros, "OF": 4, "SIZE": 128, "GROUP": 16, "ROWS": 32}
    signature = {name: kinds.get(name, "constexpr") for name in _columns.arg_names}
    source = ASTSource(_columns, signature, constants)
    binary = compile(source, target=GPUTarget("cuda", int(sys.argv[1]), 32))
    assert binary.asm["cubin"]
    print(binary.asm["ptx"])
"""


def matrix(seed, rows, columns):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def hessian(seed, width, dead=()):
    x = matrix(seed, width, 2 * width)
    x[list(dead)] = 0.0
    return x @ x.T


def both(monkeypatch, weights, h, regime, block_size):
    """Return the results of the plain loop and of the kernel: [(pruned, report)] each."""
    weights, h = [weight.to(DEVICE) for weight in weights], h.to(DEVICE)
    results = []
    for form in ("plain", "triton"):
        monkeypatch.setenv(solver.COLUMN_LOOP, form)
        options = Options("sparsegpt", regime.slug, block_size=block_size)
        pairs = find("sparsegpt").prune(weights, h, regime, options, ["layer"])
        results.append([(pruned.cpu(), report) for pruned, report in pairs])
    return results


def assert_same(one, two):
    """Masks equal in 99.9 %, values of the rows with equal masks to 1e-5."""
    same = (one == 0) == (two == 0)
    assert same.float().mean() >= 0.999
    rows = same.all(dim=1)
    assert rows.float().mean() >= 0.9
    torch.testing.assert_close(one[rows], two[rows], rtol=1e-5, atol=1e-5 * float(one.abs().max()))


@needs_triton
@pytest.mark.skipif(DEVICE == "cuda" or INTERPRETED, reason="the kernel runs in this process")
@pytest.mark.slow
def test_in_the_interpreter():
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", __file__]
    command += ["-k", "not compiles and not interpreter"]
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]
    assert "SKIPPED" not in done.stdout


@runs_kernel
@regimes
@pytest.mark.parametrize(
    ("heights", "width", "block_size"),
    # Odd numbers of rows, stacked matrices, a last block that is shorter, one of several
    # launches, one whose last group of columns is shorter, a matrix smaller than any tile, a last
    # block of one group.
    [
        ((33,), 64, 128),
        ((7, 30), 168, 64),
        ((5,), 300, 256),
        ((1, 40), 56, 20),
        ((2,), 8, 128),
        ((65, 31), 132, 128),
    ],
)
def test_kernel_equals_plain_loop_and_reference(monkeypatch, regime, heights, width, block_size):
    weight, h = matrix(1, sum(heights), width), hessian(2, width, dead=(3, width - 1))
    parts = weight.split(heights)
    plain, kernel = both(monkeypatch, parts, h, regime, block_size)
    for part, one, two in zip(parts, plain, kernel, strict=True):
        assert_same(one[0], two[0])
        assert two[1].loss == pytest.approx(one[1].loss, rel=1e-5)
        assert two[1].dead_columns == 2
        expected = reference.prune(
            part.double().numpy(), h.double().numpy(), "sparsegpt", regime.slug, block=block_size
        )
        assert ((two[0].numpy() == 0) == (expected == 0)).mean() >= 0.999
        distance = np.linalg.norm(two[0].numpy() - expected) / np.linalg.norm(expected)
        assert distance < 1e-3
        assert not ((two[0] == 0) & two[0].signbit()).any()


@runs_kernel
@regimes
def test_equal_scores_go_by_position(monkeypatch, regime):
    """Few distinct weights and a diagonal Hessian: exact arithmetic full of ties."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randint(-2, 3, (37, 48), generator=generator).float()
    plain, kernel = both(monkeypatch, [weight], torch.eye(48), regime, 32)
    assert torch.equal(plain[0][0], kernel[0][0])


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize("capability", ["80", "90"])
def test_kernel_compiles_for_gpus_that_are_not_here(capability, repo, tmp_path):
    environment = {name: text for name, text in os.environ.items() if name != "TRITON_INTERPRET"}
    paths = [str(repo / "src"), os.environ.get("PYTHONPATH", "")]
    environment |= {"PYTHONPATH": os.pathsep.join(paths), "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", COMPILE, capability]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.count(f".target sm_{capability}") == 2
    assert "fma.rn.f32" in done.stdout
    assert "mma.sync" not in done.stdout  # no TF32
