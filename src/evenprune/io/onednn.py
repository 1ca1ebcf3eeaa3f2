"""Matrix products on a CPU by oneDNN, where it is faster than what torch does by itself.

torch multiplies float32 matrices on a CPU with MKL, which runs AVX2 code on processors that are not
Intel's, also where these have AVX-512. oneDNN, which torch brings too but takes for float32 in
compiled code only, is about twice as fast there (docs/benchmarks.md). Elsewhere all is torch's own.

bfloat16 products are oneDNN's already, but it brings the weights into its own order in each call.
"""

import functools
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .errors import UserError

ONEDNN = "EVENPRUNE_ONEDNN"  # environment variable: 0 (never) or 1 (always)
# With fewer rows, or multiplications, calling oneDNN and making its code takes too long.
FEWEST_ROWS = 16
FEWEST_PRODUCTS = 1 << 21
COPIED = 512  # rows or columns of a matrix that are copied at once
TILES_PANEL = 384  # columns of a panel of products with AMX, a multiple of ``hessian.PANEL``
# Rows of a product that weights are packed for. Without a number oneDNN brings them into another
# order for each that comes, and keeps it (of 1,536 x 576 weights 2.4 MB each).
PACKED_ROWS = 1024
WIDEST = 1024  # columns of a panel's product: products of few widths need little code


@functools.cache
def is_faster() -> bool:
    """Return whether oneDNN's products are taken: the environment's word, else by the processor.

    Raises UserError for another value of ``EVENPRUNE_ONEDNN`` than 0 and 1, and for 1 where torch
    has no oneDNN.
    """
    asked = os.environ.get(ONEDNN, "")
    if asked not in ("", "0", "1"):
        raise UserError(f"{ONEDNN} must be 0 or 1, or not set, got {asked!r}")
    there = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    if asked == "1" and not there:
        raise UserError(f"{ONEDNN} is 1, but this torch has no oneDNN; unset the variable")
    return there and asked != "0" and (asked == "1" or _is_neglected_by_mkl())


def _processor() -> str:
    """Return what Linux knows of the processor, else nothing."""
    path = Path("/proc/cpuinfo")
    return path.read_text(errors="replace") if path.is_file() else ""


def _is_neglected_by_mkl() -> bool:
    """Return whether torch's other library is MKL, on a processor with AVX-512 not by Intel."""
    if not torch.backends.mkl.is_available():
        return False
    known = _processor()
    return (
        bool(known)
        and "GenuineIntel" not in known
        and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    )


@functools.cache
def _halves_avx512() -> bool:
    """Return whether this is AMD's Zen 4, which runs AVX-512 in two halves: MKL loses little there.

    What it adds up in place, and without a copy, is 1.1 to 1.9 times as fast as by `linear`.
    """
    return "cpu family\t: 25\n" in _processor()


def suits(x: Tensor, other: Tensor) -> bool:
    """Return whether a product with x (…, d) is oneDNN's: float32, on a CPU, no gradient wanted.

    ``other`` is the other matrix, (d, n) or (n, d).
    """
    return (
        x.dtype == other.dtype == torch.float32
        and x.device.type == other.device.type == "cpu"
        and x.numel() >= FEWEST_ROWS * x.shape[-1] > 0
        and x.numel() // x.shape[-1] * other.numel() >= FEWEST_PRODUCTS
        and is_faster()
        and not (torch.is_grad_enabled() and (x.requires_grad or other.requires_grad))
    )


def _copies_pay(x: Tensor, other: Tensor) -> bool:
    """Return whether `linear` is faster although it needs copies of these matrices, and its sum."""
    return suits(x, other) and (os.environ.get(ONEDNN) == "1" or not _halves_avx512())


def missing(count: int) -> int:
    """Return how many rows fill ``count`` rows up to a number that oneDNN has code for.

    It makes code for each shape that comes, which takes longer than a product and half a megabyte
    that is kept: four numbers are used between a power of two and the next.
    """
    return -count % max(FEWEST_ROWS, 1 << (count - 1).bit_length() >> 3)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x @ weight.T + bias``, (…, n), for x (…, d), weight (n, d) and bias (n,)."""
    # With a weight that is not contiguous oneDNN falls back to code a thousand times slower.
    if not (weight.is_contiguous() and suits(x, weight)):
        return nn.functional.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    count = len(rows)
    if missing(count):
        rows = nn.functional.pad(rows, (0, 0, 0, missing(count)))
    product = torch.ops.mkldnn._linear_pointwise(rows.contiguous(), weight, bias, "none", [], "")
    return product[:count].reshape(*x.shape[:-1], len(weight))


def add_gram(total: Tensor, rows: Tensor, size: int, rounded: bool = False) -> None:
    """Add ``rowsᵀ rows`` to ``total`` (d, d) in place: the upper triangle of panels of ``size``.

    rows: (t, d), contiguous, of the dtype and device of ``total``. With ``rounded`` oneDNN may
    round them to bfloat16 first, see ``rounds``; what is added up stays float32.
    """
    size = max(size, TILES_PANEL) if rounded and has_tiles() else size
    panels = [slice(start, start + size) for start in range(0, rows.shape[1], size)]
    if rounded or not _copies_pay(rows.T, rows):
        backend: Any = torch.backends.mkldnn
        before = backend.matmul.fp32_precision
        try:
            if rounded:
                backend.matmul.fp32_precision = "bf16"
            for panel in panels:
                total[panel, panel.start :].addmm_(rows[:, panel].T, rows[:, panel.start :])
        finally:
            backend.matmul.fp32_precision = before
        return
    for part in rows.split(COPIED):
        count, width = part.shape
        turned = part.new_empty(width, count + missing(count))
        turned[:, :count], turned[:, count:] = part.T, 0.0
        for panel in panels:
            for start in range(panel.start, width, WIDEST):
                wide = slice(start, start + WIDEST)
                total[panel, wide] += linear(turned[panel], turned[wide])


def product(left: Tensor, right: Tensor) -> Tensor:
    """Return ``left @ right``, (m, n), of matrices (m, k) and (k, n), contiguous or not.

    What oneDNN needs in another order is copied part by part: a Hessian's copy would be a peak.
    """
    if not _copies_pay(left, right):
        return left @ right
    found = left.new_empty(len(left), right.shape[1])
    for start in range(0, right.shape[1], COPIED):
        turned = right[:, start : start + COPIED].T.contiguous()
        for first in range(0, len(left), COPIED):
            rows = left[first : first + COPIED]
            found[first : first + COPIED, start : start + COPIED] = linear(rows, turned)
    return found


def subtract_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Subtract ``left @ right`` from ``total`` (m, n) in place."""
    if not _copies_pay(left, right):
        total.addmm_(left, right, alpha=-1)
        return
    turned = right.T.contiguous()
    for start in range(0, len(total), COPIED):
        rows = slice(start, start + COPIED)
        total[rows] -= linear(left[rows], turned)


def is_plain(values: Tensor) -> bool:
    """Return whether a tensor is its numbers, no quantised form that only looks like them."""
    return type(values.data) is Tensor


def is_linear(module: nn.Module) -> bool:
    """Return whether this is torch's own linear layer, or ours, with ordinary weights."""
    return type(module) in (nn.Linear, Linear) and is_plain(module.weight)  # type: ignore[arg-type]


class Linear(nn.Linear):
    """``nn.Linear`` with the products of this module."""

    def forward(self, input: Tensor) -> Tensor:  # torch's name
        """Return ``input @ weight.T + bias``."""
        return linear(input, self.weight, self.bias)


def speed_up(model: nn.Module) -> None:
    """Let all of a model's linear layers take the products of this module; hooks stay."""
    if is_faster():
        for module in model.modules():
            if is_linear(module):
                module.__class__ = Linear


class Packed(nn.Linear):
    """``nn.Linear`` for inference, its weight kept in oneDNN's own order, some outputs a part."""

    packed: list[Tensor]

    def parts(self) -> Iterator[tuple[int, Callable[[Tensor], Tensor]]]:
        """Yield each part's first output, and what computes the part of (..., d)."""
        first = 0
        for weight in self.packed:
            size = weight.shape[0]
            bias = None if self.bias is None else self.bias[first : first + size]
            yield first, partial(_packed_product, weight=weight, bias=bias)
            first += size

    def forward(self, input: Tensor) -> Tensor:  # torch's name
        """Return ``input @ weight.T + bias``."""
        if len(self.packed) == 1:
            return _packed_product(input, self.packed[0], self.bias)
        return torch.cat([product(input) for _, product in self.parts()], -1)

    def _apply(self, *arguments: Any, **options: Any) -> Any:
        self.packed = []  # on its way to device meta
        return super()._apply(*arguments, **options)


def _packed_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def outputs_in_parts(
    module: nn.Module, size: int
) -> Iterator[tuple[int, Callable[[Tensor], Tensor]]]:
    """Yield (first output, what computes ``size`` outputs from there) of a linear layer on a CPU.

    A packed one has its own parts; one on another device, or of another kind, is a single part.
    """
    if isinstance(module, Packed):
        yield from module.parts()
    elif isinstance(module, nn.Linear) and is_linear(module) and module.weight.is_cpu:
        weights: Any = module.weight.split(size)
        bias: Any = module.bias
        biases = [None] * len(weights) if bias is None else bias.split(size)
        for k, (weight, of) in enumerate(zip(weights, biases)):
            yield k * size, partial(linear, weight=weight, bias=of)
    else:
        yield 0, module


def has_bfloat16() -> bool:
    """Return whether the processor multiplies bfloat16 by itself; true of all that are not x86."""
    known = torch.cpu.get_capabilities()
    return known.get("architecture") != "x86_64" or bool(known.get("avx512_bf16"))


def fast_dtype(dtype: torch.dtype, device: str) -> torch.dtype:
    """Return ``dtype``, float32 for 16 bits of which ``device``, a processor, has no products."""
    halves = dtype == torch.float16 or (dtype == torch.bfloat16 and not has_bfloat16())
    return torch.float32 if device == "cpu" and halves else dtype


def _allowed() -> bool:
    return torch.backends.mkldnn.is_available() and os.environ.get(ONEDNN) != "0"


def has_tiles() -> bool:
    """Return whether the processor has AMX, on which bfloat16 products were found to be faster."""
    return bool(torch.cpu.get_capabilities().get("amx_bf16")) and _allowed()


def rounds(inputs: Tensor) -> bool:
    """Return whether sums over these inputs may be taken by products of bfloat16.

    On Zen 4 oneDNN does not round them, but adds them up in place, 5 to 10 % faster than MKL.
    """
    known = inputs.dtype == torch.bfloat16 and inputs.is_cpu
    return known and (has_tiles() or (_halves_avx512() and _allowed()))


def pack(model: nn.Module, head: nn.Module, words: int) -> None:
    """Keep the bfloat16 weights of a model on a CPU in oneDNN's order only, ``head``'s in both.

    The parts of ``head`` have ``words`` outputs; other layers are one part.

    Nothing is done with ``EVENPRUNE_ONEDNN=0``, nor where it was not tried.
    """
    tried = torch.backends.mkldnn.is_available() and torch.cpu.get_capabilities().get("avx512_bf16")
    if not tried or os.environ.get(ONEDNN) == "0":
        return
    ops: Any = torch.ops.mkldnn
    linears: list[Any] = [module for module in model.modules() if is_linear(module)]
    for module in linears:
        if (module.weight.dtype, module.weight.device.type) == (torch.bfloat16, "cpu"):
            weight = module.weight.detach()
            module.__class__ = Packed
            parts = weight.split(words) if module is head else [weight]
            module.packed = [ops._reorder_linear_weight(part, PACKED_ROWS) for part in parts]
            if module is not head:
                module.weight = nn.Parameter(weight.to("meta"), requires_grad=False)
    for parameter in model.parameters():
        # A copy: as long as one tensor lies in the file, all of it does.
        if not parameter.is_meta and is_plain(parameter):
            parameter.data = parameter.data.clone()
