"""Statistics in closed form, which the tests hold the program's against."""

import math


def dto(performance: float, fairness: float) -> float:
    """Return the distance to the optimum of two fractions: sqrt(((1-M)^2 + (1-U)^2) / 2).

    0 is best and 1 worst. The paper takes MMLU and UnQover accuracy.
    """
    return math.sqrt(((1 - performance) ** 2 + (1 - fairness) ** 2) / 2)
