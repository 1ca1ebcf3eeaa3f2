"""Products of 2:4 weights beside dense ones: how long each kernel takes at one shape.

For a layer and each number of tokens: microseconds of torch's dense product, of cuSPARSELt and
CUTLASS through torch's semi-structured tensors, and of the Triton kernel (up to 16 tokens), each
checked against the dense result first, and the floor that bandwidth and arithmetic set.

A layer's weights are repeated until they exceed any cache, as in a model where every layer's are
read from memory. Calls are replayed from a CUDA graph where the kernel can be captured, so that
short ones are not timed by their launches; `timing` says which.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .device import best_time
from .formulas import sparse24_bytes
from .sparse24 import compress

FORMS = ("dense", "cusparselt", "cutlass", "triton")
WORKING_SET = 512 << 20  # bytes of dense weights, several times the largest cache
TOLERANCE = 0.02  # of the largest result; 16-bit outputs of sums in float32

# What torch, Triton and the import system raise where a form does not exist here.
UNSUPPORTED = (RuntimeError, ValueError, NotImplementedError, ImportError)

Product = Callable[[Tensor], Tensor]


def random_2of4(rows: int, width: int, dtype: torch.dtype, device: str, seed: int) -> Tensor:
    """Return a random matrix (rows, width) with two zeros in each group of four inputs."""
    generator = torch.Generator(device).manual_seed(seed)
    weight = torch.randn(rows, width // 4, 4, device=device, generator=generator)
    order = torch.rand(weight.shape, device=device, generator=generator).argsort(-1)
    return weight.masked_fill(order < 2, 0.0).view(rows, width).to(dtype)


def make_product(form: str, weight: Tensor) -> Product:
    """Return x -> x times the transpose of ``weight`` in one of ``FORMS``.

    Raises what torch or Triton raise where the form does not exist for this shape and dtype.
    """
    if form == "triton":
        from .kernel24 import product

        values, metadata = compress(weight)
        return lambda x: product(x, values, metadata)
    kept = weight
    if form == "cusparselt":
        kept = torch.sparse.SparseSemiStructuredTensorCUSPARSELT.from_dense(weight)
    elif form == "cutlass":
        kept = torch.sparse.SparseSemiStructuredTensorCUTLASS.from_dense(weight)
    return lambda x: torch.nn.functional.linear(x, kept)


def floor_us(
    shape: tuple[int, int], tokens: int, bits: int, sparse: bool, bandwidth: float, rate: float
) -> float:
    """Return the least microseconds of a product: bytes over bandwidth, operations over rate.

    Weights, inputs and outputs are read or written once; 2:4 halves the operations.
    """
    rows, width = shape
    weights = sparse24_bytes(rows * width, bits) if sparse else rows * width * bits // 8
    moved = weights + tokens * (rows + width) * bits // 8
    operations = 2 * rows * width * tokens / (2 if sparse else 1)
    return 1e6 * max(moved / bandwidth, operations / rate)


def error_of(result: Tensor, expected: Tensor) -> float:
    """Return the largest difference as a share of the largest expected value."""
    return float((result.float() - expected).abs().max() / expected.abs().max())


def graph_or_loop(call: Callable[[], Any]) -> tuple[Callable[[], Any], str]:
    """Return ``call`` as the replay of a CUDA graph, or itself where it cannot be captured."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            call()
    except RuntimeError:
        torch.cuda.synchronize()
        return call, "launches"
    return graph.replay, "graph"


def time_us(products: Sequence[Product], x: Tensor, repetitions: int) -> tuple[float, str]:
    """Return the median microseconds of one product over all copies, and how it was timed."""

    def every() -> None:
        for product in products:
            product(x)

    call, timing = graph_or_loop(every)
    times = []
    for _ in range(repetitions + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(1e3 * start.elapsed_time(end) / len(products))
    return statistics.median(times[1:]), timing


def time_us_on_cpu(products: Sequence[Product], x: Tensor) -> tuple[float, str]:
    """Return the shortest time of a product, over all copies, and how it was timed."""

    def every() -> None:
        for product in products:
            product(x)

    return 1e6 * best_time(every, "cpu", 0.0) / len(products), "loop"


def measure_layer(
    shape: tuple[int, int],
    tokens: Sequence[int],
    dtype: torch.dtype,
    forms: Sequence[str],
    timer: Callable[[Sequence[Product], Tensor], tuple[float, str]],
    device: str = "cuda",
    working_set: int = WORKING_SET,
) -> dict[int, dict[str, Any]]:
    """Return {tokens: {form: {"us", "timing", "error"} or {"reason"}}} of one layer.

    A form that this shape does not have, or whose result is wrong, has a reason and no time.
    """
    rows, width = shape
    copies = max(1, working_set // (rows * width * dtype.itemsize))
    weights = [random_2of4(rows, width, dtype, device, seed) for seed in range(copies)]
    inputs = {
        count: torch.randn(
            count, width, device=device, generator=torch.Generator(device).manual_seed(count)
        ).to(dtype)
        for count in tokens
    }
    found: dict[int, dict[str, Any]] = {count: {} for count in tokens}
    for form in forms:
        try:
            products = [make_product(form, weight) for weight in weights]
        except UNSUPPORTED as error:
            reason = str(error).splitlines()[0]
            for count in tokens:
                found[count][form] = {"reason": reason}
            continue
        for count, x in inputs.items():
            expected = x.float() @ weights[0].float().T
            try:
                wrong = error_of(products[0](x), expected)
                if wrong > TOLERANCE:
                    found[count][form] = {"reason": f"wrong result, error {wrong:.3g}"}
                    continue
                us, timing = timer(products, x)
            except UNSUPPORTED as failure:
                found[count][form] = {"reason": str(failure).splitlines()[0]}
                continue
            found[count][form] = {"us": us, "timing": timing, "error": wrong}
    return found


def block_rows(
    layers: dict[str, dict[int, dict[str, Any]]], floors: dict[str, dict[int, dict[str, float]]]
) -> list[dict[str, Any]]:
    """Return a row a number of tokens: microseconds of all layers of a block and the gains.

    A form counts only where every layer has it; ``best`` takes in each layer the quickest one.
    """
    rows = []
    for count in next(iter(layers.values())):
        cells = [layer[count] for layer in layers.values()]
        total = {
            form: sum(cell[form]["us"] for cell in cells)
            for form in cells[0]
            if all("us" in cell.get(form, {}) for cell in cells)
        }
        total["best"] = sum(
            min(one["us"] for one in cell.values() if "us" in one) for cell in cells
        )
        floor = {
            name: sum(floors[layer][count][name] for layer in layers) for name in ("dense", "2of4")
        }
        rows.append(
            {
                "block": "all linear layers",
                "tokens": count,
                "us": total,
                "floor_us": floor,
                "gain": {form: total["dense"] / us for form, us in total.items()},
                "gain_bound": floor["dense"] / floor["2of4"],
            }
        )
    return rows
