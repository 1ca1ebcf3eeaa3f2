"""The long jobs of a run, and the floating point operations of their forward passes.

The assumptions that stand in for data that is not counted yet are ``ITEMS``, ``ITEM_TOKENS`` and
``PAIR_TOKENS``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ..base.errors import UserError
from ..base.files import read_json
from . import grids
from .config import Benchmark
from .facts import NO_CALIBRATION
from .grids import Checkpoint
from .paths import Paths
from .sizes import ModelSize
from .tasks import JUDGED, splits_of

# Assumed number of items of a task's split (of its default one under ""), of perplexity tokens.
ITEMS = {
    "perplexity": {"": 300_000},
    "hellaswag": {"": 10_042},
    "mmlu": {"": 14_042, "validation": 1_531, "dev": 285},
    "crows_pairs": {"": 1_677, "anonymized": 1_508},
    "stereoset": {"": 2_106},
    "unqover": {"": 40_008, "sampled": 3_000},
    "bbq": {"": 58_492, "helm1000": 1_000, "groups8864": 8_864},
    "realtoxicityprompts": {"": 1_200},
    "harmbench": {"": 200, "all": 400, "contextual": 100, "copyright": 100},
    "multiple_choice": {"": 1_000},
    "lm_eval": {"": 1_000},
}
# Assumed tokens that a model reads for one item, all its options together.
ITEM_TOKENS = {
    **{"perplexity": 1, "hellaswag": 400, "mmlu": 130, "crows_pairs": 40, "stereoset": 40},
    **{"unqover": 90, "bbq": 100, "realtoxicityprompts": 20, "harmbench": 50},
    **{"multiple_choice": 130, "lm_eval": 200},
}
NEW_TOKENS = 256  # of an answer, where the configuration does not say
PAIR_TOKENS = 24  # of two sentences
PAIRS = {"stereoset": 2_106, "crows_pairs": 1_677, "question_pairs": 1_000}
OWN_ROWS = 100  # of a file of the user's own


@dataclass(frozen=True)
class Job:
    """A job whose time counts: what it makes, below the results, and its operations.

    Times of jobs of one ``kind`` are in proportion to ``flops``. ``makes``: bytes left on the disk.
    """

    kind: str
    out: str
    flops: float
    makes: float = 0.0


def long_jobs(paths: Paths, sizes: Mapping[str, ModelSize]) -> list[Job]:
    """Return the jobs that prune, export, evaluate and measure."""
    config, found = paths.config, []
    for point in paths.checkpoints:
        size, base = sizes[point.model], grids.base_method(config, point.method)
        if not point.is_base:
            flops = 2 * size.parameters * _calibration_tokens(paths, point)
            found.append(Job(f"prune {base}", f"pruned/{point.key}/model", flops, size.bytes))
        if paths.is_exported(point):
            # Values of half the weights and two bits a place: 9/16 in half precision.
            found.append(Job("export", f"exported/{point.key}", 0.0, size.bytes * 9 / 16))
        entries = grids.benchmarks_of(config, point).values()
        tokens = sum(map(_benchmark_tokens, entries))
        found.append(Job("evaluate", f"evals/{point.key}", 2 * size.parameters * tokens))
    serving = config.serving
    for model in dict.fromkeys(point.model for point in grids.serving_checkpoints(config)):
        steps = serving.new_tokens * (serving.rounds + 1) * len(paths.served(model))
        flops = 2 * sizes[model].parameters * sum(serving.batch_sizes) * steps
        found.append(Job("serve", f"serving/{model}/efficiency.json", flops))
    return found


def _calibration_tokens(paths: Paths, point: Checkpoint) -> float:
    """Return the tokens that a checkpoint is calibrated on, counted or else assumed; 1 for none."""
    if point.calibration == NO_CALIBRATION:
        return 1.0
    try:
        tokens = read_json(paths.calibration_manifest(point) or "")["tokens"]
        return float(sum(tokens.values()) if isinstance(tokens, dict) else tokens)
    except (UserError, KeyError, TypeError, ValueError):
        entry = paths.config.calibrations[point.calibration]
        pairs = sum(PAIRS.get(name, OWN_ROWS) for name in entry.pairs)
        texts = entry.n_texts or (OWN_ROWS if entry.texts else 0)
        return float(pairs * PAIR_TOKENS + texts * entry.max_tokens)


def _benchmark_tokens(entry: Benchmark) -> float:
    split = entry.split or splits_of(entry.task, entry.dataset)[0]
    counts = ITEMS[entry.task]
    items = counts.get(split, counts[""])
    items = min(items, entry.limit or items) * (entry.orders or 1)
    answer = (entry.max_new_tokens or NEW_TOKENS) if entry.task in JUDGED else 0
    return float(items * (ITEM_TOKENS[entry.task] + answer))
