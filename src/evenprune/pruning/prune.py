"""Prune the linear layers of a model's decoder blocks.

Reads a Hugging Face folder (safetensors) and calibration text, writes a Hugging Face folder
with manifest.json, provenance.json and layers.csv. A killed run continues when it is started again.
"""

import argparse
import sys
from pathlib import Path

from ..models.trust import add_trust_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``prune``."""
    add = parser.add_argument
    add("--model", type=Path, required=True, metavar="DIR", help="folder of the base model")
    add("--pairs", type=Path, metavar="FILE", help="sentence pairs, JSON lines (not for magnitude)")
    add("--texts", type=Path, metavar="FILE", help="further calibration texts, JSON lines")
    add("--out", type=Path, required=True, metavar="DIR", help="folder of the pruned model")
    add("--method", required=True, help="magnitude, wanda, sparsegpt or debias-sparsegpt")
    add("--regime", required=True, help="u25, u50 (unstructured), 1of4 or 2of4 (zeros of 4)")
    add("--bias-weight", type=float, default=1.0, metavar="B", help="weight of the bias term")
    add(
        "--bias-scaling",
        choices=("equation", "released-code"),
        default="equation",
        help="the paper's equation, or the authors' code, where pair k weighs B·k",
    )
    add("--block-size", type=int, default=128, metavar="N", help="columns between two products")
    add("--damping", type=float, default=0.01, metavar="D", help="share of the mean diagonal")
    add("--alignment", choices=("equal-length", "pad", "suffix"), default="equal-length")
    add("--sequential", choices=("block", "module"), default="block")
    add("--packing", choices=("shared-prefix", "sentences"), default="shared-prefix")
    add("--seed", type=int, default=0, help="recorded; pruning itself draws no random numbers")
    add("--device", choices=("cpu", "cuda"), help="default: cuda where there is a GPU")
    add("--work", type=Path, metavar="DIR", help="where unfinished results lie, kept when killed")
    add_trust_argument(parser)


def run(args: argparse.Namespace) -> None:
    """Check the options, read and tokenise the text, prune."""
    from ..base.checksums import check_calibration_file, source_folder
    from ..base.errors import UserError
    from ..base.gpu import claim_device
    from ..base.outputs import PRUNED, check_folder
    from ..data.calibration import read_pairs, read_texts, tokenize_pairs, tokenize_texts
    from ..models.architecture import max_positions
    from ..models.identity import identify
    from ..models.loading import limit_threads, load_tokenizer, pick_device
    from .engine import Options, Text, prune_model
    from .workspace import check_work

    options = Options(
        method=args.method,
        regime=args.regime,
        bias_weight=args.bias_weight,
        bias_scaling=args.bias_scaling,
        block_size=args.block_size,
        damping=args.damping,
        alignment=args.alignment,
        sequential=args.sequential,
        packing=args.packing,
        seed=args.seed,
    )
    options.check()
    record, args.model = args.model, source_folder(args.model)
    inputs = [args.model, record, args.pairs, args.texts]
    check_folder(args.out, PRUNED, inputs)
    check_work(args.work, args.out, inputs)
    identify(args.model)
    tokenizer = load_tokenizer(args.model)
    text = Text()
    if args.method == "magnitude":
        if args.pairs or args.texts:
            print("magnitude uses no text: --pairs and --texts are ignored", file=sys.stderr)
    elif args.pairs is None:
        raise UserError(f"method {args.method} needs calibration text: give --pairs FILE")
    else:
        pairs = tokenize_pairs(read_pairs(args.pairs), tokenizer, args.alignment)
        print(f"calibration: {len(pairs.pairs)} pairs, {pairs.dropped} dropped", file=sys.stderr)
        texts = []
        if args.texts:
            rows = read_texts(args.texts)
            ids = tokenize_texts([row["text"] for row in rows], tokenizer)
            limit = max_positions(args.model)
            long = sum(len(tokens) > limit for tokens in ids)
            if long:
                print(f"{long} texts cut to the model's {limit} positions", file=sys.stderr)
            texts = [(row["id"], tokens[:limit]) for row, tokens in zip(rows, ids, strict=True)]
        text = Text(
            pairs,
            texts,
            check_calibration_file(args.pairs),
            check_calibration_file(args.texts) if args.texts else None,
        )
    limit_threads()
    with claim_device(pick_device(args.device)) as device:
        prune_model(args.model, options, text, args.out, device, args.work)
