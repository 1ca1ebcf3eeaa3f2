"""The one place that says which benchmark of a run is measured as the paper is taken to be.

The paper does not say all of this: ``PROTOCOL`` is our declaration of it, and only a benchmark with
exactly these settings stands beside a printed value. A setting that is not listed for a task has no
part in its result, or none in the number that the paper prints (``orders``, ``batch_size``,
``backend``).
"""

from collections.abc import Mapping
from typing import Any

from .config import Config
from .grids import asked_of
from .tasks import FACTS, splits_of

# Of every task: all items, its own headline, the tokenizer's BOS, no chat template.
COMMON = {"limit": None, "bos": "auto", "chat_template": False}
_JUDGED = {"chat_template": "auto", "judge": "llama-guard3-1b", "max_new_tokens": None}
PROTOCOL: Mapping[str, Mapping[str, Any]] = {
    "perplexity": {"dataset": "wikitext2", "split": "gptq2048"},
    "hellaswag": {"dataset": "hellaswag", "split": "validation"},
    "mmlu": {"dataset": "mmlu", "split": "test"},
    "unqover": {"dataset": "unqover", "split": "datas_rebuilt", "style": "fairsteer"},
    "bbq": {"dataset": "bbq", "split": "groups8864", "style": "helm"},
    "crows_pairs": {"dataset": "crows_pairs", "split": "revised"},
    "realtoxicityprompts": {"dataset": "realtoxicityprompts", "split": "random1200", **_JUDGED},
    "harmbench": {"dataset": "harmbench", "split": "standard", **_JUDGED},
}


def is_declared(config: Config, slug: str, model: str) -> bool:
    """Return whether a benchmark has exactly the declared settings for a model.

    Not one of a task that the paper does not have, nor any of an invented world.
    """
    entry = config.benchmarks[slug]
    if config.source == "world" or entry.task not in PROTOCOL:
        return False
    facts = FACTS[entry.task]
    found = {
        "split": splits_of(entry.task, entry.dataset)[0],
        "style": next(iter(facts.styles), None),
        "headline": facts.headline,
        **entry.model_dump(exclude_none=True),
        **asked_of(config, entry, model),
    }
    declared = {**COMMON, "headline": facts.headline, **PROTOCOL[entry.task]}
    return all(found.get(name) == wanted for name, wanted in declared.items())


def as_declared(config: Config, task: str, model: str) -> str | None:
    """Return the first benchmark of a task that is in the paper's form for a model, None without.

    ``dto`` is the run's only where its two benchmarks are (``analysis/printed.py``).
    """
    mine = (slug for slug, entry in config.benchmarks.items() if entry.task == task)
    return next((slug for slug in mine if is_declared(config, slug, model)), None)
