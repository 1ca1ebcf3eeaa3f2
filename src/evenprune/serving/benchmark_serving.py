"""Measure throughput, energy and CO2 of one checkpoint; write efficiency.json.

The same stack serves dense and sparse checkpoints. Prompts have one fixed length, every run
makes a fixed number of new tokens greedily. Per batch size: time to first token, prefill and
decode tokens/s, J/token, kWh/Mtok and kg CO2e/Mtok, each as median and quartiles; and the bounds
that the device's bandwidth and arithmetic, measured in the same run, set for dense and 2:4
weights. A pruned checkpoint saved as ordinary weights runs on dense kernels and the output says
so. The file is a measurement: only its fields spec, digest, model_sha256 and prompts are the
same from run to run.
"""

import argparse
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..base.checksums import sealed, source_folder
from ..base.errors import UserError
from ..base.files import digest, write_json
from ..base.gpu import add_gpus_argument
from ..base.outputs import check_file, check_ours
from ..base.progress import Progress
from ..models.identity import identify
from ..models.loading import DTYPES, limit_threads, load_config, load_tokenizer, own_dtype
from ..models.trust import add_trust_argument, trust_record
from . import workload as prompting
from .backends import BACKENDS, DENSE, choose, load_backend, system
from .energy import EnergyMeter
from .formulas import PAPER_INTENSITY
from .measure import measure_batch, summarize
from .roofline import bounds, measure_device


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1 or len(set(sizes)) != len(sizes):
        raise argparse.ArgumentTypeError(
            f"expected different positive numbers joined by commas, got {text!r}"
        )
    return sizes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``benchmark-serving``."""
    add = parser.add_argument
    add("--model", type=Path, required=True, help="model folder, dense or pruned")
    add("--prompts", type=Path, required=True, help="texts.jsonl, UltraChat folder or its record")
    add("--out", type=Path, required=True, help="JSON file; provenance.json goes beside it")
    # What those without a help mean is said in plan/sections.py.
    add("--backend", choices=BACKENDS, default="auto")
    add("--batch-sizes", type=_sizes, default=[1, 8], help="sequences at a time, as in 1,8,32")
    add("--new-tokens", type=int, default=64)
    add("--prompt-tokens", type=int, default=32)
    add("--repetitions", type=int, default=5)
    add("--warmup", type=int, default=1)
    add("--min-seconds", type=float, default=0.5, help="shortest measured region")
    add("--carbon-intensity", type=float, default=PAPER_INTENSITY)
    add("--device", choices=("cpu", "cuda"))
    add("--dtype", choices=DTYPES, default="auto", help="auto: the checkpoint's own")
    add("--seed", type=int, default=0)
    add_gpus_argument(parser)
    add_trust_argument(parser)


def check_arguments(args: argparse.Namespace) -> None:
    """Raise UserError for a number that makes no measurement."""
    least = {"new_tokens": 2, "prompt_tokens": 1, "repetitions": 1, "warmup": 1}
    for name, minimum in least.items():
        if getattr(args, name) < minimum:
            raise UserError(
                f"expected --{name.replace('_', '-')} of at least {minimum}, "
                f"got {getattr(args, name)}; give a larger number"
            )
    if args.carbon_intensity <= 0:
        raise UserError(
            f"expected --carbon-intensity above 0 kg CO2e per kWh, got {args.carbon_intensity}; "
            f"the paper uses {PAPER_INTENSITY}"
        )


def add_bounds(metrics: dict[str, Any], limits: dict[str, float], kernel: str) -> None:
    """Add the decode bounds of dense and 2:4 weights and the share of the own one reached."""
    own = limits["dense_bound" if kernel == DENSE else "2of4_bound"]
    metrics["bound_decode_tok_per_s"] = summarize([limits["dense_bound"]])
    metrics["bound_2of4_decode_tok_per_s"] = summarize([limits["2of4_bound"]])
    metrics["share_of_bound"] = summarize([metrics["decode_tok_per_s"]["value"] / own])


def run(args: argparse.Namespace) -> None:
    """Run ``benchmark-serving``."""
    check_arguments(args)
    started = datetime.now(UTC)
    clock = time.monotonic()
    limit_threads()
    record, args.model = args.model, source_folder(args.model)
    inputs = [args.model, record, args.prompts, source_folder(args.prompts)]
    beside = args.out.parent / "provenance.json"
    for file, keys in ((args.out, ("benchmark", "digest")), (beside, ("started", "load_seconds"))):
        check_file(file, inputs)
        check_ours(file, keys)
    files = prompting.prompt_files(args.prompts)
    texts = prompting.read_texts(files)
    model = identify(args.model)
    tokenizer = load_tokenizer(args.model)
    config = load_config(args.model)
    context = getattr(config, "max_position_embeddings", None)
    length = prompting.prompt_length(context, args.prompt_tokens, args.new_tokens)
    if length < args.prompt_tokens:
        print(f"prompts cut to {length} tokens: the model's context is {context}")
    prompts = prompting.make_prompts(texts, tokenizer, max(args.batch_sizes), length, args.seed)

    chosen = choose(args.backend)
    if chosen != args.backend:
        found = "vLLM is installed here" if chosen == "vllm" else "no vLLM in this environment"
        print(f"--backend {args.backend}: {found}, measuring with {chosen}")
    backend, load_s = load_backend(
        chosen, args.model, args.device, own_dtype(args.dtype, config), max(args.batch_sizes),
        length + args.new_tokens, args.seed, args.gpus,
    )  # fmt: skip
    described = backend.describe()
    spec = {
        "backend": backend.name,
        "device": backend.device,
        "dtype": described["dtype"],
        "batch_sizes": args.batch_sizes,
        "new_tokens": args.new_tokens,
        "prompt_tokens": length,
        "repetitions": args.repetitions,
        "warmup": args.warmup,
        "min_seconds": args.min_seconds,
        "carbon_intensity": args.carbon_intensity,
        "seed": args.seed,
        **trust_record(),
    }
    meter = EnergyMeter(backend.device, args.carbon_intensity)
    idle = meter.idle_watts()
    progress = Progress(len(args.batch_sizes) * (args.repetitions + 1), "benchmark-serving")
    categories: dict[str, Any] = {}
    try:
        for size in args.batch_sizes:
            categories[f"batch {size}"], reading = measure_batch(
                backend.generate, meter, prompts[:size], args.new_tokens, args.warmup,
                args.repetitions, args.min_seconds, args.carbon_intensity, idle, progress.update,
            )  # fmt: skip
    finally:
        meter.close()
    limits = measure_device(args.model, backend.device, described["dtype"])
    for size in args.batch_sizes:
        add_bounds(categories[f"batch {size}"], bounds(limits, size), described["kernel"])
    scope = reading.scope(backend.device)
    identity = {
        "spec": spec,
        **model.as_dict(),
        "prompts": {
            "files": prompting.prompt_identity(files),
            "tokens_sha256": digest(prompts),
        },
    }
    result = {
        "benchmark": "serving",
        "task": "serving",
        **identity,
        "digest": digest(identity),
        "headline": "decode_tok_per_s",
        "metrics": categories[f"batch {args.batch_sizes[0]}"],
        "categories": categories,
        "backend": described,
        "system": system(backend.device),
        "energy": {
            "source": reading.source(scope),
            "scope": list(scope),
            "components": {
                name: {
                    "source": reading.sources[name],
                    "method": reading.methods[name],
                    "watts": joules / reading.seconds,
                }
                for name, joules in reading.joules.items()
            },
            "idle_watts": idle,
            "tracker": {"name": "codecarbon offline", "version": meter.version},
        },
        "roofline": limits,
    }
    write_json(args.out, sealed(result))
    write_json(
        beside,
        {
            "started": started.isoformat(timespec="seconds"),
            "seconds": time.monotonic() - clock,
            "load_seconds": load_s,
            "host": platform.node(),
        },
    )
    headline = result["metrics"]
    print(
        f"{described['name']} {described['version']}, {described['kernel']}, batch "
        f"{args.batch_sizes[0]}: {headline['decode_tok_per_s']['value']:.1f} tok/s decode, "
        f"{headline['j_per_token']['value']:.4g} J/token, "
        f"{headline['kg_co2e_per_mtok']['value']:.3g} kg CO2e/Mtok ({result['energy']['source']})"
    )
