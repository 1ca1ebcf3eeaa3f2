"""The mathematics of pruning: methods, a module each, found by their names, and what they share.

In come matrices that share their input and the sums over it. Out go the matrices pruned, with
reports.

A method ``some-name`` is ``METHOD`` of the module ``some_name`` here, and has its facts in
``config/facts.py``. No torch until one is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ..config.facts import PRUNING_METHODS

if TYPE_CHECKING:
    from .method import Method

# Not part of a pruning's code: it has its own method's and regime's facts as values.
FACTS = ("evenprune.config.facts",)


def module_of(name: str) -> str:
    """Return the full name of a method's module; KeyError for a name that is no method's."""
    if name not in PRUNING_METHODS:
        raise KeyError(name)
    return f"{__name__}.{name.replace('-', '_')}"


def find(name: str) -> "Method":
    """Return a method by its name; KeyError for a name that is no method's."""
    return import_module(module_of(name)).METHOD


def description(name: str) -> str:
    """Return what a method does in a sentence without its full stop, from its module."""
    first = (import_module(module_of(name)).__doc__ or "").partition("\n\n")[0]
    return " ".join(first.split()).partition(": ")[2].removesuffix(".")
