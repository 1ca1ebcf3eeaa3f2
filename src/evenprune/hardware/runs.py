"""Pruning runs of ``gpu-check``: one that is timed, and one whose masks are compared."""

from collections import Counter
from pathlib import Path
from typing import Any

import torch

from ..io.files import read_json
from ..pruning.compare_masks import compare_models
from ..pruning.engine import prune_model
from ..pruning.options import Options
from ..pruning.solver import column_loop
from .trial import Trial, random_text, write_model

OPTIONS = Options("debias-sparsegpt", "2of4")
DTYPE = torch.bfloat16  # of the run that is timed
VOCABULARY = 2048  # of the compared models, so that they are small


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
