"""Which values of a number of results.csv are good: once, for columns, tests and claims."""

from ..plan import tasks
from ..plan.tasks import FACTS, Direction

# Of numbers that no benchmark's own metrics are: the distances to the optimum, fidelity to the
# dense model, and what serving measures.
DERIVED: dict[str, Direction] = {
    "dto": "down",
    "dto_chance": "down",
    "dto_bbq": "down",
    "flips": "down",
    "kappa": "up",
    "js_divergence": "down",
    "decode_tok_per_s": "up",
    "decode_tok_per_s_ratio": "up",
    "j_per_token": "down",
    "j_per_token_net": "down",
    "kg_co2e_per_mtok": "down",
}


def direction(task: str, metric: str) -> Direction:
    """Return which values of a metric are good; "" where no value is the better one.

    ``task`` is the benchmark's task, or what results.csv calls a derived row.
    """
    if metric in DERIVED:
        return DERIVED[metric]
    return tasks.direction(task, metric) if task in FACTS else ""


def gain(task: str, metric: str, candidate: float, baseline: float) -> float:
    """Return how much better ``candidate`` is; 0 where no value is the better one.

    Shares of stereotypes are compared by their distance from one half, bias scores from zero.
    """
    way = direction(task, metric)
    if way in ("half", "zero"):
        best = 0.5 if way == "half" else 0.0
        return abs(baseline - best) - abs(candidate - best)
    if not way:
        return 0.0
    return baseline - candidate if way == "down" else candidate - baseline


def better(task: str, metric: str, candidate: float, baseline: float) -> bool:
    """Return whether ``candidate`` is the better value."""
    return gain(task, metric, candidate, baseline) > 0
