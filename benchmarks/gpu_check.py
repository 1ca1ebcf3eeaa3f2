"""Check on a GPU what was written without one: does it run, agree with the CPU, how fast is it?

    python benchmarks/gpu_check.py --out FILE
    python benchmarks/gpu_check.py --out FILE --device cpu --size tiny

Prunes a random model of a real shape (nothing is downloaded), compares its masks with the CPU's,
and times each phase; the JSON that it writes holds no host or user names. Ten minutes or less;
about 9 GB of disk below --work.
"""

import argparse
import json
import platform
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights
from transformers import AutoModelForCausalLM, LlamaConfig

import evenprune
from evenprune.data.calibration import TokenizedPairs, TokenPair, align
from evenprune.io.codedigest import package_versions
from evenprune.io.files import read_json, write_json
from evenprune.io.gpu import claim_device
from evenprune.models.loading import limit_threads
from evenprune.models.tensors import write_tensors
from evenprune.pruning.compare_masks import compare_models
from evenprune.pruning.engine import prune_model
from evenprune.pruning.options import Options
from evenprune.pruning.packing import Text
from evenprune.pruning.solver import column_loop
from evenprune.serving.shapes import Decoder

OPTIONS = Options("debias-sparsegpt", "2of4")
DTYPE = torch.bfloat16  # of the run that is timed
VOCABULARY = 2048  # of the compared models, so that they are small
STEPS = ("compared masks", "timed run")
POSITIONS = 2048
STANDARD_DEVIATION = 0.02  # of all weights, Llama's own


@dataclass(frozen=True)
class Trial:
    """What is run: shapes, and how much text.

    pairs, texts, text_tokens: of the run that is timed. compared: the same three of the run whose
    masks are compared with the CPU's, on two blocks.
    """

    decoder: Decoder
    pairs: int
    texts: int
    text_tokens: int
    compared: tuple[int, int, int]


TRIALS = {
    # The shape of a Llama of 1.2 billion parameters with tied embeddings; the paper's text.
    "1b": Trial(Decoder(2048, 8192, 16, 32, 8, 128256), 2106, 256, 512, (64, 8, 512)),
    "tiny": Trial(Decoder(64, 128, 3, 4, 2, 256), 12, 3, 20, (8, 2, 16)),
}


def write_model(
    folder: Path, decoder: Decoder, blocks: int, vocabulary: int, dtype: torch.dtype
) -> int:
    """Write a random Llama of some ``blocks`` and return the bytes of its weights.

    One file a block, so that no more than one is in memory. The same on every machine.
    """
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=decoder.hidden,
        intermediate_size=decoder.intermediate,
        num_hidden_layers=blocks,
        num_attention_heads=decoder.heads,
        num_key_value_heads=decoder.kv_heads,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        dtype=str(dtype).removeprefix("torch."),
        architectures=["LlamaForCausalLM"],
        bos_token_id=0,
        eos_token_id=1,
    )
    with init_empty_weights():
        model = AutoModelForCausalLM.from_config(config)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config.to_dict(), default=str))
    generator = torch.Generator().manual_seed(0)
    shards: list[dict[str, torch.Size]] = [{} for _ in range(blocks + 1)]
    for name, parameter in model.named_parameters():
        parts = name.split(".")
        number = int(parts[2]) + 1 if parts[1] == "layers" else 0
        shards[number][name] = parameter.shape
    weight_map = {}
    total = 0
    for number, shapes in enumerate(shards):
        file = f"model-{number + 1:05d}-of-{len(shards):05d}.safetensors"
        tensors = {}
        for name, shape in shapes.items():
            one = torch.ones(shape)
            if len(shape) > 1:
                one.normal_(std=STANDARD_DEVIATION, generator=generator)
            tensors[name] = one.to(dtype)
            weight_map[name] = file
            total += tensors[name].numel() * dtype.itemsize
        write_tensors(folder / file, tensors)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    write_json(folder / "model.safetensors.index.json", index)
    return total


def random_text(vocabulary: int, pairs: int, texts: int, text_tokens: int) -> Text:
    """Return random pairs that differ in one token, shaped as StereoSet's, and random texts.

    A sentence has 8 to 16 tokens; the one that differs stands behind two thirds of them.
    """
    rng = random.Random(0)
    found: list[TokenPair] = []
    for number in range(pairs):
        ids0 = [rng.randrange(2, vocabulary) for _ in range(rng.randint(8, 16))]
        ids1 = list(ids0)
        ids1[len(ids0) * 2 // 3] = rng.randrange(2, vocabulary)
        aligned = align(ids0, ids1, "equal-length")
        assert aligned is not None
        found.append(TokenPair(f"pair {number}", "random", *aligned))
    kept = {"random": {"total": pairs, "kept": pairs, "dropped": 0}}
    others = [
        (f"text {number}", [rng.randrange(2, vocabulary) for _ in range(text_tokens)])
        for number in range(texts)
    ]
    return Text(TokenizedPairs(found, 0, kept), others)


def timed(trial: Trial, device: str, work: Path) -> dict[str, Any]:
    """Prune the random model; return seconds of each phase, bytes, memory.

    device: ``cpu`` or ``cuda:N``. ``rest`` is what lies outside the blocks' phases: checking and
    probing the model, embeddings, files beside the shards.
    """
    decoder = trial.decoder
    size = write_model(work / "base", decoder, decoder.layers, decoder.vocabulary, DTYPE)
    text = random_text(decoder.vocabulary, trial.pairs, trial.texts, trial.text_tokens)
    cuda = torch.device(device).type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    prune_model(work / "base", OPTIONS, text, work / "pruned", device)
    record = read_json(work / "pruned" / "provenance.json")
    phases: Counter[str] = sum((Counter(one["phases"]) for one in record["blocks"]), Counter())
    rest = record["seconds"] - sum(phases.values())
    return {
        "method": OPTIONS.method,
        "regime": OPTIONS.regime,
        "dtype": str(DTYPE).removeprefix("torch."),
        "weight_bytes": size,
        "phases": {**phases, "rest": rest, "all": record["seconds"]},
        "blocks": [block["seconds"] for block in record["blocks"]],
        "implementation": column_loop(torch.device(device)),
        "peak_device_bytes": torch.cuda.max_memory_allocated(device) if cuda else None,
    }


def compared(trial: Trial, device: str, work: Path) -> list[dict[str, Any]]:
    """Prune two blocks in float32 on the CPU and on the device; return a row for each matrix.

    Rounding differs, and grows from block to block: the first block's masks should be nearly the
    same, the second's follow from other inputs. What a row has, it has from ``compare-masks``.
    """
    model = work / "base-float32"
    write_model(model, trial.decoder, 2, min(VOCABULARY, trial.decoder.vocabulary), torch.float32)
    text = random_text(min(VOCABULARY, trial.decoder.vocabulary), *trial.compared)
    for name, place in (("on-cpu", "cpu"), ("on-device", device)):
        prune_model(model, OPTIONS, text, work / name, place)
    return [
        {"module": row["module"], "rows": row["rows"], "columns": row["columns"]}
        | {name: float(row[name]) for name in ("disagreement", "relative_frobenius")}
        for row in compare_models(work / "on-device", work / "on-cpu")
    ]


def check(device: str, size: str, work: Path) -> dict[str, Any]:
    """Run all steps on ``cpu`` or ``cuda:N``; return what was found, for the JSON file."""
    trial = TRIALS[size]
    if torch.device(device).type == "cuda":
        torch.cuda.set_device(device)  # what is measured without a name of a device is here
    torch.set_float32_matmul_precision("highest")
    seconds: dict[str, float] = {}
    began = time.monotonic()

    def step(name: str, call: Callable[[], Any]) -> Any:
        start = time.monotonic()
        print(f"gpu-check {len(seconds) + 1}/{len(STEPS)}: {name}", file=sys.stderr, flush=True)
        found = call()
        seconds[name] = time.monotonic() - start
        return found

    masks = step("compared masks", lambda: compared(trial, device, work))
    pruning = step("timed run", lambda: timed(trial, device, work))
    return {
        "gpu_check": 1,
        "size": size,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "system": system(device),
        "masks": masks,
        "pruning": pruning,
        "seconds": seconds | {"all": time.monotonic() - began},
    }


def system(device: str) -> dict[str, Any]:
    """Return what the run was on: device, versions, processor."""
    cuda = torch.device(device).type == "cuda"
    found: dict[str, Any] = {
        "device": "cpu",
        "evenprune": evenprune.__version__,
        "torch": torch.__version__,
        **package_versions("triton", "transformers"),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
    }
    if cuda:
        facts = torch.cuda.get_device_properties(device)
        found |= {
            "device": facts.name,
            "capability": f"{facts.major}.{facts.minor}",
            "memory_bytes": facts.total_memory,
            "cuda": torch.version.cuda,
        }
    return found


def main() -> None:
    """Run all steps and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--size", choices=tuple(TRIALS), default="1b")
    parser.add_argument("--work", type=Path, metavar="DIR", help="of temporary models")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device here: nothing was measured")
    if args.device == "cpu" and args.size != "tiny":
        parser.error("on a CPU that would take hours: add --size tiny")
    limit_threads()
    with (
        claim_device(args.device) as device,
        tempfile.TemporaryDirectory(prefix="gpu-check-", dir=args.work) as folder,
    ):
        write_json(args.out, check(device, args.size, Path(folder)))


if __name__ == "__main__":
    main()
