"""Pruning of single matrices by each form of the column loop: time, and agreement with the CPU."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..base.errors import UserError
from ..base.progress import Progress
from ..pruning.factor import inverse_factor
from ..pruning.masks import REGIMES
from ..pruning.solver import COLUMN_LOOP, prune_columns
from ..serving.shapes import Decoder

FORMS = ("plain", "triton")
SLUGS = ("2of4", "u50")
BLOCK = 128
REPETITIONS = 3


def shapes(decoder: Decoder) -> list[tuple[int, int]]:
    """Return the distinct (inputs, stacked outputs) of a block's groups of one input."""
    of = decoder.linears()
    groups = (("q_proj", "k_proj", "v_proj"), ("o_proj",), ("gate_proj", "up_proj"), ("down_proj",))
    found = [(of[group[0]][1], sum(of[name][0] for name in group)) for group in groups]
    return sorted(set(found))


@contextmanager
def column_loop_form(form: str) -> Iterator[None]:
    """Have one form of the column loop run."""
    before = os.environ.get(COLUMN_LOOP)
    os.environ[COLUMN_LOOP] = form
    try:
        yield
    finally:
        del os.environ[COLUMN_LOOP]
        if before is not None:
            os.environ[COLUMN_LOOP] = before


def column_loops(decoder: Decoder, device: str) -> list[dict[str, Any]]:
    """Return a row for each shape and regime: seconds of each form and shares of equal masks.

    The first call, which compiles the kernel, stands by itself; then the best of three. All forms
    and the CPU start from the same weights and factor. A form that cannot run has its reason.
    """
    rows = []
    wanted = shapes(decoder)
    progress = Progress(len(wanted) * len(SLUGS), "column loops")
    for width, outputs in wanted:
        generator = torch.Generator().manual_seed(width + outputs)  # the same for every device
        x = torch.randn(2 * width, width, generator=generator).to(device)
        upper = inverse_factor(x.T @ x, 0.01).upper
        del x
        weight = torch.randn(width, outputs, generator=generator).to(device)
        for slug in SLUGS:
            row: dict[str, Any] = {"inputs": width, "outputs": outputs, "regime": slug, "forms": {}}
            with column_loop_form("plain"):
                expected = weight.to("cpu", copy=True)
                prune_columns(expected, upper.cpu(), REGIMES[slug], BLOCK, [outputs])
            for form in FORMS:
                row["forms"][form] = _timed(form, weight, upper, slug, expected == 0)
            rows.append(row)
            progress.update()
    return rows


def _timed(form: str, weight: Tensor, upper: Tensor, slug: str, zeros: Tensor) -> dict[str, Any]:
    if form == "triton" and weight.device.type != "cuda":
        return {"reason": "the kernel runs on a GPU"}
    times: list[float] = []
    with column_loop_form(form):
        for _ in range(1 + REPETITIONS):
            copy = weight.clone()
            float(copy[0, 0])  # waits for the device
            start = time.perf_counter()
            try:
                loss = prune_columns(copy, upper, REGIMES[slug], BLOCK, [weight.shape[1]])
                float(loss.sum())
            except UserError as error:  # Triton is not installed
                return {"reason": str(error)}
            times.append(time.perf_counter() - start)
    return {
        "first_seconds": times[0],
        "seconds": min(times[1:]),
        "equal_to_cpu": float(((copy.cpu() == 0) == zeros).float().mean()),
    }
