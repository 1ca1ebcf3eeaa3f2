"""Which values of a number of results.csv are good: once, for columns, tests and claims."""

from typing import Any

from ..config import tasks
from ..config.tasks import FACTS, Direction

# Of numbers that no benchmark's own metrics are: the distance to the optimum, fidelity to the
# dense model, and what serving measures.
DERIVED: dict[str, Direction] = {
    "dto": "down",
    "flips": "down",
    "js_divergence": "down",
    "decode_tok_per_s": "up",
    "decode_tok_per_s_ratio": "up",
    "j_per_token": "down",
    "kg_co2e_per_mtok": "down",
}


def direction(task: str, metric: str) -> Direction:
    """Return which values of a metric are good; "" if neither high nor low is good.

    ``task`` is the benchmark's task, or what results.csv calls a derived row.
    """
    if metric in DERIVED:
        return DERIVED[metric]
    return tasks.direction(task, metric) if task in FACTS else ""


BEST_AT: dict[Direction, float] = {"half": 0.5, "zero": 0.0}


def chance(task: str, metric: str) -> float | None:
    """Return the value of a metric for a model that guesses; None where there is no such value."""
    if task in FACTS and metric in FACTS[task].chances:
        return FACTS[task].chances[metric]
    way = direction(task, metric)
    if way in BEST_AT:
        return BEST_AT[way]
    if metric.startswith("acc") and "_all_orders" not in metric and task in FACTS:
        return FACTS[task].chance
    return None


def gain(task: str, metric: str, candidate: Any, baseline: Any) -> Any:
    """Return how much better ``candidate`` is; 0 if neither high nor low is good.

    Both are numbers or arrays. Shares of stereotypes are compared by their distance from one half,
    bias scores from zero.
    """
    return gain_of(direction(task, metric), candidate, baseline)


def gain_of(way: Direction, candidate: Any, baseline: Any) -> Any:
    """Return ``gain`` of a metric whose good values lie that way."""
    if way in BEST_AT:
        return abs(baseline - BEST_AT[way]) - abs(candidate - BEST_AT[way])
    if not way:
        return 0.0
    return baseline - candidate if way == "down" else candidate - baseline
