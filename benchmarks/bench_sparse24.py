"""Products of 2:4 weights beside dense ones at the shapes of Qwen2.5-7B, run by hand on a GPU.

    PYTHONPATH=src python benchmarks/bench_sparse24.py --out sparse24.jsonl

Needs torch with CUDA and compute capability 8.0 or more, nothing else; Triton's kernel is left out
where Triton is not installed. What is measured is in `evenprune/serving/products24.py`;
`evenprune gpu-check` does the same at the shapes of a smaller model. Prints JSON lines: the device,
a line for each layer and number of tokens, then a line a number of tokens for the whole block.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from evenprune.base.errors import UserError
from evenprune.serving.device import copy_bandwidth, gemm_rate
from evenprune.serving.products24 import FORMS, block_rows, floor_us, measure_layer, time_us
from evenprune.serving.shapes import QWEN25_7B

TOKENS = [2**power for power in range(13)]


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
