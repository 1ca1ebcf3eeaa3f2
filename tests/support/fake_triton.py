"""In the place of Triton: the kernel is computed by the reference.

So the code around a kernel (what is allocated, copied and launched before and behind it) runs as
it would on a GPU, in an environment that has no Triton. What a kernel computes is tested in
Triton's own interpreter, elsewhere.
"""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from fake_gpu import FakeGpuTensor

from evenprune.config.facts import RegimeFacts
from evenprune.methods import plain_loop

KERNEL = "evenprune.methods.kernel"


def columns(block, factor, inverse, mask, error, *sizes, ZEROS, OF, **tile):
    """Do what ``methods.kernel._columns`` does to values on the CPU."""
    regime = RegimeFacts("", ZEROS, OF, ZEROS > 0)
    plain_loop.prune_block(block, factor, inverse, regime, mask.clone(), error)


class Kernel:
    """A kernel: ``kernel[grid](...)`` refuses tensors that are not on the device."""

    def __init__(self, function: Any) -> None:
        self.name = function.__name__

    def __getitem__(self, grid: tuple) -> Any:
        def launch(*arguments: Any, **named: Any) -> None:
            assert all(size > 0 for size in grid)
            for value in (*arguments, *named.values()):
                if isinstance(value, torch.Tensor) and not isinstance(value, FakeGpuTensor):
                    raise ValueError(f"{self.name}: a pointer to the CPU's memory")
            given = [getattr(value, "shadow", value) for value in arguments]
            columns(*given, **named)

        return launch


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``import triton`` give this, and have our kernels imported anew with it."""
    triton, language = ModuleType("triton"), ModuleType("triton.language")
    triton.__spec__ = language.__spec__ = sys.__spec__  # so that it counts as installed
    runtime = type("runtime", (), {"interpret": False})
    vars(triton).update(
        jit=Kernel,
        language=language,
        cdiv=lambda size, step: -(-size // step),
        next_power_of_2=lambda size: 1 << (size - 1).bit_length(),
        knobs=type("knobs", (), {"runtime": runtime}),
    )
    language.constexpr = int  # type: ignore[attr-defined]  # in annotations only
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setitem(sys.modules, "triton.language", language)
    monkeypatch.delitem(sys.modules, KERNEL, raising=False)
    package, _, leaf = KERNEL.rpartition(".")
    monkeypatch.delattr(f"{package}.{leaf}", raising=False)
