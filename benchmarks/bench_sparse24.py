"""Products of 2:4 weights beside dense ones at the shapes of Qwen2.5-7B, run by hand on a GPU.

    PYTHONPATH=src python benchmarks/bench_sparse24.py --out sparse24.jsonl

Needs torch with CUDA and compute capability 8.0 or more, nothing else; Triton's kernel is left out
where Triton is not installed. For each linear layer of a block and each number of tokens:
microseconds of torch's dense product, of cuSPARSELt and CUTLASS through torch's semi-structured
tensors, and of the Triton kernel (up to 16 tokens), each checked against the dense result first,
and the floor that the device's own bandwidth and arithmetic set for dense and for 2:4 weights.

A layer's weights are repeated until they exceed any cache, as in a model where every layer's are
read from memory. Calls are replayed from a CUDA graph where the kernel can be captured, so that
short ones are not timed by their launches; `timing` says which. Prints JSON lines: the device, a
line for each layer and number of tokens, then a line a number of tokens for the whole block.
"""

import argparse
import importlib.util
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from evenprune.base.errors import UserError
from evenprune.serving.device import copy_bandwidth, gemm_rate
from evenprune.serving.formulas import sparse24_bytes
from evenprune.serving.shapes import QWEN25_7B
from evenprune.serving.sparse24 import compress

TOKENS = [2**power for power in range(13)]
FORMS = ("dense", "cusparselt", "cutlass", "triton")
WORKING_SET = 512 << 20  # bytes of dense weights, several times the largest cache
TOLERANCE = 0.02  # of the largest result; 16-bit outputs of sums in float32

Product = Callable[[Tensor], Tensor]


def check_device() -> None:
    """Raise UserError where there is no GPU with 2:4 products."""
    if not torch.cuda.is_available():
        raise UserError(
            "bench_sparse24 needs a CUDA device, but torch sees none here: nothing was measured; "
            "run it on a machine with an NVIDIA GPU of compute capability 8.0 or more"
        )
    capability = torch.cuda.get_device_capability()
    if capability < (8, 0):
        raise UserError(
            f"bench_sparse24 needs compute capability 8.0 or more for 2:4 products, but "
            f"{torch.cuda.get_device_name()} has {capability[0]}.{capability[1]}; use another GPU"
        )


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
        from evenprune.serving.kernel24 import product

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
        except (RuntimeError, ValueError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            for count in tokens:
                found[count][form] = {"reason": reason}
            continue
        for count, x in inputs.items():
            expected = x.float() @ weights[0].float().T
            try:
                error = error_of(products[0](x), expected)
                if error > TOLERANCE:
                    found[count][form] = {"reason": f"wrong result, error {error:.3g}"}
                    continue
                us, timing = timer(products, x)
            except (RuntimeError, ValueError, NotImplementedError) as failure:
                found[count][form] = {"reason": str(failure).splitlines()[0]}
                continue
            found[count][form] = {"us": us, "timing": timing, "error": error}
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


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all layers; return 0, or 2 after one sentence where that is not possible."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, nargs="*", default=TOKENS)
    parser.add_argument("--dtype", choices=("bfloat16", "float16"), default="bfloat16")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--out", type=Path, help="file for the JSON lines as well")
    args = parser.parse_args(argv)
    try:
        check_device()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    dtype = getattr(torch, args.dtype)
    forms = [f for f in FORMS if f != "triton" or importlib.util.find_spec("triton")]
    bandwidth, rate = copy_bandwidth("cuda", 1 << 30), gemm_rate("cuda", dtype)
    lines: list[dict[str, Any]] = [
        {
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "dtype": args.dtype,
            "copy_bytes_per_s": bandwidth,
            "gemm_flop_per_s": rate,
            "forms": forms,
        }
    ]
    print(json.dumps(lines[0]), flush=True)
    layers, floors = {}, {}
    for name, shape in QWEN25_7B.linears().items():
        layers[name] = measure_layer(
            shape, args.tokens, dtype, forms, lambda p, x: time_us(p, x, args.repetitions)
        )
        floors[name] = {
            count: {
                kind: floor_us(shape, count, 8 * dtype.itemsize, kind == "2of4", bandwidth, rate)
                for kind in ("dense", "2of4")
            }
            for count in args.tokens
        }
        for count, cells in layers[name].items():
            line = {"layer": name, "shape": shape, "tokens": count}
            lines.append({**line, "forms": cells, "floor_us": floors[name][count]})
            print(json.dumps(lines[-1]), flush=True)
    for row in block_rows(layers, floors):
        lines.append(row)
        print(json.dumps(row), flush=True)
    if args.out:
        args.out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
