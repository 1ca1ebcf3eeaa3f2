"""The model and the text that ``gpu-check`` works on, random and of a real shape, and its runs."""

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from ..blocks.packing import Text
from ..data.calibration import TokenizedPairs, TokenPair, align
from ..io.files import read_json
from ..methods.options import Options
from ..methods.solver import column_loop
from ..pruning.compare_masks import compare_models
from ..pruning.engine import prune_model

OPTIONS = Options("debias-sparsegpt", "2of4")
DTYPE = torch.bfloat16  # of the run that is timed
VOCABULARY = 2048  # of the compared models, so that they are small


@dataclass(frozen=True)
class Trial:
    """What is run: the shape of a Llama with tied embeddings, and how much text.

    timed: pairs, texts and tokens a text of the run that is timed; compared: the same three of the
    run whose masks are compared with the CPU's, on two blocks.
    """

    shape: dict[str, Any]
    timed: tuple[int, int, int]
    compared: tuple[int, int, int]


SHAPE = (
    *("hidden_size", "intermediate_size", "num_hidden_layers"),
    *("num_attention_heads", "num_key_value_heads", "vocab_size"),
)
TRIALS = {
    # The shape of a Llama of 1.2 billion parameters; the paper's text.
    "1b": Trial(dict(zip(SHAPE, (2048, 8192, 16, 32, 8, 128256))), (2106, 256, 512), (64, 8, 512)),
    "tiny": Trial(dict(zip(SHAPE, (64, 128, 3, 4, 2, 256))), (12, 3, 20), (8, 2, 16)),
}


def write_model(folder: Path, shape: dict[str, Any], dtype: torch.dtype) -> int:
    """Write a random Llama and return the bytes of its weights."""
    config = LlamaConfig(**shape, tie_word_embeddings=True, bos_token_id=0, eos_token_id=1)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    model.save_pretrained(folder)
    return int(model.num_parameters() * dtype.itemsize)


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
    size = write_model(work / "base", trial.shape, DTYPE)
    text = random_text(trial.shape["vocab_size"], *trial.timed)
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
    model, vocabulary = work / "base-float32", min(VOCABULARY, trial.shape["vocab_size"])
    changed = {"num_hidden_layers": 2, "vocab_size": vocabulary}
    write_model(model, trial.shape | changed, torch.float32)
    text = random_text(vocabulary, *trial.compared)
    for name, place in (("on-cpu", "cpu"), ("on-device", device)):
        prune_model(model, OPTIONS, text, work / name, place)
    return [
        {"module": row["module"], "rows": row["rows"], "columns": row["columns"]}
        | {name: float(row[name]) for name in ("disagreement", "relative_frobenius")}
        for row in compare_models(work / "on-device", work / "on-cpu")
    ]
