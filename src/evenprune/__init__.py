"""Bias-aware one-shot pruning of causal language models, its evaluation and its tables."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparison.compare import compare
    from .comparison.evaluate import evaluate
    from .pruning.check import check
    from .pruning.prune import prune
    from .serving.export_sparse24 import export_sparse24

__version__ = "0.2.0"
__all__ = ["__version__", "check", "compare", "evaluate", "export_sparse24", "prune"]
# Imported when they are asked for: torch and SciPy take seconds.
_ROOMS = {
    "prune": "pruning",
    "check": "pruning",
    "evaluate": "comparison",
    "compare": "comparison",
    "export_sparse24": "serving",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_ROOMS[name]}.{name}", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *_ROOMS]
